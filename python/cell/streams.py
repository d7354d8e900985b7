"""Stream names read from the code: literal lists, constants, class attributes, and combinations of these."""

from __future__ import annotations

import ast
from typing import Any, Callable

from cell.source_class import Classes, decorators, flat_body

Report = Callable[[ast.AST, str], None]

_CHANGING = frozenset("append extend insert remove pop clear sort reverse update setdefault".split())
_PLAIN_DECORATORS = frozenset({"staticmethod", "classmethod", "abstractmethod", "override"})
_MAX_DEPTH = 30


class Unknown(Exception):
    """The value is only known when the code runs."""


class Constants:
    """Names that are bound once and never changed, in the module and in the source class."""

    def __init__(self, classes: Classes, source: ast.ClassDef) -> None:
        program = classes.program
        self.module = _bound_once(program.tree.body)
        self.attributes: dict[str, ast.expr] = {}
        for each in reversed(classes.lineage(source)):
            self.attributes.update(_bound_once(each.body))
        self.owners = {"self", "cls", *(each.name for each in classes.lineage(source))}
        self._forget_changed([node for node, _ in program.nodes])

    def _forget_changed(self, nodes: list[Any]) -> None:
        for node in nodes:
            if isinstance(node, ast.Global):
                for name in node.names:
                    self.module.pop(name, None)
            elif isinstance(node, ast.AugAssign):
                self._forget(node.target)
            elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                self.attributes.pop(node.attr, None)
            elif isinstance(node, ast.Attribute) and node.attr in _CHANGING:
                self._forget(node.value)
            elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                self._forget(node.value)

    def _forget(self, target: Any) -> None:
        if isinstance(target, ast.Name):
            self.module.pop(target.id, None)
            self.attributes.pop(target.id, None)
        elif isinstance(target, ast.Attribute):
            self.attributes.pop(target.attr, None)

    def value(self, node: Any, depth: int = 0) -> Any:
        """The value of an expression as list, dict of keys or string; raises Unknown."""
        if depth > _MAX_DEPTH or node is None:
            raise Unknown
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.List, ast.Tuple)):
            found: list[Any] = []
            for each in node.elts:
                if isinstance(each, ast.Starred):
                    found.extend(_items(self.value(each.value, depth + 1)))
                else:
                    found.append(self.value(each, depth + 1))
            return found
        if isinstance(node, ast.Dict):
            return {self.value(key, depth + 1): None for key in node.keys}
        if isinstance(node, ast.Name):
            return self.value(self.module.get(node.id), depth + 1)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.owners:
            return self.value(self.attributes.get(node.attr), depth + 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
            if type(left) is type(right) and isinstance(left, (list, str)):
                return left + right
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        raise Unknown

    def _call(self, node: ast.Call, depth: int) -> Any:
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in ("keys", "copy") and not node.args:
            value = self.value(function.value, depth + 1)
            return list(value) if isinstance(value, dict) else _items(value)
        if isinstance(function, ast.Name) and function.id in ("list", "tuple", "sorted") and not node.keywords:
            if len(node.args) == 1:
                items = _items(self.value(node.args[0], depth + 1))
                try:
                    return sorted(items) if function.id == "sorted" else items
                except TypeError:
                    raise Unknown from None
        raise Unknown


def _items(value: Any) -> list[Any]:
    if isinstance(value, (list, dict)):
        return list(value)
    raise Unknown


def _bound_once(body: list[ast.stmt]) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    counts: dict[str, int] = {}
    for each in flat_body(body):
        if isinstance(each, ast.Assign):
            targets = each.targets
        elif isinstance(each, (ast.AnnAssign, ast.For)):
            targets = [each.target]
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name):
                counts[target.id] = counts.get(target.id, 0) + 1
                value = getattr(each, "value", None)
                if value is not None:
                    found[target.id] = value
    return {name: value for name, value in found.items() if counts[name] == 1}


def read_streams(classes: Classes, source: ast.ClassDef, method: Any, error: Report) -> list[str] | None:
    """The names that get_streams returns, or None where they are known only when it runs."""
    result = _returned(method, error)
    if result is None:
        return None
    try:
        value = Constants(classes, source).value(result)
    except (Unknown, RecursionError, TypeError):
        return None
    if isinstance(value, str) or not isinstance(value, list):
        error(result, f"get_streams must return a list of names, not {type(value).__name__}")
        return None
    wrong = [each for each in value if not isinstance(each, str) or not each]
    if wrong:
        error(result, f"get_streams must return names (non-empty strings); {wrong[0]!r} is not one")
        return None
    return value


def _returned(method: Any, error: Report) -> ast.expr | None:
    """The returned expression, if returning it is all that the method does."""
    if isinstance(method, ast.Lambda):
        return method.body
    if not isinstance(method, ast.FunctionDef) or set(decorators(method)) - _PLAIN_DECORATORS:
        return None
    inside = [each for statement in method.body for each in ast.walk(statement)]
    if not any(isinstance(each, (ast.Return, ast.Yield, ast.YieldFrom, ast.Raise)) for each in inside):
        error(method, "get_streams returns nothing; it must return a list of stream names")
        return None
    body = [each for each in method.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    if len(body) == 1 and isinstance(body[0], ast.Return):
        return body[0].value
    return None
