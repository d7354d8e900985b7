"""What a source file has to look like."""

import unittest

from validating import GOOD, HEAD, METHODS, check, errors, inside, warnings


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


if __name__ == "__main__":
    unittest.main()
