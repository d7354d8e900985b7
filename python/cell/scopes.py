"""Names of a program: which scope binds them, and what each import stands for.

The rules are Python's own: a class body is seen by itself and by what is evaluated in it at once, not by its functions;
the first iterable of a comprehension belongs to the scope around it; `:=` in a comprehension binds outside of it;
`global` binds in the module. The tree is walked with a stack, never by recursion: authors nest as deep as the parser
lets them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import Any

# No import path is longer. Every attribute is checked, so a chain of thousands would take quadratic time.
MAX_PATH = 10

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ALIAS: tuple[type, ...] = (ast.TypeAlias,) if sys.version_info >= (3, 12) else ()  # type: ignore[attr-defined]
_OPENING = (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef, ast.AnnAssign, *_ALIAS)
# Fields without code. With them half of all nodes would be an `ast.Load`.
_NO_CODE = frozenset({"ctx", "op", "ops", "type_comment", "kind"})


class Scope:
    """`kind` is module, class, function, comprehension or, for type hints and type parameters, annotation."""

    __slots__ = ("kind", "parent", "names", "node")

    def __init__(self, kind: str, parent: Scope | None, node: ast.AST) -> None:
        self.kind = kind
        self.parent = parent
        self.names: set[str] = set()
        self.node = node

    def owner(self, name: str) -> Scope | None:
        """The scope that binds this name where it is read; None for a built-in or an undefined name."""
        scope: Scope | None = self
        class_is_seen = True
        while scope is not None:
            if name in scope.names and (class_is_seen or scope.kind != "class"):
                return scope
            if scope.kind != "annotation":
                class_is_seen = False
            scope = scope.parent
        return None

    def binds(self, name: str) -> bool:
        return self.owner(name) is not None

    def within(self, *kinds: str) -> Scope | None:
        """The nearest scope of these kinds, itself included."""
        scope: Scope | None = self
        while scope is not None and scope.kind not in kinds:
            scope = scope.parent
        return scope


class Program:
    """The nodes of a tree, each with its scope, and the imports of the whole program by the name they bind."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.module = Scope("module", None, tree)
        self.nodes: list[tuple[ast.AST, Scope]] = []
        self.imports: dict[str, str] = {}
        # Modules of which everything is imported.
        self.stars: list[str] = []
        self.classes: list[Scope] = []
        self._walk()

    def dotted(self, node: ast.AST) -> str | None:
        """The full name of something that was imported: `ET.parse` → `xml.etree.ElementTree.parse`."""
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
            # A stack is last in, first out; reversed, the nodes come in the order of the code.
            children.reverse()
            stack += children

    def _opened(self, node: Any, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
        """The parts of a node that opens a scope, each with the scope it is evaluated in."""
        if isinstance(node, ast.AnnAssign):
            yield node.target, scope
            yield node.annotation, Scope("annotation", scope, node)
            if node.value is not None:
                yield node.value, scope
        elif isinstance(node, _COMPREHENSIONS):
            inner = Scope("comprehension", scope, node)
            first = node.generators[0]
            yield first.iter, scope
            yield from ((each, inner) for each in (first.target, *first.ifs))
            yield from ((each, inner) for each in ast.iter_child_nodes(node) if each is not first)
        else:
            yield from ((each, scope) for each in getattr(node, "decorator_list", ()))
            outer, hints = self._open_type_parameters(node, scope)
            yield from hints
            if isinstance(node, ast.ClassDef):
                inner = Scope("class", outer, node)
                self.classes.append(inner)
                yield from ((each, outer) for each in (*node.bases, *node.keywords))
                yield from ((each, inner) for each in node.body)
            elif isinstance(node, _FUNCTIONS):
                yield from self._opened_function(node, outer)
            else:
                # The value of `type X = …` is evaluated lazily.
                yield node.name, scope
                yield node.value, Scope("annotation", outer, node)

    def _open_type_parameters(self, node: Any, scope: Scope) -> tuple[Scope, list[tuple[ast.AST, Scope]]]:
        """The scope of type parameters (`[T]`), where there are some, and the expressions in it."""
        parameters = getattr(node, "type_params", None)
        if not parameters:
            return scope, []
        inner = Scope("annotation", scope, node)
        inner.names.update(each.name for each in parameters)
        return inner, [(part, inner) for each in parameters for part in ast.iter_child_nodes(each)]

    def _opened_function(self, node: Any, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
        inner = Scope("function", scope, node)
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        arguments += [each for each in (node.args.vararg, node.args.kwarg) if each is not None]
        inner.names.update(each.arg for each in arguments)
        defaults = [each for each in (*node.args.defaults, *node.args.kw_defaults) if each is not None]
        yield from ((each, scope) for each in defaults)
        hints = [each.annotation for each in arguments if each.annotation is not None]
        if getattr(node, "returns", None) is not None:
            hints.append(node.returns)
        if hints:
            hinted = Scope("annotation", scope, node)
            yield from ((each, hinted) for each in hints)
        body = node.body if isinstance(node.body, list) else [node.body]
        yield from ((each, inner) for each in body)

    def _bind_name(self, node: ast.Name, scope: Scope) -> None:
        if not isinstance(node.ctx, ast.Load):
            scope.names.add(node.id)

    def _bind_walrus(self, node: ast.NamedExpr, scope: Scope) -> None:
        """In a comprehension the name belongs to the function, or the module, around it."""
        outer: Scope | None = scope
        while outer is not None and outer.kind == "comprehension":
            outer = outer.parent
        if outer is not None and isinstance(node.target, ast.Name):
            outer.names.add(node.target.id)

    def _bind_global(self, node: ast.Global, scope: Scope) -> None:
        self.module.names.update(node.names)

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
                self.stars.append(node.module or "")
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
    ast.NamedExpr: Program._bind_walrus,
    ast.Global: Program._bind_global,
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
    """The text of a string literal, or of several that are concatenated: `'ev' + 'al'`."""
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
