import ast
import time
import unittest

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


class Shape(unittest.TestCase):
    def test_a_good_source_has_no_errors_and_no_warnings(self):
        self.assertEqual(
            check(GOOD),
            {
                "valid": True,
                "errors": [],
                "warnings": [],
                "extracted_source_name": "shop_source",
                "extracted_streams": ["orders", "customers"],
                "extracted_schema": {
                    "config_class_name": None,
                    "config_fields": [],
                    "auth_class_name": None,
                    "auth_type": None,
                },
                "streams_need_run": False,
                "settings_enforced": False,
            },
        )

    def test_a_bad_source_has_the_same_keys(self):
        for code in ("def", "import os", "", "\0", "x" * 600_000):
            report = check(code)
            self.assertEqual(set(report), set(check(GOOD)))
            self.assertFalse(report["valid"] or report["streams_need_run"])
            self.assertIsNone(report["extracted_streams"])
            self.assertEqual(
                set(report["extracted_schema"]),
                {"config_class_name", "config_fields", "auth_class_name", "auth_type"},
            )

    def test_a_syntax_error_has_its_line_and_column_from_zero(self):
        (item,) = check("x = 1\ny = = 2\n")["errors"]
        self.assertEqual((item["line"], item["column"], item["severity"]), (2, 4, "error"))
        self.assertIn("syntax error", item["message"])

    def test_what_only_the_compiler_sees_is_a_syntax_error_too(self):
        for code in ("return 1", "def f(a, a): pass", "break", "nonlocal x", "f(x=1, x=2)", "await x"):
            self.assertTrue(any("syntax error" in message for message in errors(code)), code)

    def test_columns_count_characters(self):
        (item,) = check(inside("x = 'üüü'; eval('1')"))["errors"]
        self.assertEqual((item["line"], item["column"]), (15, 19))

    def test_all_errors_come_at_once_ordered_by_line(self):
        code = "import os\nimport requests\nclass A:\n    pass\nx = eval('1')\nopen('f')\n"
        items = check(code)["errors"]
        self.assertEqual([item["line"] for item in items], sorted(item["line"] for item in items))
        self.assertEqual(len(items), 5)


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


class SourceClass(unittest.TestCase):
    def test_no_class_is_an_error_that_names_the_methods(self):
        (message,) = errors("x = 1\n")
        for name in ("AbstractSource", "get_streams", "check_connection", "get_records"):
            self.assertIn(name, message)

    def test_a_class_without_the_base_is_pointed_out(self):
        (item,) = check(GOOD.replace("(AbstractSource)", ""))["errors"]
        self.assertIn("class 'ShopSource' does not extend the base class", item["message"])
        self.assertEqual(item["line"], 6)

    def test_a_base_that_was_not_imported_is_pointed_out(self):
        (message,) = errors(GOOD.replace("from svc.source.base import AbstractSource\n", ""))
        self.assertIn("'AbstractSource' is not imported", message)

    def test_every_missing_method_is_named(self):
        found = errors(HEAD + "class S(AbstractSource):\n    pass\n")
        self.assertEqual(len(found), 3)
        for name in ("get_streams", "check_connection", "get_records"):
            self.assertTrue(any(f"does not implement {name}" in message for message in found))

    def test_methods_may_be_inherited_assigned_or_static(self):
        for code in (
            HEAD + f"class Base(AbstractSource):\n{METHODS}\nclass S(Base):\n    name = 'x'\n",
            HEAD + f"class Mixin:\n{METHODS}\nclass S(Mixin, AbstractSource):\n    pass\n",
            GOOD.replace("    def get_streams(self)", "    @staticmethod\n    def get_streams()"),
            GOOD.replace("    def get_streams(self)", "    @classmethod\n    def get_streams(cls)"),
            GOOD + "    get_streams = lambda self: ['a']\n",
            GOOD + "    def helper(self, *args: int, **kwargs: int) -> None: ...\n",
            GOOD.replace("AbstractSource", "Source"),
            GOOD.replace("from svc.source.base import AbstractSource", "import svc.source.base as b").replace(
                "(AbstractSource)",
                "(b.AbstractSource)",
            ),
            GOOD.replace(
                "import AbstractSource",
                "import AbstractSource as Base",
            ).replace("(AbstractSource)", "(Base)"),
            GOOD.replace("import AbstractSource", "import *"),
        ):
            self.assertEqual(errors(code), [], code)

    def test_signatures_are_checked(self):
        for old, new, words in (
            ("get_records(self, stream: str)", "get_records(self)", "must accept the stream"),
            ("get_records(self, stream: str)", "get_records(self, stream, since)", "must not require 'since'"),
            ("get_records(self, stream: str)", "get_records(self, stream, *, since)", "must not require 'since'"),
            ("get_streams(self)", "get_streams(self, x)", "must not require 'x'"),
            ("get_streams(self)", "get_streams()", "has no parameter self"),
            ("def check_connection", "async def check_connection", "async"),
            ("    def get_streams", "    @property\n    def get_streams", "is a property"),
        ):
            found = errors(GOOD.replace(old, new))
            self.assertTrue(any(words in message for message in found), (new, found))
        for new in ("get_records(self, stream, since=None)", "get_records(self, *args)", "get_records(self, name)"):
            self.assertEqual(errors(GOOD.replace("get_records(self, stream: str)", new)), [])

    def test_of_several_source_classes_the_last_complete_one_counts_with_a_warning(self):
        second = "\nclass Second(AbstractSource):\n" + METHODS.replace('"orders", "customers"', '"second"')
        code = GOOD + second + "\nclass Third(AbstractSource):\n    pass\n"
        report = check(code)
        self.assertEqual(
            (
                report["valid"],
                report["extracted_streams"],
                report["extracted_source_name"],
            ),
            (True, ["second"], "second"),
        )
        self.assertIn("'Second' is used, 'ShopSource', 'Third' ignored", " ".join(warnings(code)))

    def test_the_name_is_the_attribute_or_the_class_name_in_snake_case(self):
        for definition, expected in (
            ("class ShopSource", "shop_source"),
            ("class GitHubIssues", "git_hub_issues"),
            (
                "class HTTPSource2",
                "http_source2",
            ),
            ("class X", "x"),
        ):
            self.assertEqual(check(GOOD.replace("class ShopSource", definition))["extracted_source_name"], expected)
        for line in ('    name = "my_shop"\n', '    name: str = "my_shop"\n'):
            self.assertEqual(check(GOOD + line)["extracted_source_name"], "my_shop")
        self.assertEqual(check(GOOD + "    name = 'a' + 'b'\n")["extracted_source_name"], "shop_source")


