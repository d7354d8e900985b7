"""Names of a program: which scope binds them, and what each import stands for.

The tree is walked with a stack of our own, never by recursion: authors nest as deep as the parser lets them.
"""

from __future__ import annotations

import ast
from typing import Any, Iterator

# No import path is longer. Every attribute is looked at, so a chain of thousands would take time squared.
MAX_PATH = 10

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_OPENING = (*_FUNCTIONS, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Fields that hold no code: half of all nodes would be an `ast.Load`.
_NO_CODE = frozenset({"ctx", "op", "ops", "type_comment", "kind"})


class Scope:
    __slots__ = ("kind", "parent", "names", "node")

    def __init__(self, kind: str, parent: Scope | None, node: ast.AST) -> None:
        self.kind = kind
        self.parent = parent
        self.names: set[str] = set()
        self.node = node

    def binds(self, name: str) -> bool:
        """Whether the program gives this name a meaning of its own where it is read."""
        scope: Scope | None = self
        while scope is not None:
            # A class body is not seen from the functions in it.
            if name in scope.names and (scope is self or scope.kind != "class"):
                return True
            scope = scope.parent
        return False


class Program:
    """The nodes of a tree, each with its scope, and the imports of the whole program by the name they bind."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.module = Scope("module", None, tree)
        self.nodes: list[tuple[ast.AST, Scope]] = []
        self.imports: dict[str, str] = {}
        self._walk()

    def dotted(self, node: ast.AST) -> str | None:
        """`ET.parse` → `xml.etree.ElementTree.parse`: the full name of what is read, where it comes from an import."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < MAX_PATH:
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imports:
            return None
        return ".".join([self.imports[node.id], *reversed(parts)])

    def _walk(self) -> None:
        stack: list[tuple[ast.AST, Scope]] = [(self.tree, self.module)]
        nodes = self.nodes
        while stack:
            pair = stack.pop()
            node, scope = pair
            nodes.append(pair)
            bind = _BINDERS.get(type(node))
            if bind is not None:
                bind(self, node, scope)
            if isinstance(node, _OPENING):
                children = list(self._opened(node, scope))
            else:
                children = []
                for field in node._fields:
                    if field in _NO_CODE:
                        continue
                    value = getattr(node, field, None)
                    if isinstance(value, list):
                        children += [(each, scope) for each in value if isinstance(each, ast.AST)]
                    elif isinstance(value, ast.AST):
                        children.append((value, scope))
            # Last in, first out: so the nodes come in the order of the code.
            children.reverse()
            stack += children

    def _opened(self, node: Any, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
        """The parts of a node that opens a scope, each with the scope it is evaluated in."""
        if isinstance(node, ast.ClassDef):
            inner = Scope("class", scope, node)
            yield from ((each, scope) for each in (*node.decorator_list, *node.bases, *node.keywords))
            yield from ((each, inner) for each in node.body)
        elif isinstance(node, _FUNCTIONS):
            inner = Scope("function", scope, node)
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            arguments += [each for each in (node.args.vararg, node.args.kwarg) if each is not None]
            inner.names.update(each.arg for each in arguments)
            outside = [*getattr(node, "decorator_list", ()), *node.args.defaults, *node.args.kw_defaults]
            outside += [each.annotation for each in arguments]
            outside.append(getattr(node, "returns", None))
            yield from ((each, scope) for each in outside if each is not None)
            body = node.body if isinstance(node.body, list) else [node.body]
            yield from ((each, inner) for each in body)
        else:
            inner = Scope("function", scope, node)
            yield from ((each, inner) for each in ast.iter_child_nodes(node))

    def _bind_name(self, node: ast.Name, scope: Scope) -> None:
        if not isinstance(node.ctx, ast.Load):
            scope.names.add(node.id)

    def _bind_definition(self, node: Any, scope: Scope) -> None:
        scope.names.add(node.name)

    def _bind_import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            bound = alias.asname or alias.name.split(".")[0]
            scope.names.add(bound)
            self.imports[bound] = alias.name if alias.asname else bound

    def _bind_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        for alias in node.names:
            if alias.name == "*":
                continue
            scope.names.add(alias.asname or alias.name)
            self.imports[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"

    def _bind_optional(self, node: Any, scope: Scope) -> None:
        """`except E as name`, and what a `match` captures."""
        name = getattr(node, "name", None) or getattr(node, "rest", None)
        if name:
            scope.names.add(name)


_BINDERS: dict[type, Any] = {
    ast.Name: Program._bind_name,
    ast.FunctionDef: Program._bind_definition,
    ast.AsyncFunctionDef: Program._bind_definition,
    ast.ClassDef: Program._bind_definition,
    ast.Import: Program._bind_import,
    ast.ImportFrom: Program._bind_from,
    ast.ExceptHandler: Program._bind_optional,
}
for _name in ("MatchAs", "MatchStar", "MatchMapping"):
    if hasattr(ast, _name):
        _BINDERS[getattr(ast, _name)] = Program._bind_optional


def fold_text(node: Any) -> str | None:
    """The text of a literal, also of one put together from literals: `'ev' + 'al'`."""
    parts: list[str] = []
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            parts.append(each.value)
        elif isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add):
            stack += [each.right, each.left]
        elif isinstance(each, ast.JoinedStr):
            stack += reversed(each.values)
        else:
            return None
    return "".join(parts)
