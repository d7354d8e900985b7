"""Loads an author's code: compiles it, executes it as a module, and finds its source class."""

from __future__ import annotations

import linecache
import sys
import types
from typing import Any

from svc.source.base import AbstractSource, find_source

MODULE_NAME = "custom_source"


def load_source(code: str, filename: str = "source.py", compiled: Any = None) -> type[AbstractSource]:
    """Executes the code and returns its source class. `compiled` saves compiling it again.

    The module is registered, because dataclasses and string annotations look it up by name, and its lines are given to
    `linecache`, so that a traceback shows them where no file can be read.
    """
    module = types.ModuleType(MODULE_NAME)
    module.__file__ = filename
    sys.modules[MODULE_NAME] = module
    linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
    exec(compiled or compile(code, filename, "exec", dont_inherit=True), module.__dict__)
    return find_source(module.__dict__)
