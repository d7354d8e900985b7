"""The class that a custom source extends, and how the platform builds one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from svc.source.fields import declared_fields, own_annotations
from svc.source.models import ConfigError, SourceAuth, SourceConfig

if TYPE_CHECKING:
    from svc.http import HttpClient
    from svc.log import Log

__all__ = ["AbstractSource", "ConfigError", "Source", "SourceConfig"]


class AbstractSource(ABC):
    """A source of records, written by you and built by the platform.

        class Shop(AbstractSource):
            name = "shop"

            def get_streams(self) -> list[str]:
                return ["orders"]

            def check_connection(self) -> bool:
                return self.http.get("https://shop.example/api/me").ok

            def get_records(self, stream: str) -> Iterator[SourceRecord]:
                for row in self.http.paginate_pages(f"https://shop.example/api/{stream}"):
                    yield SourceRecord(id=row["id"], data=row)

    Ready in every method, and in your own ``__init__`` too:

    config            settings: ``self.config.size``, ``self.config["size"]``, ``self.config.get("size", 50)``
    authentication    ``type`` and ``params``. The platform applies them to your requests; read them only where you must
    http              the HTTP client (also ``self.http_client``)
    state             a dict kept between runs, for reading only what is new. Set it after the records it stands for
    log               ``self.log.info("…")``; also debug, warning, error
    """

    config: SourceConfig
    authentication: SourceAuth
    http: HttpClient
    http_client: HttpClient
    state: dict[str, Any]
    log: Log

    def __init__(
        self, config: Any = None, authentication: Any = None, http: Any = None, state: Any = None, log: Any = None
    ) -> None:
        # The platform sets these before; a source that is created in a test gets what is passed here.
        given = {"config": config, "authentication": authentication, "http": http, "http_client": http, "state": state}
        for name, value in {**given, "log": log}.items():
            if value is not None or not hasattr(self, name):
                _set(self, name, value)

    @abstractmethod
    def get_streams(self) -> list[str]:
        """The names of the streams that can be read."""

    @abstractmethod
    def check_connection(self) -> bool:
        """Whether the credentials work: make one small request. An exception counts as no, with its text as reason."""

    @abstractmethod
    def get_records(self, stream: str) -> Iterable[Any]:
        """Yields the records of a stream, `SourceRecord` by `SourceRecord`."""


Source = AbstractSource


def find_source(namespace: Mapping[str, Any]) -> type[AbstractSource]:
    """The source class of executed code: the last complete one that no other extends. Validation picks the same."""
    module = namespace.get("__name__")
    classes = list(
        dict.fromkeys(
            value
            for value in namespace.values()
            if isinstance(value, type) and issubclass(value, AbstractSource) and value.__module__ == module
        )
    )
    leaves = _leaves(classes)
    complete = [each for each in leaves if not getattr(each, "__abstractmethods__", ())]
    if not leaves:
        raise ConfigError("the code defines no class that extends AbstractSource from svc.source.base")
    return (complete or leaves)[-1]


def build_source(
    cls: type[AbstractSource],
    *,
    config: Mapping[str, Any] | None,
    authentication: Any,
    http: Any,
    state: Any,
    log: Any,
    strict: bool = True,
) -> AbstractSource:
    """A source ready for use. Authors may define any ``__init__``, with or without calling super's.

    ``authentication`` is a mapping with ``type`` and ``params``, or an object that fetches them when they are read.
    With ``strict`` false, missing settings are None instead of a ConfigError: for asking a source for its streams.
    """
    if cls.__abstractmethods__:
        missing = ", ".join(sorted(cls.__abstractmethods__))
        raise ConfigError(f"class {cls.__name__} does not implement {missing}")
    # A cell gives an object that fetches the secrets when an author reads them; it is used as it is.
    delayed = hasattr(type(authentication), "delayed")
    given = {} if delayed else dict(authentication or {})
    state = {} if state is None else state
    values = {
        "config": build_settings(find_class(cls, SourceConfig), dict(config or {}), strict),
        "authentication": authentication if delayed else build_settings(find_class(cls, SourceAuth), given, strict),
        "http": http,
        "http_client": http,
        "state": state,
        "log": log,
    }
    source = cls.__new__(cls)
    for name, value in values.items():
        _set(source, name, value)
    args, kwargs = _init_arguments(cls, {**values, "auth": values["authentication"], "logger": log})
    source.__init__(*args, **kwargs)  # type: ignore[misc]
    _restore(source, values)
    return source


def find_class(cls: type, kind: type) -> type:
    """The author's own SourceConfig (or SourceAuth) class, else `kind` itself.

    In this order: what the source class names (`config: ShopConfig`, `config_class = ShopConfig`), the last class in
    the same module that extends `kind`, a plain class there of a usual name.
    """
    for attribute in ("config",) if kind is SourceConfig else ("authentication", "auth"):
        for named in (cls.__dict__.get(f"{attribute}_class"), _annotation(cls, attribute)):
            if isinstance(named, type) and named.__module__ == cls.__module__:
                return _with_base(named, kind)
    scope = _namespace(cls)
    classes = [
        value
        for value in (*scope.values(), *vars(cls).values())
        if isinstance(value, type) and value.__module__ == cls.__module__ and not issubclass(value, AbstractSource)
    ]
    extending = [each for each in classes if issubclass(each, kind)]
    leaves = _leaves(extending)
    if leaves:
        return leaves[-1]
    endings = ("Config",) if kind is SourceConfig else ("Auth", "Authentication")
    plain = [each for each in classes if each.__name__.endswith(endings) and own_annotations(each)]
    if not plain:
        return kind
    found = _with_base(plain[-1], kind)
    found._found_by_name = True  # type: ignore[attr-defined]
    return found


def build_settings(cls: type, values: dict[str, Any], strict: bool) -> Any:
    """An instance of a settings class, filled without its ``__init__`` unless the author wrote one."""
    from_author = not cls.__module__.startswith("svc.") and "__init__" in vars(cls)
    if from_author and "__dataclass_fields__" not in vars(cls) and issubclass(cls, SourceConfig):
        return cls(**values)
    settings: Any = cls.__new__(cls)  # type: ignore[call-overload]
    settings._fill(values, strict)
    prepare = getattr(settings, "__post_init__", None)
    complete = all(settings._is_set(name) for name in declared_fields(cls))
    if prepare is not None and strict and complete:
        prepare()
    return settings


def _leaves(classes: list[type]) -> list[type]:
    """Those that no other of them extends."""
    return [each for each in classes if not any(other is not each and issubclass(other, each) for other in classes)]


def _with_base(cls: type, kind: type) -> type:
    return cls if issubclass(cls, kind) else type(cls.__name__, (cls, kind), {"__module__": cls.__module__})


def _namespace(cls: type) -> Mapping[str, Any]:
    for function in vars(cls).values():
        function = getattr(function, "__func__", function)
        if hasattr(function, "__globals__"):
            namespace: Mapping[str, Any] = function.__globals__
            return namespace
    return {}


def _annotation(cls: type, name: str) -> Any:
    hint = own_annotations(cls).get(name)
    return _namespace(cls).get(hint) if isinstance(hint, str) else hint


def _init_arguments(cls: type, known: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What to call ``cls.__init__`` with, from the names of its parameters."""
    init: Any = cls.__init__  # type: ignore[misc]
    while hasattr(init, "__wrapped__"):
        init = init.__wrapped__
    code = getattr(init, "__code__", None)
    if code is None:
        return [], {}
    positional = code.co_varnames[1 : code.co_argcount]
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    optional = set(positional[len(positional) - len(init.__defaults__ or ()) :]) | set(init.__kwdefaults__ or ())
    unknown = [name for name in (*positional, *keywords) if name not in known and name not in optional]
    if unknown:
        raise ConfigError(
            f"{cls.__name__}.__init__ requires {', '.join(unknown)}; the platform passes config, authentication, http, "
            "state and log"
        )
    only_by_position = code.co_posonlyargcount - 1
    args = [known[name] for name in positional[: max(only_by_position, 0)] if name in known]
    kwargs = {name: known[name] for name in (*positional[max(only_by_position, 0) :], *keywords) if name in known}
    if code.co_flags & 0x08:
        kwargs.update({name: known[name] for name in ("config", "authentication", "http", "state", "log")})
    return args, kwargs


def _restore(source: AbstractSource, values: dict[str, Any]) -> None:
    """Restores what an ``__init__`` overwrote. A state that it sets is the initial state of the first run."""
    for name, value in values.items():
        if name != "state" and getattr(source, name, None) is None:
            _set(source, name, value)
    kept = values["state"]
    own = getattr(source, "state", None)
    if own is not kept:
        if isinstance(own, Mapping) and isinstance(kept, dict):
            for name, value in own.items():
                kept.setdefault(name, value)
        _set(source, "state", kept)


def _set(source: AbstractSource, name: str, value: Any) -> None:
    try:
        setattr(source, name, value)
    except AttributeError:
        # The author defined a property of this name.
        pass
