"""What a source file must not do, and what a hostile one does to the validator."""

import ast
import time
import unittest

from validating import GOOD, check, errors, inside


class Imports(unittest.TestCase):
    def refuse(self, statement, module):
        found = errors(inside(statement))
        named = [message for message in found if f"'{module}'" in message and "not allowed" in message]
        self.assertTrue(named, (statement, found))

    def test_every_form_of_a_blocked_import_is_named(self):
        for module in ("os", "sys", "subprocess", "socket", "urllib", "requests"):
            self.assertTrue(errors(f"import {module}\n" + GOOD)[0].startswith(f"import of '{module}' is not allowed; "))
            self.refuse(f"import {module}", module)
            self.refuse(f"import json, {module} as x", module)
            self.refuse(f"from {module} import something", module)
            self.refuse(f"from {module} import *", module)
            self.refuse(f"__import__('{module}')", module)
            self.refuse(f"importlib = 1\nimport importlib\nimportlib.import_module('{module}')", module)
            self.refuse(f"from importlib import import_module as load\nload('{module}')", module)
            self.refuse(f"try:\n    import {module}\nexcept ImportError:\n    pass", module)
        self.refuse("import os.path", "os.path")
        self.refuse("from urllib.parse import quote", "urllib.parse")
        self.refuse("__import__('o' + 's')", "os")
        self.refuse("from . import helpers", ".")
        self.refuse("from ..pkg import helpers", "..pkg")

    def test_a_module_is_not_reached_through_another(self):
        self.refuse("from svc import os", "os")
        self.refuse("from svc.http import urllib", "urllib")
        self.refuse("from svc.source.base import sys", "sys")
        self.refuse("from logging import os as o", "os")
        self.refuse("from random import _os", "os")
        self.refuse("import random\nrandom._os.getcwd()", "os")
        self.refuse("import random as r\ngetattr(r, '_os')", "random._os")
        self.refuse("from http import client", "http.client")
        self.refuse("import xml.sax", "xml.sax")

    def test_modules_that_must_never_be_allowed(self):
        for module in (
            "importlib",
            "builtins",
            "ctypes",
            "shutil",
            "pathlib",
            "io",
            "tempfile",
            "threading",
            "multiprocessing",
            "asyncio",
            "signal",
            "gc",
            "inspect",
            "pickle",
        ):
            self.refuse(f"import {module}", module)

    def test_a_module_the_cell_lacks_is_refused_with_what_exists_instead(self):
        for module, hint in (
            ("pandas", "plain Python"),
            ("numpy", "plain Python"),
            ("httpx", "self.http"),
            ("pytz", "zoneinfo"),
            ("bs4", "html.parser"),
            ("jwt", "jwt_encode"),
            ("pydantic", "SourceConfig"),
            ("no_such_module", "docs/custom-sources.md"),
            ("svc.nothing", "svc.source.base"),
        ):
            (message,) = errors(inside(f"import {module}"))
            self.assertIn(f"import of '{module}' is not allowed", message)
            self.assertIn(hint, message)

    def test_a_name_that_svc_lacks_is_refused_with_what_it_has(self):
        (message,) = errors(inside("from svc.source.models import Stream"))
        self.assertIn("svc.source.models has ConfigError, Record", message)

    def test_allowed_modules_pass_in_every_form(self):
        for statement in (
            "import json",
            "import xml.etree.ElementTree as ET",
            "from xml.etree import ElementTree",
            "import xml",
            "from collections import abc",
            "from http import HTTPStatus",
            "import svc.http as h\nh.urlencode({})",
            "from svc import http",
            "from email.utils import parsedate_to_datetime",
        ):
            self.assertEqual(errors(inside(statement)), [], statement)


