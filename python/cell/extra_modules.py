"""Modules that the operator allows beyond the standard ones (the setting CELL_MODULES), loaded before a cell is sealed.

They come from where this Python keeps installed packages, which is on the import path only while they are loaded. After
the seal nothing more can be imported, so everything that a package would load late is asked for here.
"""

from __future__ import annotations

import contextlib
import os
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from cell.modules import ALLOWED_MODULES, POWERFUL, REFUSED_SUBMODULES

MAX_PARTS = 2000
_UNWANTED = re.compile(r"\.(_?tests?|testing|conftest|setup|__main__|_?distutils|f2py)(\.|$)|\.test_")
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
# Beside those that validation refuses wherever it sees them.
_NEVER = POWERFUL | {"antigravity", "cffi", "ensurepip", "faulthandler", "pdb", "pip", "pydoc", "tracemalloc"}
# Native libraries start threads for these when they are loaded; a cell has one, and cannot start more.
_ONE_THREAD = dict.fromkeys(
    (
        "BLIS_NUM_THREADS MKL_NUM_THREADS NUMEXPR_NUM_THREADS OMP_NUM_THREADS OPENBLAS_NUM_THREADS "
        "POLARS_MAX_THREADS RAYON_NUM_THREADS VECLIB_MAXIMUM_THREADS"
    ).split(),
    "1",
)


def load_modules(names: Iterable[str]) -> tuple[list[str], list[dict[str, str]]]:
    """Imports what is allowed and there. Returns the names that can be used, and for each other one what is wrong."""
    loaded: list[str] = []
    problems: list[dict[str, str]] = []
    with _as_installed():
        for name in names:
            problem = find_obstacle(name) or _load(name)
            if problem is None:
                loaded.append(name)
            else:
                problems.append({"name": name, "problem": problem})
    return loaded, problems


def find_obstacle(name: str) -> str | None:
    """Why a module is not even tried."""
    if not _NAME.fullmatch(name):
        return "is not the name of a module"
    top = name.partition(".")[0]
    if top.lstrip("_") in _NEVER or name in REFUSED_SUBMODULES or top in ("svc", "cell"):
        return "is never available to custom sources, because it reaches the system or the interpreter; leave it out"
    return "is there for every custom source already; leave it out" if name in ALLOWED_MODULES else None


def _load(name: str) -> str | None:
    try:
        module = import_module(name)
    except BaseException as error:  # whatever a package does while it loads, the service goes on without it
        cause = f"{type(error).__name__}: {error}".replace("\n", " ")[:400]
        return f"cannot be imported ({cause}); custom sources go on without it"
    for each in (module, *_load_parts(module)):
        _touch(each)
    return None


def _load_parts(module: Any) -> list[Any]:
    """The modules inside a package, which it may import only when a function is called. Its tests are left out."""
    found: list[Any] = []
    folders = list(getattr(module, "__path__", ()))
    for info in pkgutil.walk_packages(folders, f"{module.__name__}.", onerror=lambda _: None):
        if len(found) == MAX_PARTS:
            break
        if not _UNWANTED.search(info.name):
            # What needs something else that is not installed cannot be used in a cell either.
            with contextlib.suppress(BaseException):
                found.append(import_module(info.name))
    return found


def _touch(module: Any) -> None:
    """Reads every public name, because some packages load what it stands for only then."""
    for name in getattr(module, "__all__", None) or dir(module):
        with contextlib.suppress(Exception):
            getattr(module, name)


@contextlib.contextmanager
def _as_installed() -> Iterator[None]:
    """The import path with installed packages, one thread for native libraries, and nothing printed on our channel."""
    path = list(sys.path)
    sys.path.extend(installed_packages())
    os.environ.update(_ONE_THREAD)
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name in _ONE_THREAD:
            os.environ.pop(name, None)
        sys.path[:] = path


def installed_packages() -> list[str]:
    """The folders of installed packages, of the virtual environment where this Python belongs to one."""
    import site

    prefixes = [sys.prefix, sys.exec_prefix]
    folder = os.path.dirname(os.path.abspath(sys.executable))
    for home in (folder, os.path.dirname(folder)):
        if os.path.isfile(os.path.join(home, "pyvenv.cfg")):
            with open(os.path.join(home, "pyvenv.cfg"), encoding="utf-8") as file:
                shares = re.search(r"(?mi)^include-system-site-packages\s*=\s*true\s*$", file.read())
            prefixes = [home, *prefixes] if shares else [home]
            break
    return [each for each in site.getsitepackages(prefixes) if os.path.isdir(each)]
