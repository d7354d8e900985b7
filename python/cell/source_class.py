"""The source class of a program: which one it is, what it implements, and whether its methods can be called."""

from __future__ import annotations

import ast
from typing import Any, Callable

from cell.frameworks import METHOD_ALIASES
from cell.scopes import Program
from cell.suggestions import nearest

Report = Callable[[ast.AST, str], None]

BASES = frozenset({"svc.source.base.AbstractSource", "svc.source.base.Source"})
BASE_NAMES = frozenset({"AbstractSource", "Source"})
METHODS = {
    "get_streams": "get_streams(self)",
    "check_connection": "check_connection(self)",
    "get_records": "get_records(self, stream)",
}

# Attributes of every source (svc.source.base). A test compares the two.
BASE_ATTRIBUTES = frozenset({"authentication", "config", "http", "http_client", "log", "state"})
# Parameters that other frameworks pass, and where their values are.
_READY = {"config": "config", "logger": "log", "log": "log", "state": "state", "stream_state": "state"}


class Classes:
    """The classes of a program and how they extend each other."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.all: dict[str, ast.ClassDef] = {}
        self.star = False
        for node, scope in program.nodes:
            if isinstance(node, ast.ClassDef) and scope.kind in ("module", "class"):
                self.all[node.name] = node
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("svc.source"):
                self.star = self.star or any(alias.name == "*" for alias in node.names)
        self.functions = {
            node.name: node
            for node, scope in program.nodes
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and scope.kind == "module"
        }

    def lineage(self, node: ast.ClassDef) -> list[ast.ClassDef]:
        """The class and the classes of the same program that it extends, nearest first."""
        found = {id(node): node}
        waiting = [node]
        for each in waiting:
            for base in each.bases:
                parent = self.all.get(base_name(base))
                if parent is not None and id(parent) not in found:
                    found[id(parent)] = parent
                    waiting.append(parent)
        return waiting

    def extends(self, node: ast.ClassDef, full_names: frozenset[str], names: frozenset[str]) -> bool:
        """Whether the class, or one it extends, has a base of these full names or, not imported, bare names."""
        for each in self.lineage(node):
            for base in each.bases:
                dotted = self.program.dotted(base)
                name = base_name(base)
                if dotted in full_names or (name in names and (name not in self.all or self.star)):
                    return True
        return False

    def leaves(self, nodes: list[ast.ClassDef]) -> list[ast.ClassDef]:
        """Those that no other of them extends."""
        parents = {id(parent) for node in nodes for parent in self.lineage(node)[1:]}
        return [node for node in nodes if id(node) not in parents]

    def methods(self, node: ast.ClassDef) -> dict[str, ast.AST]:
        """Methods by name, inherited ones too. `get_streams = lambda self: […]` and `= a_function` count."""
        found: dict[str, ast.AST] = {}
        for each in reversed(self.lineage(node)):
            for statement in flat_body(each.body):
                if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    found[statement.name] = statement
                elif isinstance(statement, ast.Assign):
                    for target in statement.targets:
                        if isinstance(target, ast.Name):
                            value = statement.value
                            function = self.functions.get(value.id) if isinstance(value, ast.Name) else None
                            found[target.id] = function or value
        return found


def base_name(base: Any) -> str:
    if isinstance(base, ast.Subscript):
        base = base.value
    if isinstance(base, ast.Attribute):
        return base.attr
    return base.id if isinstance(base, ast.Name) else ""


def flat_body(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements of a body, those inside `if`, `try` and `with` too: they bind in the same scope."""
    found: list[ast.stmt] = []
    waiting = list(reversed(body))
    while waiting:
        each = waiting.pop()
        found.append(each)
        if isinstance(each, (ast.If, ast.Try, ast.With)):
            for field in ("finalbody", "orelse", "body"):
                waiting.extend(reversed(getattr(each, field, ())))
    return found


