"""What validation knows about names: undefined ones, attributes of self, and what other frameworks call otherwise."""

import ast
import sys
import sysconfig
import time
import unittest
import warnings as python_warnings
from pathlib import Path

import harness  # noqa: F401  sets the import path
from test_validator import GOOD, HEAD, METHODS, check, errors, inside, warnings

from cell.names import check_names
from cell.scopes import Program
from cell.source_class import BASE_ATTRIBUTES
from svc.source.base import AbstractSource


class UndefinedNames(unittest.TestCase):
    def test_an_undefined_name_is_an_error_at_its_first_place(self):
        report = check(inside("x = 1\nif stream:\n    yield missing_thing(x)\nprint(missing_thing)"))
        (item,) = report["errors"]
        self.assertEqual((item["line"], item["column"], item["severity"]), (17, 18, "error"))
        self.assertEqual(item["message"], "'missing_thing' is not defined")

    def test_what_was_meant_is_said(self):
        for statement, message in (
            ("for row in []: yield SourceRecrd(row)", "'SourceRecrd' is not defined; did you mean 'SourceRecord'?"),
            ("yield Decimal('1')", "'Decimal' is not imported: from decimal import Decimal"),
            ("yield json.loads('{}')", "'json' is not imported: import json"),
            ("datetime.now()", "'datetime' is not imported: import datetime, or from datetime import datetime"),
            ("except_ = StatusError", "'StatusError' is not imported: from svc.http import StatusError"),
            ("yield http.get('x')", "'http' is not imported: import http"),
            ("yield log", "'log' is not defined; did you mean 'self.log'?"),
            ("yield check_connection()", "'check_connection' is not defined; did you mean 'self.check_connection'?"),
            ("yield requests.get('x')", "'requests' is not defined; use self.http, the platform's HTTP client"),
            ("yield strem", "'strem' is not defined; did you mean 'stream'?"),
            ("yield code", "'code' is not defined"),
        ):
            (found,) = errors(inside(statement))
            self.assertEqual(found[: len(message)], message)

    def test_a_type_hint_without_its_import_is_an_error_where_it_is_evaluated(self):
        code = GOOD.replace("from typing import Iterator\n", "")
        message = "'Iterator' is not imported: from typing import Iterator"
        postponed = f"from __future__ import annotations\n{code}"
        evaluated = (errors, warnings) if sys.version_info < (3, 14) else (warnings, errors)
        self.assertEqual([evaluated[0](code), evaluated[1](code)], [[message], []])
        self.assertEqual([errors(postponed), warnings(postponed)], [[], [message]])
        local = inside("rows: List[int] = []")
        self.assertEqual([errors(local), warnings(local)], [[], ["'List' is not imported: from typing import List"]])
        self.assertEqual(errors(inside("x: 'Whatever' = 1")), [])

    def test_everything_that_python_resolves_is_left_alone(self):
        for statement in (
            "[y for x in [[1]] for y in x if y]; {k: v for k, v in {}.items()}",
            "if (n := 1): yield n",
            "[last := x for x in [1]]; yield last",
            "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    yield error",
            "with self.http as first, self.http as (second, third): yield first, second, third",
            "for a, *rest in []: yield a, rest",
            "def inner():\n    nonlocal count\n    count += 1\ncount = 0",
            "def inner():\n    global COUNT\n    COUNT = 1\ndef other(): return COUNT",
            "def inner(a, /, b, *c, d=1, **e): return a, b, c, d, e",
            "key = lambda row, *more: (row, more)",
            "class Local:\n    size = 1\n    pages = [n for n in range(size)]\n    def of(self, n=size): return n",
            "class Local:\n    def one(self): return Local, __class__, super()",
            "try:\n    unicode\nexcept NameError:\n    unicode = str",
            "try:\n    text = basestring\nexcept (KeyError, NameError):\n    text = str",
            "import json as j, xml.etree.ElementTree; yield j, xml",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from decimal import Decimal\nyield Decimal",
            "yield __name__, __file__, __doc__, NotImplemented, ArithmeticError",
            "def later(): return defined_below\ndefined_below = 1",
            "for i in range(3): pass\nyield i",
            "del stream",
            "f'{stream!r:>{len(stream)}}'",
            "async def go():\n    return [x async for x in y_of()]\ndef y_of(): pass",
        ):
            self.assertEqual(errors(inside(statement)), [], statement)

    @unittest.skipIf(sys.version_info < (3, 10), "match came with Python 3.10")
    def test_what_a_match_captures_is_defined(self):
        statement = (
            "match stream:\n    case {'a': a, **rest}: yield a, rest\n    case [first, *others]: yield first, others\n"
            "    case str() as text: yield text\n    case other: yield other"
        )
        self.assertEqual(errors(inside(statement)), [])

    @unittest.skipIf(sys.version_info < (3, 12), "type parameters came with Python 3.12")
    def test_type_parameters_are_defined(self):
        statement = (
            "type Pair[A] = tuple[A, Later]\nclass Later[T: Pair]:\n    held: T\n    def get[K](self, key: K) -> T:\n"
            "        found: K = key\n        return found"
        )
        self.assertEqual(errors(inside(statement)), [])

    def test_a_class_body_is_not_seen_from_its_methods(self):
        code = GOOD + "    size = 5\n    other = size + 1\n\n    def pages(self) -> int:\n        return size\n"
        self.assertEqual(errors(code), ["'size' is not defined; did you mean 'self.size'?"])
        comprehension = GOOD + "    base = 'a'\n    all = [base for _ in 'x']\n"
        self.assertEqual(errors(comprehension), ["'base' is not defined"])

    def test_names_that_come_from_elsewhere_end_the_check(self):
        for head in ("from json import *\n", "class Odd:\n    vars()['x'] = 1\n    y = x\n"):
            self.assertEqual(errors(head + inside("yield anything_at_all")), [])
        self.assertEqual(errors("from svc.http import *\n" + inside("yield urlencode, Timeout")), [])
        star = "from svc.http import *\n" + inside("yield urlencod")
        self.assertEqual(errors(star), ["'urlencod' is not defined"])

    def test_the_standard_library_has_no_undefined_names(self):
        """Hundreds of programs that work: whatever is found in them is a fault of the check."""
        library = Path(sysconfig.get_paths()["stdlib"])
        files = [
            *library.glob("*.py"),
            *(
                each
                for name in ("email", "json", "xml", "html", "logging", "unittest")
                for each in (library / name).glob("*.py")
            ),
        ]
        found, seen = [], 0
        for file in files:
            code = file.read_text("utf-8", "replace")
            # These make names that no reading finds.
            if "globals()" in code or "global_enum" in code or "_convert_" in code or file.stem == "turtle":
                continue
            with python_warnings.catch_warnings():
                python_warnings.simplefilter("ignore")
                program = Program(ast.parse(code))
            seen += 1
            report = lambda node, message: found.append(f"{file.name}:{node.lineno}: {message}")  # noqa: B023, E731
            check_names(program, set(), report, report)
        self.assertGreater(seen, 100)
        self.assertEqual(found, [])

    def test_a_file_of_undefined_names_is_read_quickly(self):
        started = time.perf_counter()
        names = "\n".join(f"yield name_{n:05}, nome_{n:05}" for n in range(5000))
        self.assertGreater(len(errors(inside(f"name = 1\n{names}"))), 100)
        attributes = "\n".join(f"self.name_{n:05}, self.nome_{n:05}" for n in range(5000))
        self.assertEqual(len(warnings(inside(attributes))), 20)
        self.assertLess(time.perf_counter() - started, 5)


