"""Undefined names: each is a NameError as soon as its line runs.

The check is conservative. A name counts as defined where any scope that Python would search binds it, in whatever
order, and nothing is reported where names can come from elsewhere (star imports, `vars()`).
"""

from __future__ import annotations

import ast
import builtins
import sys
from typing import Any, Callable

from cell.forbidden import BUILTINS
from cell.modules import ALTERNATIVES, SVC_EXPORTS, instead_of
from cell.scopes import Program, Scope
from cell.source_class import BASE_ATTRIBUTES
from cell.suggestions import KNOWN_IMPORTS, MODULE_IMPORTS, nearest

Report = Callable[[ast.AST, str], None]

_BUILT_IN = frozenset(dir(builtins)) | frozenset(BUILTINS)
# Finding a similar name takes time, so a file full of undefined names gets only so many suggestions.
MAX_SUGGESTIONS = 20


def check_names(program: Program, reported: set[int], error: Report, warn: Report) -> None:
    """`reported` holds the ids of nodes that have an error already."""
    if any(module not in SVC_EXPORTS for module in program.stars):
        return
    given = {name for module in program.stars for name in SVC_EXPORTS[module]}
    undefined: dict[str, tuple[Any, Scope]] = {}
    for node, scope in program.nodes:
        if type(node) is not ast.Name or not isinstance(node.ctx, ast.Load):
            continue
        name = node.id
        if name in ("locals", "vars") and scope.kind in ("module", "class"):
            # There they are the namespace itself, and names may be added to it.
            return
        # Names with two underscores are Python's own, or mangled by the class around them.
        if name in _BUILT_IN or name in given or name.startswith("__") or scope.binds(name) or id(node) in reported:
            continue
        held = undefined.get(name)
        if held is None or (node.lineno, node.col_offset) < (held[0].lineno, held[0].col_offset):
            undefined[name] = (node, scope)
    if not undefined:
        return
    expected = caught_nodes(program, "NameError")
    postponed = _postpones_hints(program)
    modules = {id(each.value) for each, _ in program.nodes if isinstance(each, ast.Attribute)}
    for count, (name, (node, scope)) in enumerate(undefined.items()):
        if id(node) in expected:
            continue
        message = _explain_module(name) if id(node) in modules else None
        message = message or _explain(name, scope, suggest=count < MAX_SUGGESTIONS)
        harmless = scope.kind == "annotation" and (postponed or _is_never_evaluated(scope))
        (warn if harmless else error)(node, message)


def caught_nodes(program: Program, exception: str) -> set[int]:
    """Ids of the nodes in `try` bodies whose handlers name this exception: there the author expects it."""
    found: set[int] = set()
    for node, _ in program.nodes:
        if isinstance(node, ast.Try):
            types = [each.type for each in node.handlers if each.type is not None]
            named = [each for kind in types for each in (kind.elts if isinstance(kind, ast.Tuple) else [kind])]
            if any(isinstance(each, ast.Name) and each.id == exception for each in named):
                found.update(id(each) for statement in node.body for each in ast.walk(statement))
    return found


def _postpones_hints(program: Program) -> bool:
    """Whether type hints are evaluated lazily: then an undefined name in one does no harm."""
    if sys.version_info >= (3, 14):
        return True
    return any(
        isinstance(each, ast.ImportFrom)
        and each.module == "__future__"
        and "annotations" in [a.name for a in each.names]
        for each in program.tree.body
    )


def _is_never_evaluated(hint: Scope) -> bool:
    """Hints of local variables are never evaluated, the values of `type` aliases lazily."""
    if isinstance(hint.node, ast.AnnAssign):
        return hint.parent is not None and hint.parent.kind == "function"
    return not isinstance(hint.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


def _explain_module(name: str) -> str | None:
    """For a name that is used like a module: `json.loads`."""
    if name in MODULE_IMPORTS and name not in KNOWN_IMPORTS:
        return f"'{name}' is not imported: {MODULE_IMPORTS[name]}"
    return f"'{name}' is not defined; {instead_of(name)}" if name in ALTERNATIVES else None


def _explain(name: str, scope: Scope, suggest: bool) -> str:
    if name in KNOWN_IMPORTS:
        return f"'{name}' is not imported: {KNOWN_IMPORTS[name]}"
    surrounding = _class_around(scope)
    if surrounding is not None and (name in surrounding.names or name in BASE_ATTRIBUTES):
        return f"'{name}' is not defined; did you mean 'self.{name}'?"
    meant = nearest(name, _visible(scope)) if suggest else None
    return f"'{name}' is not defined" + (f"; did you mean '{meant}'?" if meant else "")


def _class_around(scope: Scope) -> Scope | None:
    """The class in whose method the name is read."""
    function = scope.within("function")
    return function.parent if function is not None and function.parent and function.parent.kind == "class" else None


def _visible(scope: Scope) -> set[str]:
    names = {name for name in _BUILT_IN if name not in BUILTINS}
    each: Scope | None = scope
    while each is not None:
        if each is scope or each.kind != "class":
            names |= each.names
        each = each.parent
    return names
