"""A valid source, and what the validator says about variations of it."""

import harness  # noqa: F401  sets the import path

from cell.modules import ALLOWED_MODULES
from cell.validator import validate

ALLOWED = frozenset(ALLOWED_MODULES)
HEAD = (
    "from svc.source.base import AbstractSource\nfrom svc.source.models import SourceRecord\n"
    "from typing import Iterator\n"
)
GOOD = (
    HEAD
    + """

class ShopSource(AbstractSource):
    def get_streams(self) -> list:
        return ["orders", "customers"]

    def check_connection(self) -> bool:
        return True

    def get_records(self, stream: str) -> Iterator[SourceRecord]:
        yield SourceRecord("1", {})
"""
)
METHODS = GOOD.partition("class ShopSource(AbstractSource):\n")[2]


def check(code, name=None):
    return validate(code, ALLOWED, name)


def errors(code):
    return [item["message"] for item in check(code)["errors"]]


def warnings(code, name=None):
    return [item["message"] for item in check(code, name)["warnings"]]


def inside(statement):
    """A valid source with a statement in get_records, on line 15."""
    return GOOD + "".join(f"        {line}\n" for line in statement.split("\n"))