class Streams(unittest.TestCase):
    def read(self, returned, before="", attribute="", after=""):
        code = GOOD.replace('return ["orders", "customers"]', returned).replace(
            "\nclass Shop",
            f"\n{before}\nclass Shop",
        )
        report = check(code.replace("(AbstractSource):\n", f"(AbstractSource):\n{attribute}") + after)
        self.assertTrue(report["valid"], report["errors"])
        return report["extracted_streams"]

    def test_what_can_be_read_is_read(self):
        self.assertEqual(self.read("return ('a', 'b')"), ["a", "b"])
        self.assertEqual(self.read("return STREAMS", "STREAMS = ['a']"), ["a"])
        self.assertEqual(self.read("return A + list(B)", "A = ['a']\nB: tuple = ('b',)"), ["a", "b"])
        self.assertEqual(self.read("return [*A, 'c']", "A = B = ['a']"), ["a", "c"])
        self.assertEqual(self.read("return list(PATHS)", "PATHS = {'b': '/b', 'a': '/a'}"), ["b", "a"])
        self.assertEqual(self.read("return sorted(PATHS.keys())", "PATHS = {'b': '/b', 'a': '/a'}"), ["a", "b"])
        self.assertEqual(self.read("return self.streams", attribute="    streams = ['x']\n"), ["x"])
        self.assertEqual(self.read("return ShopSource.streams", attribute="    streams = ['x']\n"), ["x"])
        self.assertEqual(self.read('"""The streams."""\n        return [PREFIX + "a"]', "PREFIX = 'p_'"), ["p_a"])

    def test_what_cannot_is_left_to_a_run(self):
        for returned, before, attribute, after in (
            ("return self._ask()", "", "", ""),
            ("return [n for n in 'ab']", "", "", ""),
            ("return STREAMS", "STREAMS = ['a']\nSTREAMS.append('b')", "", ""),
            ("return STREAMS", "STREAMS = ['a']\nSTREAMS += ['b']", "", ""),
            ("return STREAMS", "STREAMS = ['a']\nSTREAMS = ['b']", "", ""),
            ("return STREAMS", "STREAMS = OTHER\nOTHER = STREAMS", "", ""),
            (
                "return self.streams",
                "",
                "    streams = ['x']\n",
                "    def f(self) -> None:\n        self.streams = ['y']\n",
            ),
            ("x = ['a']\n        return x", "", "", ""),
            ("yield 'a'", "", "", ""),
            ("return list({[1]: 2})", "", "", ""),
        ):
            self.assertIsNone(self.read(returned, before, attribute, after), returned)
            code = GOOD.replace('return ["orders", "customers"]', "return self._ask()")
        self.assertTrue(check(code)["streams_need_run"])

    def test_wrong_streams_are_errors(self):
        for returned, words in (
            ("return 'orders'", "must return a list"),
            ("return [1]", "1 is not one"),
            ("return ['']", "non-empty"),
            ("pass", "returns nothing"),
            ("return None", "must return a list"),
        ):
            (message,) = errors(GOOD.replace('return ["orders", "customers"]', returned))
            self.assertIn(words, message)


