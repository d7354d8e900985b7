import unittest
from datetime import date

from harness import LogLines

from svc.errors import ConfigError
from svc.source.base import AbstractSource, Source, build_source, find_source
from svc.source.loader import load_source
from svc.source.models import Record, SourceAuth, SourceRecord

METHODS = """
    def get_streams(self): return ['a']
    def check_connection(self): return True
    def get_records(self, stream): yield from ()
"""
HEAD = "from svc.source.base import AbstractSource, SourceConfig\nfrom svc.source.models import SourceAuth\n"


def build(code, config=None, authentication=None, http="http", state=None, log=None, strict=True):
    return build_source(
        load_source(HEAD + code),
        config=config or {},
        authentication=authentication or {"type": "none", "params": {}},
        http=http,
        state=state,
        log=log or LogLines(),
        strict=strict,
    )


class Names(unittest.TestCase):
    def test_base_class_and_record_answer_to_both_names(self):
        self.assertIs(Source, AbstractSource)
        self.assertIs(Record, SourceRecord)

    def test_a_record_takes_its_parts_by_position_and_by_name(self):
        self.assertEqual(SourceRecord("1", {"a": 1}), SourceRecord(data={"a": 1}, id="1"))


class Config(unittest.TestCase):
    FIELDS = "class C(SourceConfig):\n    url: str\n    size: int = 10\n    tags: list = []\n"
    CODE = f"{FIELDS}\nclass S(AbstractSource):{METHODS}"

    def test_settings_are_attributes_and_items(self):
        config = build(self.CODE, {"url": "x", "extra": 1}).config
        self.assertEqual((config.url, config["size"], config.get("nothing", 5), config.extra), ("x", 10, 5, 1))
        self.assertEqual(dict(config), {"url": "x", "size": 10, "tags": [], "extra": 1})
        self.assertEqual(type(config).__name__, "C")

    def test_without_a_config_class_they_are_too(self):
        config = build("class S(AbstractSource):" + METHODS, {"url": "x"}).config
        self.assertEqual((config.url, config["url"], "url" in config, config.get("b")), ("x", "x", True, None))

    def test_all_that_is_missing_or_wrong_is_said_at_once(self):
        with self.assertRaisesRegex(
            ConfigError,
            "config does not fit C: 'size' must be an integer, not str; 'url' is missing",
        ):
            build(self.CODE, {"size": "10"})

    def test_a_required_setting_is_missed_before_the_source_is_built_also_where_no_config_was_given(self):
        init = "    def __init__(self): raise SystemError('built')\n"
        for definition in (
            f"class C(SourceConfig):\n    region: str\nclass S(AbstractSource):\n{init}{METHODS}",
            f"class C:\n    region: str\nclass S(AbstractSource):\n    config: C\n{init}{METHODS}",
            f"class C:\n    region: str\nclass S(AbstractSource):\n    config_class = C\n{init}{METHODS}",
        ):
            for given in ({}, {"size": 1}):
                with self.assertRaisesRegex(ConfigError, "config does not fit C: 'region' is missing"):
                    build(definition, config=given)

    def test_a_class_that_is_only_named_like_settings_is_missed_when_it_is_read(self):
        code = f"class ApiConfig:\n    region: str\n    size: int = 5\nclass S(AbstractSource):{METHODS}"
        source = build(code)
        self.assertEqual((source.config.size, source.config.get("region"), list(source.config)), (5, None, ["size"]))
        with self.assertRaisesRegex(AttributeError, "config: 'region' is missing"):
            source.config.region
        with self.assertRaisesRegex(ConfigError, "'region' is missing"):
            build(code, config={"size": 1})

    def test_asking_for_streams_needs_no_settings(self):
        self.assertEqual(build(self.CODE, strict=False).get_streams(), ["a"])

    def test_a_setting_that_is_not_there_says_so(self):
        with self.assertRaisesRegex(AttributeError, "config has no 'token'.*url"):
            build(self.CODE, {"url": "x"}).config.token

    def test_defaults_are_not_shared_between_sources(self):
        build(self.CODE, {"url": "x"}).config.tags.append(1)
        self.assertEqual(build(self.CODE, {"url": "x"}).config.tags, [])

    def test_values_are_fitted_to_their_hints(self):
        code = (
            "from __future__ import annotations\nfrom datetime import date\nfrom decimal import Decimal\n"
            "from typing import Literal, Optional, Union\n"
            "class C(SourceConfig):\n    day: date\n    rate: float\n    price: Optional[Decimal] = None\n"
            "    mode: Literal['a', 'b'] = 'a'\n    n: Union[int, str] = 1\n\nclass S(AbstractSource):" + METHODS
        )
        config = build_source(
            load_source(code.replace("class C", HEAD + "class C", 1)),
            config={"day": "2024-01-31", "rate": 1, "price": "1.10", "n": "x"},
            authentication={},
            http=None,
            state=None,
            log=None,
        ).config
        self.assertEqual(config.day, date(2024, 1, 31))
        self.assertIsInstance(config.rate, float)
        self.assertEqual(str(config.price), "1.10")
        self.assertEqual((config.mode, config.n), ("a", "x"))

    def test_dataclasses_and_plain_annotated_classes_work_too(self):
        for definition in (
            "from dataclasses import dataclass, field\n@dataclass(frozen=True)\nclass MyConfig:\n    url: str\n"
            "    tags: list = field(default_factory=list)\n    def full(self): return self.url + '!'\n",
            "class MyConfig:\n    url: str\n    tags: list = []\n    def full(self): return self.url + '!'\n",
            "from dataclasses import dataclass, field\n@dataclass\nclass MyConfig(SourceConfig):\n    url: str\n"
            "    tags: list = field(default_factory=list)\n    def full(self): return self.url + '!'\n",
        ):
            config = build(definition + "class S(AbstractSource):" + METHODS, {"url": "x"}).config
            self.assertEqual((config.full(), config["url"], config.tags), ("x!", "x", []))

    def test_a_config_class_named_by_the_source_wins(self):
        code = "class One(SourceConfig):\n    a: int = 1\nclass Two(SourceConfig):\n    a: int = 2\n"
        self.assertEqual(build(code + "class S(AbstractSource):\n    config: One\n" + METHODS).config.a, 1)
        self.assertEqual(build(code + "class S(AbstractSource):\n    config_class = One\n" + METHODS).config.a, 1)
        self.assertEqual(build(code + "class S(AbstractSource):" + METHODS).config.a, 2)

    def test_values_do_not_show_in_a_repr(self):
        self.assertNotIn("hidden", repr(build(self.CODE, {"url": "hidden"}).config))


