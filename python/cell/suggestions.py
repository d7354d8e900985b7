"""What an author most likely meant by an undefined name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from cell.modules import ALLOWED_MODULES, SVC_EXPORTS

# Comparing names is slow, so hostile input must not be able to ask for much of it.
MAX_CANDIDATES = 500
MAX_LENGTH = 60

_FROM = {
    "abc": "ABC abstractmethod",
    "collections": "Counter OrderedDict defaultdict deque namedtuple",
    "dataclasses": "asdict dataclass field",
    "datetime": "date timedelta timezone",
    "decimal": "Decimal",
    "enum": "Enum IntEnum",
    "functools": "lru_cache partial reduce wraps",
    "itertools": "chain groupby islice",
    "typing": "Any Callable ClassVar Dict Final Generator Generic Iterable Iterator List Literal Mapping NamedTuple "
    "Optional Protocol Sequence Set TYPE_CHECKING Tuple Type TypedDict TypeVar Union cast",
    "uuid": "UUID uuid4",
    "zoneinfo": "ZoneInfo",
}


def _known_imports() -> dict[str, str]:
    known = {"datetime": "import datetime, or from datetime import datetime"}
    for module, names in _FROM.items():
        known.update({name: f"from {module} import {name}" for name in names.split()})
    for module in ("svc.text", "svc.http", "svc.source.base", "svc.source.models"):
        known.update({name: f"from {module} import {name}" for name in SVC_EXPORTS[module]})
    known.update({name: f"from svc.source.base import {name}" for name in ("AbstractSource", "Source")})
    return known


# Name → the statement that imports it.
KNOWN_IMPORTS = _known_imports()
MODULE_IMPORTS = {name: f"import {name}" for name in ALLOWED_MODULES if "." not in name}


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that a mistyped name most likely means."""
    if len(name) > MAX_LENGTH:
        return None
    public = [each for each in candidates if len(each) <= MAX_LENGTH and each != name and not each.startswith("__")]
    found = get_close_matches(name, sorted(public)[:MAX_CANDIDATES], n=1, cutoff=0.75)
    return found[0] if found else None