def find_source_class(classes: Classes, error: Report, warn: Report) -> ast.ClassDef | None:
    """The class that the platform will build: the last complete one that no other extends."""
    top = [node for node, scope in classes.program.nodes if isinstance(node, ast.ClassDef) and scope.kind == "module"]
    sources = [node for node in top if classes.extends(node, BASES, BASE_NAMES)]
    if not sources:
        _report_no_source(classes, top, error)
        return None
    leaves = classes.leaves(sources) or sources
    complete = [node for node in leaves if all(name in classes.methods(node) for name in METHODS)]
    chosen = (complete or leaves)[-1]
    others = [node.name for node in leaves if node is not chosen]
    if others:
        names = ", ".join(f"'{name}'" for name in others)
        warn(chosen, f"more than one source class: '{chosen.name}' is used, {names} ignored")
    return chosen


def _report_no_source(classes: Classes, top: list[ast.ClassDef], error: Report) -> None:
    alike = [node for node in top if set(METHODS) & set(classes.methods(node))]
    if alike:
        error(
            alike[-1],
            f"class '{alike[-1].name}' does not extend the base class: from svc.source.base import AbstractSource, "
            f"then class {alike[-1].name}(AbstractSource)",
        )
    else:
        wanted = ", ".join(METHODS.values())
        error(
            classes.program.tree,
            f"no source class: define a class that extends AbstractSource from svc.source.base, with {wanted}",
        )


def check_methods(classes: Classes, node: ast.ClassDef, error: Report) -> dict[str, Any]:
    """Reports methods that are missing or cannot be called as the platform calls them; returns those that exist."""
    methods = classes.methods(node)
    for name, form in METHODS.items():
        method: Any = methods.get(name)
        if method is None:
            error(node, f"class '{node.name}' does not implement {name}: def {form}{_meant_method(name, methods)}")
        elif isinstance(method, ast.AsyncFunctionDef):
            error(method, f"{name} is async; write it as a plain function; self.http waits for answers by itself")
        elif isinstance(method, (ast.FunctionDef, ast.Lambda)):
            _check_signature(name, method, error)
    return methods


def _meant_method(name: str, methods: dict[str, Any]) -> str:
    """A method that the author most likely meant to give this name."""
    others = [each for each in methods if each not in METHODS]
    meant = next((each for each in METHOD_ALIASES[name] if each in others), None) or nearest(name, others)
    return f"; it has '{meant}': did you mean '{name}'?" if meant else ""


def decorators(function: Any) -> list[str]:
    names = []
    for each in getattr(function, "decorator_list", ()):
        each = each.func if isinstance(each, ast.Call) else each
        names.append(each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "?"))
    return names


def _check_signature(name: str, function: Any, error: Report) -> None:
    wrapped = [each for each in decorators(function) if each not in ("abstractmethod", "override")]
    if "property" in wrapped or "cached_property" in wrapped:
        error(function, f"{name} is a property; it must be a method: def {METHODS[name]}")
        return
    static = "staticmethod" in wrapped
    if wrapped and not static and "classmethod" not in wrapped:
        # Another decorator may change the parameters.
        return
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    required = names[: len(names) - len(arguments.defaults)]
    if not static:
        if not names and arguments.vararg is None:
            error(function, f"{name} has no parameter self: def {METHODS[name]}")
            return
        names, required = names[1:], required[1:]
    expected = 1 if name == "get_records" else 0
    if len(names) < expected and arguments.vararg is None:
        error(function, f"get_records must accept the stream: def {METHODS[name]}")
    required = required[expected:]
    required += [each.arg for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults) if value is None]
    if required:
        extra = ", ".join(f"'{each}'" for each in required)
        call = "get_records(stream)" if expected else f"{name}()"
        ready = [f"self.{_READY[each]}" for each in required if each in _READY]
        hint = f"; use {' and '.join(ready)}" if ready else ""
        error(function, f"{name} must not require {extra}: the platform calls {call}{hint}")