class SelfAttributes(unittest.TestCase):
    def test_a_slip_in_an_attribute_of_self_is_an_error(self):
        for statement, message in (
            (
                "yield self.htp.get('x')",
                "'self.htp' is not defined by the class or its base; did you mean 'self.http'?",
            ),
            ("self.get_record(stream)", "did you mean 'self.get_records'?"),
            ("def go(): return self.confg", "did you mean 'self.config'?"),
            ("[self.stat for _ in ()]", "did you mean 'self.state'?"),
        ):
            (found,) = errors(inside(statement))
            self.assertIn(message, found)
        own = GOOD + "    base_url = 'x'\n\n    def full(this) -> str:\n        return this.base_ulr\n"
        self.assertIn(
            "'this.base_ulr' is not defined by the class or its base; did you mean 'this.base_url'?", errors(own)[0]
        )

    def test_an_attribute_that_resembles_nothing_is_a_warning(self):
        self.assertEqual(
            warnings(inside("self.session.get('x')\nself.shopping_cart")),
            [
                "'self.session' is not defined by the class or its base; did you mean 'self.http'?",
                "'self.shopping_cart' is not defined by the class or its base",
            ],
        )

    def test_what_the_program_may_define_is_left_alone(self):
        for statement in (
            "self.http; self.http_client; self.config; self.authentication; self.state; self.log; self.get_streams()",
            "self.htp = self.http\nself.htp.get('x')",
            "def helper(source): source.htp = 1\nhelper(self)\nself.htp",
            "setattr(self, 'ht' + 'p', 1)\nself.htp",
            "for name in ('htp',): setattr(self, name, 1)\nself.htp",
            "if hasattr(self, 'htp'): self.htp",
            "try:\n    self.htp\nexcept AttributeError:\n    pass",
            "self.__dict__.update(htp=1)\nself.htp",
            "vars(self)['htp'] = 1\nself.htp",
            "self.htp += 1",
            "for self.htp in (): pass\nself.htp",
            "self = {}\nself.htp",
            "def inner(self): return self.htp",
            "lambda self: self.htp",
            "class Other:\n    htp = 1\nself.htp",
        ):
            report = check(inside(statement))
            about = [item for item in (*report["errors"], *report["warnings"]) if "htp" in item["message"]]
            self.assertEqual(about, [], statement)

    def test_a_class_that_gets_attributes_from_elsewhere_is_left_alone(self):
        use = "    def use(self) -> None:\n        self.htp\n"
        for code in (
            f"{HEAD}from collections import UserDict\nclass S(AbstractSource, UserDict):\n{METHODS}{use}",
            f"{HEAD}def add(cls: type) -> type: return cls\n@add\nclass S(AbstractSource):\n{METHODS}{use}",
            f"{HEAD}class S(AbstractSource, metaclass=type(AbstractSource)):\n{METHODS}{use}",
            GOOD + use + "    def __getattr__(self, name: str) -> int:\n        return 1\n",
            GOOD + "    @classmethod\n    def make(cls) -> int:\n        return cls.htp\n",
            GOOD + "    @staticmethod\n    def make(source: str) -> int:\n        return source.htp\n",
        ):
            report = check(code)
            self.assertEqual([item for item in report["errors"] if "htp" in item["message"]], [], code)

    def test_the_attributes_of_the_base_are_those_it_has(self):
        self.assertEqual(BASE_ATTRIBUTES, set(AbstractSource.__annotations__))


