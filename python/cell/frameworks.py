"""Hints for authors who come from dlt, Singer or Airbyte's CDK: which method to write instead of what they know."""

from __future__ import annotations

import ast
from typing import Callable

from cell.modules import SOURCE_CLASS
from cell.scopes import Program

Report = Callable[[ast.AST, str], None]

_IN_STATE = "remember in self.state how far it read"
# What is used of these packages, by its full name.
_INSTEAD = {
    "dlt.source": f"{SOURCE_CLASS}, and return the names of its resources from get_streams",
    "dlt.resource": "return its name from get_streams and yield its records from get_records(self, stream)",
    "dlt.transformer": "return its name from get_streams and yield its records from get_records(self, stream)",
    "dlt.pipeline": "a source only yields records; pipelines are made through the API or in the console",
    "dlt.secrets": "the platform sends the credentials by itself; to read them use self.authentication",
    "dlt.config": "declare settings in a class that extends SourceConfig and read them from self.config",
    "dlt.current": _IN_STATE,
    "dlt.sources.incremental": _IN_STATE,
    "dlt.sources.helpers.requests": "use self.http, whose calls look the same",
    "singer.write_record": "yield SourceRecord(id=…, data=…) from get_records(self, stream)",
    "singer.write_records": "yield the records from get_records(self, stream)",
    "singer.write_schema": "leave it out: columns are found from the records",
    "singer.write_state": "set self.state after the records it stands for",
}
_PACKAGES = frozenset(name.partition(".")[0] for name in _INSTEAD)

# Methods of other frameworks by what they are here.
METHOD_ALIASES = {
    "get_streams": ("streams", "discover_streams", "discover", "list_streams"),
    "check_connection": ("check", "test_connection"),
    "get_records": ("read_records", "fetch_records", "read", "read_stream", "parse_response", "sync"),
}


def check_frameworks(program: Program, error: Report) -> None:
    if not any(full.partition(".")[0] in _PACKAGES for full in program.imports.values()):
        return
    decorators: set[int] = set()
    for node, _ in program.nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            decorators.update(id(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list)
        elif isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
            name = program.dotted(node)
            if name in _INSTEAD:
                sign = "@" if id(node) in decorators else ""
                error(node, f"'{sign}{name}' is not available; {_INSTEAD[name]}")
