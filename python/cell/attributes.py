"""Attributes of `self` that neither the source class nor its base defines: `self.htp` instead of `self.http`.

The check is conservative. An attribute counts as defined where anything in the file sets an attribute of that name on
any object, or any class defines one; and nothing is reported where attributes can come from elsewhere.
"""

from __future__ import annotations

import ast
from typing import Any, Callable

from cell.names import caught_nodes
from cell.scopes import Program, fold_text
from cell.source_class import BASE_ATTRIBUTES, BASE_NAMES, BASES, Classes, base_name, decorators, flat_body
from cell.suggestions import nearest
from svc.source.base import AbstractSource

Report = Callable[[ast.AST, str], None]

_INHERITED = frozenset(dir(AbstractSource)) | BASE_ATTRIBUTES
_PLAIN_BASES = BASES | {"abc.ABC", "typing.Generic", "typing.Protocol"}
# With these, attributes are read or set in ways that static analysis cannot follow.
_DYNAMIC = frozenset({"__dict__", "__getattr__", "__getattribute__", "__setattr__"})
# Finding a similar name takes time, and nobody reads a longer list.
MAX_REPORTED = 20
# Names that other libraries use for the same thing.
_OTHER_NAMES = {
    "auth": "authentication",
    "client": "http",
    "credentials": "authentication",
    "logger": "log",
    "requests": "http",
    "session": "http",
    "settings": "config",
}


def check_self_attributes(classes: Classes, source: ast.ClassDef, error: Report, warn: Report) -> None:
    program = classes.program
    lineage = classes.lineage(source)
    if not all(_is_plain(each, classes) for each in lineage):
        return
    known = _defined_attributes(program)
    if known is None:
        return
    methods = {id(each): each for node in lineage for each in flat_body(node.body) if _is_method(each)}
    expected: set[int] | None = None
    said: set[str] = set()
    for node, scope in program.nodes:
        if (
            type(node) is not ast.Attribute
            or not isinstance(node.ctx, ast.Load)
            or not isinstance(node.value, ast.Name)
        ):
            continue
        name = node.attr
        if name in known or name in said or name.startswith("__"):
            continue
        owner = scope.owner(node.value.id)
        method = methods.get(id(owner.node)) if owner is not None else None
        if method is None or _first_argument(method) != node.value.id:
            continue
        if expected is None:
            expected = caught_nodes(program, "AttributeError") | _nodes_where_self_changes(program, methods)
        if id(node) in expected or id(method) in expected:
            continue
        said.add(name)
        _report(node, node.value.id, known, error, warn)
        if len(said) == MAX_REPORTED:
            return


def _report(node: ast.Attribute, self_name: str, known: set[str], error: Report, warn: Report) -> None:
    """A typo is an error. Anything else is only a warning, because a base class of another version may define it."""
    message = f"'{self_name}.{node.attr}' is not defined by the class or its base"
    meant = nearest(node.attr, {each for each in known if not each.startswith("_")})
    if meant is not None:
        error(node, f"{message}; did you mean '{self_name}.{meant}'?")
        return
    other = _OTHER_NAMES.get(node.attr)
    warn(node, f"{message}" + (f"; did you mean '{self_name}.{other}'?" if other else ""))


def _is_plain(node: ast.ClassDef, classes: Classes) -> bool:
    """Whether the file shows all attributes of the class: no decorator, no metaclass, no base from elsewhere."""
    if node.decorator_list or node.keywords:
        return False
    for base in node.bases:
        name = base_name(base)
        known = classes.program.dotted(base.value if isinstance(base, ast.Subscript) else base) in _PLAIN_BASES
        if not (known or name in classes.all or name in BASE_NAMES or name == "object"):
            return False
    return True


def _defined_attributes(program: Program) -> set[str] | None:
    """Every attribute that the program may define; None where that cannot be determined."""
    known = set(_INHERITED)
    for scope in program.classes:
        known |= scope.names
    for node, _ in program.nodes:
        if isinstance(node, ast.Attribute):
            if node.attr in _DYNAMIC:
                return None
            if not isinstance(node.ctx, ast.Load):
                known.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = node.func.id
            if called == "vars":
                return None
            if called in ("setattr", "getattr", "hasattr"):
                text = fold_text(node.args[1]) if len(node.args) > 1 else None
                if text is not None:
                    known.add(text)
                elif called == "setattr":
                    return None
    return None if known & {"__getattr__", "__getattribute__"} - _INHERITED else known


def _is_method(node: Any) -> bool:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    return not {"staticmethod", "classmethod"} & set(decorators(node)) and _first_argument(node) is not None


def _first_argument(function: Any) -> str | None:
    arguments = [*function.args.posonlyargs, *function.args.args]
    return arguments[0].arg if arguments else None


def _nodes_where_self_changes(program: Program, methods: dict[int, Any]) -> set[int]:
    """Methods that assign to their first parameter."""
    found = set()
    for node, scope in program.nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            owner = scope.within("function")
            if owner is not None and id(owner.node) in methods and _first_argument(owner.node) == node.id:
                found.add(id(owner.node))
    return found
