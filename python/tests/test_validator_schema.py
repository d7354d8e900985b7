"""The settings and the authentication that the validator reads from the code."""

import unittest

from validating import GOOD, check, errors


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


if __name__ == "__main__":
    unittest.main()
