"""Imports and calls that a custom source may not use, anywhere in its code.

The kernel is what isolates a source; these checks tell an author early, and by name, what would fail there. So they
look at what is visible in the code: names and their aliases, attributes of imported modules, literal arguments.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from typing import Any, Callable

from cell.modules import FILE_FUNCTIONS, FORBIDDEN_MODULES, REFUSED_SUBMODULES, SVC_EXPORTS, instead_of
from cell.scopes import MAX_PATH, Program, Scope, fold_text

Report = Callable[[ast.AST, str], None]

_NO_FILES = "a source has no file system"
_NO_NEW_CODE = "a source cannot create code at run time"
# Built-in names that are refused, and why.
BUILTINS = {
    "eval": f"{_NO_NEW_CODE}; parse data with json.loads",
    "exec": _NO_NEW_CODE,
    "compile": f"{_NO_NEW_CODE} (for regular expressions use re.compile)",
    "open": f"{_NO_FILES}; keep data in memory (svc.text has StringIO and BytesIO)",
    "input": "a run has no input; settings are in self.config",
    "breakpoint": "a run cannot be debugged; use self.log, or python -m svc preview on your own machine",
    "globals": "keep values in attributes of self",
    "help": "it is not available in a cell",
    "exit": "return to end the run, or raise an exception that says why",
    "quit": "return to end the run, or raise an exception that says why",
    "__import__": "use an import statement",
    "__builtins__": "a source has no access to the interpreter",
    "__loader__": "a source has no access to the interpreter",
    "__spec__": "a source has no access to the interpreter",
}
# Attributes that lead from any object to the interpreter.
INTERPRETER_ATTRIBUTES = frozenset({
    "__globals__", "__builtins__", "__subclasses__", "__code__", "__closure__", "__import__", "__loader__", "__spec__",
    "__bases__", "__base__", "__mro__", "__reduce_ex__", "f_globals", "f_locals", "f_builtins", "f_back", "f_code",
    "gi_frame", "gi_code", "cr_frame", "ag_frame", "tb_frame",
})  # fmt: skip
_IN_TEXT = ("__globals__", "__builtins__", "__subclasses__", "__import__")
# Refused modules whose calls get an error of their own, because each call has to be replaced.
_SYSTEM_MODULES = frozenset("os shutil pathlib io tempfile glob subprocess sys importlib builtins".split())
_TAKE_A_PATH = ("xml.etree.ElementTree.parse", "xml.etree.ElementTree.iterparse", "xml.dom.minidom.parse")


class Imports:
    """What may be imported: single modules, and packages with everything in them."""

    def __init__(self, modules: Iterable[str], packages: Iterable[str] = ()) -> None:
        self._packages = tuple(packages)
        self._modules = frozenset(modules) | frozenset(SVC_EXPORTS) | frozenset(self._packages)
        self._parents = {
            name.rsplit(".", count)[0] for name in self._modules for count in range(1, name.count(".") + 1)
        }

    def allow(self, name: str) -> bool:
        return name in self._modules or name in self._parents or self.in_package(name)

    def in_package(self, name: str) -> bool:
        return any(name.startswith(f"{package}.") for package in self._packages)

    def is_own_part(self, name: str) -> bool:
        """Whether this is a submodule of the package itself, such as `pandas.io`, not a module that it imports."""
        return self.in_package(name) and name in sys.modules


class ForbiddenCheck:
    def __init__(self, program: Program, imports: Imports, report: Report) -> None:
        self.program = program
        self.imports = imports
        self.report = report
        self.called: set[int] = set()
        self.docstrings: set[int] = set()
        self.reassigned: set[int] = set()
        # Names that were reported already.
        self.reported: set[int] = set()

    def run(self) -> None:
        for node, _ in self.program.nodes:
            self._note(node)
        for node, scope in self.program.nodes:
            check = _CHECKS.get(type(node))
            if check is not None:
                check(self, node, scope)

    def _note(self, node: Any) -> None:
        if isinstance(node, ast.Call):
            self.called.add(id(node.func))
        elif isinstance(node, ast.Expr):
            self.docstrings.add(id(node.value))
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            # `eval = eval` is still the built-in.
            if node.targets[0].id in BUILTINS:
                name = node.targets[0].id
                self.reassigned.update(
                    id(each) for each in ast.walk(node.value) if isinstance(each, ast.Name) and each.id == name
                )

    def _import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            if not self.imports.allow(alias.name):
                self._refuse_import(node, alias.name)

    def _from(self, node: ast.ImportFrom, scope: Scope) -> None:
        module = node.module or ""
        if node.level:
            self.report(
                node, f"relative import of '{'.' * node.level}{module}' is not allowed; a custom source is one file"
            )
            return
        if not self.imports.allow(module):
            self._refuse_import(node, module)
            return
        for alias in node.names:
            self._from_name(node, module, alias.name)

    def _from_name(self, node: ast.ImportFrom, module: str, name: str) -> None:
        full = f"{module}.{name}"
        bare = name.lstrip("_")
        foreign = bare in FORBIDDEN_MODULES and self.imports.in_package(full) and not self.imports.is_own_part(full)
        if name == "*" or (self.imports.allow(full) and not foreign):
            return
        if bare in FORBIDDEN_MODULES:
            self.report(node, f"import of '{bare}' (through '{module}') is not allowed; {instead_of(bare)}")
        elif module in SVC_EXPORTS:
            if name not in SVC_EXPORTS[module]:
                has = ", ".join(sorted(SVC_EXPORTS[module]))
                self.report(node, f"import of '{full}' is not allowed; {module} has {has}")
        elif full in REFUSED_SUBMODULES:
            self._refuse_import(node, full)
        elif full in FILE_FUNCTIONS:
            self.report(node, f"import of '{full}' is not allowed; {_NO_FILES}: use {FILE_FUNCTIONS[full]}")

    def _refuse_import(self, node: ast.AST, module: str, how: str = "") -> None:
        self.report(node, f"import of '{module}'{how} is not allowed; {instead_of(module)}")

    def _name(self, node: ast.Name, scope: Scope) -> None:
        if not isinstance(node.ctx, ast.Load):
            return
        if node.id in BUILTINS:
            if id(node) in self.reassigned or not scope.binds(node.id):
                self._refuse_builtin(node, node.id)
        elif node.id in self.program.imports:
            self._use(node, self.program.imports[node.id])

    def _refuse_builtin(self, node: ast.AST, name: str) -> None:
        what = "call" if id(node) in self.called else "use"
        if name != "__import__" or what == "use":
            self.report(node, f"{what} of '{name}' is not allowed; {BUILTINS[name]}")

    def _attribute(self, node: ast.Attribute, scope: Scope) -> None:
        if node.attr in INTERPRETER_ATTRIBUTES:
            self.report(node, f"use of the attribute '{node.attr}' is not allowed; it gives access to the interpreter")
            return
        full = self.program.dotted(node)
        if full is not None:
            self._use(node, full)
            return
        if id(node) in self.called:
            root, path = _path(node)
            if isinstance(root, ast.Name) and root.id in _SYSTEM_MODULES and not scope.binds(root.id):
                self.reported.add(id(root))
                self.report(node, f"call of '{path}' is not allowed; {instead_of(root.id)}")

    def _use(self, node: Any, full: str) -> None:
        """Something read from an imported module, by its full name."""
        parts = full.split(".")
        called = id(node) in self.called
        if parts[0] in _SYSTEM_MODULES:
            if called and full != "importlib.import_module":
                self.report(node, f"call of '{full}' is not allowed; {instead_of(parts[0])}")
        elif full in FILE_FUNCTIONS and isinstance(node, ast.Attribute):
            what = "call" if called else "use"
            self.report(node, f"{what} of '{full}' is not allowed; {_NO_FILES}: use {FILE_FUNCTIONS[full]}")
        elif isinstance(node, ast.Attribute) and parts[-1].lstrip("_") in FORBIDDEN_MODULES:
            if not self.imports.allow(parts[0]) or self.imports.is_own_part(full):
                return
            module = parts[-1].lstrip("_")
            through = ".".join(parts[:-1])
            self.report(node, f"use of '{module}' through '{through}' is not allowed; {instead_of(module)}")

    def _call(self, node: ast.Call, scope: Scope) -> None:
        full = self.program.dotted(node.func)
        name = node.func.id if isinstance(node.func, ast.Name) and not scope.binds(node.func.id) else None
        first = fold_text(node.args[0]) if node.args else None
        if name == "__import__" or full in ("importlib.import_module", "importlib.__import__"):
            how = f" through {'__import__' if name else 'importlib'}"
            self._refuse_import(node, first or "a module named at run time", how)
        elif full in _TAKE_A_PATH and first is not None:
            self.report(node, f"call of '{full}' with a path is not allowed; {_NO_FILES}: use fromstring")
        elif full == "logging.basicConfig" and any(each.arg == "filename" for each in node.keywords):
            self.report(node, f"call of 'logging.basicConfig' with a file is not allowed; {_NO_FILES}: use self.log")
        elif name in ("getattr", "setattr", "delattr", "hasattr") and len(node.args) > 1:
            self._attribute_by_text(node, node.args[0], fold_text(node.args[1]))
        elif full in ("operator.attrgetter", "operator.methodcaller"):
            for each in node.args:
                for part in (fold_text(each) or "").split("."):
                    self._attribute_by_text(node, None, part)

    def _attribute_by_text(self, node: ast.AST, target: Any, text: str | None) -> None:
        if text in INTERPRETER_ATTRIBUTES or text in ("eval", "exec"):
            self.report(node, f"use of '{text}' through a string is not allowed; it gives access to the interpreter")
            return
        full = self.program.dotted(target) if target is not None else None
        if (
            text
            and full
            and (text.lstrip("_") in FORBIDDEN_MODULES or f"{full}.{text}" in FILE_FUNCTIONS or text in BUILTINS)
        ):
            self.report(node, f"use of '{full}.{text}' is not allowed; {instead_of(text.lstrip('_'))}")

    def _constant(self, node: ast.Constant, scope: Scope) -> None:
        if isinstance(node.value, str) and "__" in node.value and id(node) not in self.docstrings:
            for each in _IN_TEXT:
                if each in node.value:
                    self.report(node, f"the text '{each}' is not allowed; it gives access to the interpreter")
                    return


def _path(node: Any) -> tuple[Any, str]:
    """What an attribute chain starts with, and the whole chain."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < MAX_PATH:
        parts.append(node.attr)
        node = node.value
    return node, ".".join([getattr(node, "id", ""), *reversed(parts)])


_CHECKS: dict[type, Any] = {
    ast.Import: ForbiddenCheck._import,
    ast.ImportFrom: ForbiddenCheck._from,
    ast.Name: ForbiddenCheck._name,
    ast.Attribute: ForbiddenCheck._attribute,
    ast.Call: ForbiddenCheck._call,
    ast.Constant: ForbiddenCheck._constant,
}