class Authentication(unittest.TestCase):
    GIVEN = {"type": "bearer", "params": {"token": "s3cret", "type": "x"}}

    def test_type_and_params_are_there_without_a_class(self):
        authentication = build("class S(AbstractSource):" + METHODS, authentication=self.GIVEN).authentication
        self.assertEqual(
            (
                authentication.type,
                authentication.params["token"],
                authentication.params.token,
            ),
            ("bearer", "s3cret", "s3cret"),
        )
        self.assertEqual((authentication.token, authentication.params["type"]), ("s3cret", "x"))

    def test_a_class_gives_defaults_and_names_what_is_missing(self):
        fields = "class A(SourceAuth):\n    type = 'bearer'\n    token: str\n    region: str = 'eu'\n"
        code = f"{fields}\nclass S(AbstractSource):{METHODS}"
        authentication = build(code, authentication=self.GIVEN).authentication
        self.assertEqual((authentication.type, authentication.token, authentication.region), ("bearer", "s3cret", "eu"))
        with self.assertRaisesRegex(ConfigError, "authentication.params does not fit A: 'token' is missing"):
            build(code)

    def test_secrets_do_not_show_in_a_repr(self):
        authentication = SourceAuth("bearer", {"token": "s3cret"})
        self.assertNotIn("s3cret", repr(authentication) + repr(authentication.params))


class Building(unittest.TestCase):
    def test_everything_is_ready_in_every_shape_of_init(self):
        for init in (
            "",
            "def __init__(self): self.seen = self.config.url",
            "def __init__(self, config): self.seen = config.url",
            "def __init__(self, config, authentication=None, *, log): super().__init__(config); self.seen = config.url",
            "def __init__(self, *args, **kwargs): super().__init__(*args, **kwargs); self.seen = self.config['url']",
            "def __init__(self, config, /, http_client, logger, auth): self.seen = config['url']",
            "def __init__(self): super().__init__(); self.seen = self.config.url",
            "def __init__(self, config=None): self.config = config; self.http = None; self.seen = 'x'",
        ):
            source = build(f"class S(AbstractSource):\n    {init}\n{METHODS}", {"url": "x"}, state={"n": 1})
            self.assertEqual(getattr(source, "seen", "x"), "x", init)
            self.assertEqual((source.config.url, source.http, source.http_client), ("x", "http", "http"), init)
            self.assertEqual((source.state, source.authentication.type), ({"n": 1}, "none"), init)
            source.log.info("works")

    def test_an_init_that_asks_for_more_is_refused_by_name(self):
        with self.assertRaisesRegex(ConfigError, "requires database; the platform passes config"):
            build("class S(AbstractSource):\n    def __init__(self, database): pass\n" + METHODS)

    def test_a_state_set_in_init_is_the_beginning_of_the_first_run_only(self):
        code = "class S(AbstractSource):\n    def __init__(self): self.state = {'since': 0}\n" + METHODS
        self.assertEqual(build(code).state, {"since": 0})
        self.assertEqual(build(code, state={"since": 9}).state, {"since": 9})

    def test_a_property_of_the_authors_own_is_left_alone(self):
        code = "class S(AbstractSource):\n    @property\n    def config(self): return 'mine'\n" + METHODS
        self.assertEqual(build(code).config, "mine")

    def test_missing_methods_are_named(self):
        with self.assertRaisesRegex(ConfigError, "does not implement check_connection, get_records"):
            build("class S(AbstractSource):\n    def get_streams(self): return []\n")

    def test_a_source_can_be_built_by_hand_in_a_test(self):
        cls = load_source(HEAD + "class S(AbstractSource):" + METHODS)
        self.assertEqual(cls(config={"a": 1}, state={}).config, {"a": 1})


class Finding(unittest.TestCase):
    def test_the_last_complete_class_that_no_other_extends(self):
        code = f"class A(AbstractSource):{METHODS}\nclass B(A): pass\nclass C(AbstractSource): pass\n"
        self.assertEqual(load_source(HEAD + code).__name__, "B")

    def test_no_class_is_an_error_that_says_what_to_do(self):
        with self.assertRaisesRegex(ConfigError, "extends AbstractSource"):
            find_source({"__name__": "x", "AbstractSource": AbstractSource})

    def test_a_traceback_shows_the_authors_line(self):
        import traceback

        cls = load_source(
            HEAD + "class S(AbstractSource):\n    def go(self):\n        raise KeyError('k')  # here\n" + METHODS,
        )
        try:
            cls().go()
        except KeyError:
            self.assertIn("# here", traceback.format_exc())


if __name__ == "__main__":
    unittest.main()
