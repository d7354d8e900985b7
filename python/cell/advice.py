"""Warnings: code that runs, but that its author will want to change."""

from __future__ import annotations

import ast
from typing import Any, Callable

from cell.scopes import Program
from cell.source_class import METHODS

Report = Callable[[ast.AST, str], None]

_MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_MUTABLE_CALLS = frozenset({"list", "dict", "set", "bytearray", "defaultdict", "deque", "Counter", "OrderedDict"})


def add_warnings(program: Program, methods: dict[str, Any], warn: Report) -> None:
    for node, scope in program.nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            _check_defaults(node, warn)
            if not isinstance(node, ast.Lambda) and scope.kind in ("module", "class"):
                _check_hints(node, scope.kind == "class", warn)
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            warn(node, "a bare except also catches the signal that ends the run; name the exception: except Exception")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            if not scope.binds("print"):
                warn(node, "print writes without a log level; use self.log.info")
    _check_results(methods, warn)


def _check_defaults(function: Any, warn: Report) -> None:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = list(zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults))
    pairs += [(name, value) for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults) if value is not None]
    for argument, value in pairs:
        if isinstance(value, _MUTABLE) or _called(value) in _MUTABLE_CALLS:
            warn(
                value,
                f"the default of '{argument.arg}' is shared by all calls of "
                f"{getattr(function, 'name', 'the lambda')}; use None and create it inside",
            )


def _called(value: Any) -> str:
    function: Any = getattr(value, "func", None)
    return str(getattr(function, "id", "") or getattr(function, "attr", ""))


def _check_hints(function: Any, in_class: bool, warn: Report) -> None:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    static = any(getattr(each, "id", "") == "staticmethod" for each in function.decorator_list)
    if in_class and not static:
        named = named[1:]
    named += [*arguments.kwonlyargs, *(each for each in (arguments.vararg, arguments.kwarg) if each is not None)]
    missing = [f"'{each.arg}'" for each in named if each.annotation is None]
    if function.returns is None and function.name != "__init__":
        missing.append("what it returns")
    if missing:
        warn(function, f"{function.name} has no type hint for {' and '.join(missing)}")


def _check_results(methods: dict[str, Any], warn: Report) -> None:
    for name in METHODS:
        method = methods.get(name)
        if not isinstance(method, ast.FunctionDef) or name == "get_streams":
            continue
        inside = [each for statement in method.body for each in ast.walk(statement)]
        gives = any(
            (isinstance(each, ast.Return) and each.value is not None)
            or isinstance(each, (ast.Yield, ast.YieldFrom, ast.Raise))
            for each in inside
        )
        if not gives:
            what = "yields no records" if name == "get_records" else "returns nothing, which counts as False"
            warn(method, f"{name} {what}")