class Frameworks(unittest.TestCase):
    def test_a_method_of_almost_the_right_name_is_pointed_out(self):
        for name, written in (
            ("get_records", "get_record"),
            ("get_streams", "get_stream"),
            ("check_connection", "check_conection"),
            ("get_records", "read_records"),
            ("get_streams", "streams"),
            ("check_connection", "check"),
        ):
            (message,) = errors(GOOD.replace(f"def {name}(", f"def {written}("))
            self.assertIn(f"does not implement {name}: def {name}(self", message)
            self.assertIn(f"; it has '{written}': did you mean '{name}'?", message)

    def test_dlt_is_answered_with_the_methods_to_write(self):
        code = (
            "import dlt\nfrom dlt import resource\n\n@dlt.source\ndef shop():\n    return orders\n\n"
            "@dlt.resource(name='orders')\ndef orders():\n    yield {'id': dlt.secrets['x']}\n\n"
            "@resource\ndef users():\n    yield {}\n\npipeline = dlt.pipeline('x')\n"
        )
        found = {item["line"]: item["message"] for item in check(code)["errors"] if "dlt" in item["message"]}
        self.assertIn("import of 'dlt' is not allowed; write a class that extends AbstractSource", found[1])
        self.assertIn("get_records(self, stream) yields their records", found[1])
        self.assertIn("'@dlt.source' is not available; write a class that extends AbstractSource", found[4])
        self.assertIn(
            "'@dlt.resource' is not available; return its name from get_streams and yield its records", found[8]
        )
        self.assertIn("self.authentication", found[10])
        self.assertIn("'@dlt.resource' is not available", found[12])
        self.assertIn("'dlt.pipeline' is not available", found[16])
        without_import = " ".join(errors("@dlt.source\ndef f(): pass\n"))
        self.assertIn("'dlt' is not defined; write a class that extends AbstractSource", without_import)

    def test_airbyte_and_singer_are_answered_too(self):
        airbyte = (
            "from airbyte_cdk.sources import AbstractSource\nclass Shop(AbstractSource):\n"
            "    def check_connection(self, logger, config):\n        return True, None\n"
            "    def streams(self, config):\n        return []\n"
        )
        found = " ".join(errors(airbyte))
        self.assertIn(
            "import of 'airbyte_cdk.sources' is not allowed; write a class that extends AbstractSource", found
        )
        self.assertIn("streams() becomes get_streams(self)", found)
        self.assertIn(
            "must not require 'logger', 'config': the platform calls check_connection(); use self.log and", found
        )
        self.assertIn(
            "does not implement get_streams: def get_streams(self); it has 'streams': did you mean 'get_streams'?",
            found,
        )
        singer = " ".join(errors("import singer\nsinger.write_record('a', {})\nimport singer_sdk\n"))
        self.assertIn("'singer.write_record' is not available; yield SourceRecord(id=…, data=…)", singer)
        self.assertIn("import of 'singer_sdk' is not allowed", singer)


if __name__ == "__main__":
    unittest.main()