class Schema(unittest.TestCase):
    CODE = (
        GOOD.replace("import SourceRecord", "import SourceAuth, SourceConfig, SourceRecord")
        + '''

class BaseConfig(SourceConfig):
    url: str


class ShopConfig(BaseConfig):
    """Settings."""

    pages: "list[int]"
    size: int = 10
    region: Optional[str]
    note: Optional[str] = None
    limit: ClassVar[int] = 5
    _hidden: int = 1


class ShopAuth(SourceAuth):
    type = "api_key"
    token: str
'''.replace("Optional", "typing.Optional").replace("ClassVar", "typing.ClassVar")
    )

    def test_fields_have_name_hint_and_whether_they_are_required(self):
        schema = check("import typing\n" + self.CODE)["extracted_schema"]
        self.assertEqual(
            (schema["config_class_name"], schema["auth_class_name"], schema["auth_type"]),
            (
                "ShopConfig",
                "ShopAuth",
                "api_key",
            ),
        )
        fields = [(field["name"], field["type_hint"], field["required"]) for field in schema["config_fields"]]
        self.assertEqual(
            fields,
            [
                ("url", "str", True),
                ("pages", "list[int]", True),
                ("size", "int", False),
                ("region", "typing.Optional[str]", True),
                ("note", "typing.Optional[str]", False),
            ],
        )

    def test_settings_are_enforced_where_no_run_begins_without_the_required_ones(self):
        extending = "from svc.source.models import SourceConfig\n" + GOOD + "\n\nclass Shop(SourceConfig):\n    url: str\n"
        named = GOOD.replace("(AbstractSource):\n", "(AbstractSource):\n    config: Settings\n")
        for code, enforced in (
            (extending, True),
            (named.replace("class ", "class Settings:\n    url: str\n\n\nclass ", 1), True),
            (GOOD + "\n\nclass ShopConfig:\n    url: str\n", False),
            (extending + "\n    def __init__(self, url='x'):\n        self.url = url\n", False),
            (GOOD, False),
        ):
            report = check(code)
            self.assertEqual((report["errors"], report["settings_enforced"]), ([], enforced), code)

    def test_plain_classes_and_dataclasses_of_usual_names_count(self):
        code = (
            GOOD
            + """
from dataclasses import dataclass, field


@dataclass
class SourceConfig:
    url: str
    tags: list = field(default_factory=list)
    bare: int = field()


class ShopSourceAuth:
    auth_type: str = "bearer"
    token: str
"""
        )
        schema = check(code)["extracted_schema"]
        self.assertEqual(
            [(field["name"], field["required"]) for field in schema["config_fields"]],
            [
                ("url", True),
                ("tags", False),
                ("bare", True),
            ],
        )
        self.assertEqual(
            (schema["config_class_name"], schema["auth_class_name"], schema["auth_type"]),
            (
                "SourceConfig",
                "ShopSourceAuth",
                "bearer",
            ),
        )

    def test_the_type_may_be_a_literal_hint(self):
        code = self.CODE.replace('type = "api_key"', 'type: Literal["basic"]').replace(
            "\nclass Shop",
            "\nfrom typing import Literal\nclass Shop",
            1,
        )
        self.assertEqual(check("import typing\n" + code)["extracted_schema"]["auth_type"], "basic")


class Advice(unittest.TestCase):
    def test_each_kind_of_warning(self):
        for statement, words in (
            ("print('x')", "self.log"),
            ("try:\n    pass\nexcept:\n    pass", "bare except"),
            ("def f(a=[]): pass", "default of 'a' is shared"),
            ("f = lambda a={}: a", "default of 'a' is shared"),
            ("x = '\\d'", "invalid escape sequence"),
            ("x = 1 is 1", "literal"),
        ):
            found = warnings(inside(statement))
            self.assertTrue(any(words in message for message in found), (statement, found))
            self.assertTrue(check(inside(statement))["valid"])
            self.assertTrue(all(item["severity"] == "warning" for item in check(inside(statement))["warnings"]))

    def test_missing_type_hints_are_named(self):
        code = GOOD.replace("stream: str) -> Iterator[SourceRecord]", "stream)")
        code += "\ndef helper(a: int, *, b):\n    return a\n"
        self.assertEqual(
            warnings(code),
            [
                "get_records has no type hint for 'stream' and what it returns",
                "helper has no type hint for 'b' and what it returns",
            ],
        )

    def test_another_name_than_the_one_it_is_saved_under(self):
        self.assertEqual(warnings(GOOD, "shop_source"), [])
        self.assertIn("saved as 'other', but its code calls it 'shop_source'", warnings(GOOD, "other")[0])

    def test_methods_that_give_nothing(self):
        code = GOOD.replace("return True", "pass").replace('yield SourceRecord("1", {})', "pass")
        self.assertEqual(len(warnings(code)), 2)


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
