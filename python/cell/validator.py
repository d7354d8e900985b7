"""Validation of a custom source by static analysis; its code is never run.

It happens inside a cell all the same, because the parser is native code and its input is hostile. The result is always
a report: there is no input for which `validate` raises.
"""

from __future__ import annotations

import ast
import gc
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from cell.advice import add_warnings
from cell.attributes import check_self_attributes
from cell.forbidden import ForbiddenCheck, Imports
from cell.frameworks import check_frameworks
from cell.names import check_names
from cell.preflight import find_preflight_error
from cell.schema import empty_schema, read_schema, settings_enforced
from cell.schema import source_name as read_source_name
from cell.scopes import Program
from cell.source_class import Classes, check_methods, find_source_class
from cell.streams import read_streams

# How many findings are shown, and how many are collected.
MAX_ITEMS = 200
MAX_FOUND = 5000
# The compiler compares each keyword of a call with all others (quadratic time).
MAX_KEYWORDS = 1000
# Each class is followed through all its bases.
MAX_CLASSES = 200
_TOO_COMPLEX = "the code is nested too deeply or too complex to be compiled; split long expressions"


class _Report:
    def __init__(self, code: str) -> None:
        self.errors: list[dict[str, Any]] = []
        self.warnings: list[dict[str, Any]] = []
        self._lines = re.split("\r\n|\r|\n", code)

    def error(self, node: ast.AST, message: str) -> None:
        if len(self.errors) < MAX_FOUND:
            self.errors.append(self._item(node, message, "error"))

    def warn(self, node: ast.AST, message: str) -> None:
        if len(self.warnings) < MAX_FOUND:
            self.warnings.append(self._item(node, message, "warning"))

    def error_at(self, line: int, column: int, message: str) -> None:
        self.errors.append({"line": line, "column": column, "message": message, "severity": "error"})

    def warn_at(self, line: int, message: str) -> None:
        if len(self.warnings) < MAX_FOUND:
            self.warnings.append({"line": line, "column": 0, "message": message, "severity": "warning"})

    def _item(self, node: Any, message: str, severity: str) -> dict[str, Any]:
        line = getattr(node, "lineno", 1)
        offset = getattr(node, "col_offset", 0)
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        # The parser counts bytes; editors count characters.
        column = offset if text.isascii() else len(text.encode()[:offset].decode("utf-8", "ignore"))
        return {"line": line, "column": column, "message": message, "severity": severity}

    def result(self, **extracted: Any) -> dict[str, Any]:
        valid = not self.errors
        return {
            "valid": valid,
            "errors": _tidy(self.errors, "error"),
            "warnings": _tidy(self.warnings, "warning"),
            "extracted_source_name": extracted.get("name") if valid else None,
            "extracted_streams": extracted.get("streams") if valid else None,
            "extracted_schema": extracted.get("schema") or empty_schema(),
            "streams_need_run": valid and extracted.get("streams") is None,
            "settings_enforced": valid and bool(extracted.get("enforced")),
        }


def validate(
    code: str, allowed_modules: Iterable[str], source_name: str | None = None, packages: Iterable[str] = ()
) -> dict[str, Any]:
    """The report on a source. `streams_need_run` says that its streams are known only when it runs.

    `packages` are modules of which everything below them is allowed too.
    """
    obstacle = find_preflight_error(code)
    if obstacle is not None:
        report = _Report("")
        report.error_at(*obstacle)
        return report.result()
    report = _Report(code)
    # A syntax tree is many objects and no garbage; collecting meanwhile would double the time for a large file.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _validate(code, Imports(allowed_modules, packages), source_name, report)
    except (RecursionError, MemoryError):
        report.error_at(1, 0, _TOO_COMPLEX)
        return report.result()
    finally:
        if collecting:
            gc.enable()


def _validate(code: str, imports: Imports, wanted_name: str | None, report: _Report) -> dict[str, Any]:
    tree = _parse(code, report)
    if tree is None:
        return report.result()
    program = Program(tree)
    if not _fits(program, report):
        return report.result()
    _compile(program, report)
    forbidden = ForbiddenCheck(program, imports, report.error)
    forbidden.run()
    check_frameworks(program, report.error)
    check_names(program, forbidden.reported, report.error, report.warn)
    classes = Classes(program)
    source = find_source_class(classes, report.error, report.warn)
    schema = read_schema(classes, source)
    enforced = settings_enforced(classes, source)
    methods: dict[str, Any] = {}
    name = streams = None
    if source is not None:
        methods = check_methods(classes, source, report.error)
        check_self_attributes(classes, source, report.error, report.warn)
        name = read_source_name(classes, source)
        streams = _streams(classes, source, methods, report)
        if wanted_name is not None and wanted_name != name:
            report.warn(source, f"the source is saved as '{wanted_name}', but its code calls it '{name}'")
    add_warnings(program, methods, report.warn)
    return report.result(name=name, streams=streams, schema=schema, enforced=enforced)


def _streams(classes: Classes, source: ast.ClassDef, methods: dict[str, Any], report: _Report) -> list[str] | None:
    if "get_streams" not in methods:
        return None
    streams = read_streams(classes, source, methods["get_streams"], report.error)
    if streams is not None:
        if not streams:
            report.warn(methods["get_streams"], "get_streams returns an empty list, so there is nothing to read")
        for each in sorted(name for name, count in Counter(streams).items() if count > 1):
            report.warn(methods["get_streams"], f"get_streams returns '{each}' more than once")
    return streams


def _parse(code: str, report: _Report) -> ast.Module | None:
    with _watching(report):
        return ast.parse(code, "source.py")
    return None


def _fits(program: Program, report: _Report) -> bool:
    classes = 0
    for node, _ in program.nodes:
        if isinstance(node, (ast.Call, ast.ClassDef)) and len(node.keywords) > MAX_KEYWORDS:
            report.error(node, f"more than {MAX_KEYWORDS} keyword arguments in one call")
            return False
        classes += isinstance(node, ast.ClassDef)
        if classes > MAX_CLASSES:
            report.error(node, f"more than {MAX_CLASSES} classes")
            return False
    return True


def _compile(program: Program, report: _Report) -> None:
    """The rest of the syntax: `return` outside a function, a parameter twice. Nothing is executed."""
    with _watching(report):
        compile(program.tree, "source.py", "exec", dont_inherit=True)


@contextmanager
def _watching(report: _Report) -> Iterator[None]:
    """Syntax errors and the compiler's own warnings go into the report."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except SyntaxError as error:
            column = max((error.offset or 1) - 1, 0)
            report.error_at(max(error.lineno or 1, 1), column, f"syntax error: {error.msg}")
        except ValueError as error:
            report.error_at(1, 0, f"syntax error: {error}")
    for each in caught:
        report.warn_at(each.lineno, str(each.message))


def _tidy(items: list[dict[str, Any]], severity: str) -> list[dict[str, Any]]:
    """Sorted by line, without duplicates, at most MAX_ITEMS."""
    unique = {(item["line"], item["column"], item["message"]): item for item in items}
    ordered = [unique[key] for key in sorted(unique)]
    if len(ordered) <= MAX_ITEMS:
        return ordered
    last = ordered[MAX_ITEMS - 1]
    more = f"and {len(ordered) - MAX_ITEMS + 1} more {severity}s"
    return [*ordered[: MAX_ITEMS - 1], {"line": last["line"], "column": 0, "message": more, "severity": severity}]
