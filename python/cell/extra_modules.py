"""Loads the modules that the operator allows beyond the standard ones (CELL_MODULES), before a cell is sealed.

They are found in the site-packages of this Python, which are on the import path only while they are loaded. After the
seal nothing more can be imported, so what a package would import lazily is imported here too.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from cell.modules import ALLOWED_MODULES, FORBIDDEN_MODULES, REFUSED_SUBMODULES

MAX_SUBMODULES = 2000
_UNWANTED = re.compile(r"\.(_?tests?|testing|conftest|setup|__main__|_?distutils|f2py)(\.|$)|\.test_")
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
# In addition to those that validation always refuses.
_NEVER = FORBIDDEN_MODULES | {"antigravity", "cffi", "ensurepip", "faulthandler", "pdb", "pip", "pydoc", "tracemalloc"}
# Settings of native libraries that start a thread pool when they are loaded. A cell has one thread.
_ONE_THREAD = dict.fromkeys(
    (
        "BLIS_NUM_THREADS MKL_NUM_THREADS NUMEXPR_NUM_THREADS OMP_NUM_THREADS OPENBLAS_NUM_THREADS "
        "POLARS_MAX_THREADS RAYON_NUM_THREADS VECLIB_MAXIMUM_THREADS"
    ).split(),
    "1",
)


def load_modules(names: Sequence[str]) -> tuple[list[str], list[dict[str, str]]]:
    """Imports what is allowed and installed. Returns the usable names, and the problem of each other one."""
    loaded: list[str] = []
    problems: list[dict[str, str]] = []
    if not names:
        return loaded, problems
    with _as_installed():
        for name in names:
            problem = find_problem(name) or _load(name)
            if problem is None:
                loaded.append(name)
            else:
                problems.append({"name": name, "problem": problem})
    return loaded, problems


def find_problem(name: str) -> str | None:
    """Why a module is not even imported, or None."""
    if not _NAME.fullmatch(name):
        return "is not the name of a module"
    top = name.partition(".")[0]
    if top.lstrip("_") in _NEVER or name in REFUSED_SUBMODULES or top in ("svc", "cell"):
        return (
            "is never available to custom sources, because it gives access to the system or the interpreter; remove it"
        )
    return "is available to every custom source already; remove it" if name in ALLOWED_MODULES else None


def _load(name: str) -> str | None:
    try:
        module = import_module(name)
    except BaseException as error:  # whatever a package does on import, the service keeps working
        cause = f"{type(error).__name__}: {error}".replace("\n", " ")[:400]
        return f"cannot be imported ({cause}); custom sources work without it"
    for each in (module, *_load_submodules(module)):
        _touch(each)
    return None


def _load_submodules(module: Any) -> list[Any]:
    """The submodules of a package, which it may import lazily. Its tests are left out."""
    found: list[Any] = []
    for package in itertools.chain((module,), found):
        for info in pkgutil.iter_modules(getattr(package, "__path__", ()), f"{package.__name__}."):
            if len(found) == MAX_SUBMODULES:
                return found
            if not _UNWANTED.search(info.name):
                # A submodule may need a package that is not installed; then it cannot be used in a cell either.
                with contextlib.suppress(BaseException):
                    found.append(import_module(info.name))
    return found


def _touch(module: Any) -> None:
    """Reads every public name, because some packages import lazily in a module-level `__getattr__`."""
    for name in getattr(module, "__all__", None) or dir(module):
        with contextlib.suppress(Exception):
            getattr(module, name)


@contextlib.contextmanager
def _as_installed() -> Iterator[None]:
    """With site-packages on the import path, single-threaded native libraries, and stdout, our channel, redirected."""
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
    """The site-packages folders of this Python, or of its virtual environment."""
    import site

    shared = site.getsitepackages([sys.prefix, sys.exec_prefix])
    folder = os.path.dirname(os.path.abspath(sys.executable))
    found = shared
    for home in (folder, os.path.dirname(folder)):
        if os.path.isfile(os.path.join(home, "pyvenv.cfg")):
            with open(os.path.join(home, "pyvenv.cfg"), encoding="utf-8") as file:
                shares = re.search(r"(?mi)^include-system-site-packages\s*=\s*true\s*$", file.read())
            found = [*_packages_of(home), *(shared if shares else ())]
            break
    return [each for each in found if os.path.isdir(each)]


def _packages_of(home: str) -> list[str]:
    """Of a virtual environment. Without it, as here, Debian's Python only names its own kind of folder (dist-packages)."""
    import site

    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    usual = [os.path.join(home, folder, version, "site-packages") for folder in ("lib", sys.platlibdir)]
    return list(dict.fromkeys((*site.getsitepackages([home]), *usual)))