class Calls(unittest.TestCase):
    def refuse(self, statement, *names):
        found = errors(inside(statement))
        for name in names:
            self.assertTrue(any(f"'{name}'" in message for message in found), (statement, found))

    def test_blocked_calls_are_named(self):
        for name in ("eval", "exec", "compile", "open", "input", "breakpoint", "globals"):
            self.assertIn(f"call of '{name}' is not allowed", errors(inside(f"{name}('x')"))[0])

    def test_also_by_another_name_or_as_a_value(self):
        self.refuse("e = eval\ne('1')", "eval")
        self.refuse("list(map(eval, ['1']))", "eval")
        self.refuse("eval = eval\neval('1')", "eval")
        self.refuse("{'f': open}['f']('x')", "open")
        self.refuse("@exec\ndef f(): pass", "exec")
        self.refuse("def f(g=compile): pass", "compile")
        self.refuse("__builtins__['ev' + 'al']", "__builtins__")
        self.refuse("import builtins\nbuiltins.exec('1')", "builtins", "builtins.exec")
        self.refuse("from builtins import eval as e\ne('1')", "builtins", "builtins.eval")
        self.refuse("getattr(self, 'ev' + 'al')", "eval")
        self.refuse("getattr(__builtins__, 'open')", "__builtins__")

    def test_file_system_operations_are_named(self):
        self.refuse("import os\nos.remove('x')\nos.listdir('.')", "os", "os.remove", "os.listdir")
        self.refuse("os.remove('x')", "os.remove")
        self.refuse("from pathlib import Path\nPath('x').read_text()", "pathlib", "pathlib.Path")
        self.refuse("import shutil\nshutil.rmtree('x')", "shutil.rmtree")
        self.refuse("import io\nio.open('x')", "io.open")
        for call in ("codecs.open", "gzip.open", "bz2.open", "lzma.open", "logging.FileHandler"):
            self.refuse(f"import {call.split('.')[0]}\n{call}('x')", call)
        self.refuse("from codecs import open as o", "codecs.open")
        self.refuse("import xml.etree.ElementTree as ET\nET.parse('x.xml')", "xml.etree.ElementTree.parse")
        self.refuse("import logging\nlogging.basicConfig(filename='x')", "logging.basicConfig")

    def test_ladders_into_the_interpreter_are_named(self):
        self.refuse("().__class__.__base__.__subclasses__()", "__subclasses__", "__base__")
        self.refuse("check.__globals__", "__globals__")
        self.refuse("'{0.__globals__}'.format(self)", "__globals__")
        self.refuse("from operator import attrgetter\nattrgetter('a.__code__')", "__code__")

    def test_names_of_the_authors_own_are_not_mistaken(self):
        for statement in (
            "import re\nre.compile('x')",
            "def f(input, open):\n    return input + open(1)",
            "open = self.http.get\nopen('x')",
            "row = {}\nrow.get('open'); getattr(row, 'open', None)",
            "for input in []:\n    input.strip()",
            "self.config.os; self.os = 1",
            "class Market:\n    def compile(self): pass\n    def go(self): return self.compile()",
            "x = type(self).__name__; y = self.__class__",
            "[eval for eval in []]",
        ):
            self.assertEqual(errors(inside(statement)), [], statement)


class Hostile(unittest.TestCase):
    def test_large_and_deep_code_ends_in_one_clear_error_at_once(self):
        for code, words in (
            ("x = 1\n" * 1_000_000, "512 KB"),
            ("#" * 524_289, "512 KB"),
            ("é" * 300_000, "512 KB"),
            ("\n" * 30_000, "lines"),
            ("x = 1\0", "NUL"),
            ("x = '\ud800'", "surrogate"),
            ("(" * 100_000, "brackets"),
            ("x = " + "[" * 500 + "]" * 500, "brackets"),
            ("\n".join(" " * n + "if x:" for n in range(99)) + "\n" + " " * 99 + "pass", "blocks"),
            ("a;" * 100_000, "words and symbols"),
            ("-" * 70_000 + "1", "too deeply"),
            ("not " * 70_000 + "1", "too deeply"),
            ("x = " + "+".join("a" * 39_000), "too deeply"),
            ("a" + ".b" * 39_000, "too deeply"),
            ("lambda:" * 39_000 + "1", "too deeply"),
            ("if a:\n pass\n" + "elif a:\n pass\n" * 9_000, "too deeply"),
            ("f(" + ",".join(f"a{n}=1" for n in range(10_000)) + ")", "keyword arguments"),
            ("".join(f"class A{n}: pass\n" for n in range(300)), "classes"),
            ('"\\' * 200_000, "syntax error"),
            ("'''" * 50_001, "syntax error"),
        ):
            started = time.process_time()
            report = check(code)
            self.assertLess(time.process_time() - started, 1.0, code[:20])
            self.assertEqual(len(report["errors"]), 1, code[:20])
            self.assertIn(words, report["errors"][0]["message"], code[:20])

    def test_thousands_of_errors_are_cut_short(self):
        items = check("import os;" * 9_000)["errors"]
        self.assertEqual(len(items), 200)
        self.assertRegex(items[-1]["message"], r"and \d+ more errors")

    def test_any_program_gives_a_report(self):
        # The library's own modules: every construct of the language, and plenty of what is refused.
        for module in (ast, time, unittest.case, unittest.mock if hasattr(unittest, "mock") else unittest):
            if getattr(module, "__file__", None):
                with open(module.__file__, encoding="utf-8") as file:
                    self.assertFalse(check(file.read())["valid"])

    def test_an_ordinary_source_takes_milliseconds(self):
        check(GOOD)
        started = time.process_time()
        for _ in range(20):
            check(GOOD)
        self.assertLess((time.process_time() - started) / 20, 0.01)


if __name__ == "__main__":
    unittest.main()
