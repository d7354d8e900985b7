"""What a custom source may import, and what to say about the rest.

`ALLOWED_MODULES` is both the list that validation checks against and the list that the zygote imports before a cell is
sealed: after that no file can be opened, so no other module can be imported. All of them only compute; none opens a
file, a socket or a process by itself. Modules that a Python version does not have are left out.
"""

from __future__ import annotations

ALLOWED_MODULES = (
    "__future__", "abc", "array", "base64", "binascii", "bisect", "bz2", "calendar", "cmath", "codecs", "collections",
    "collections.abc", "colorsys", "contextlib", "contextvars", "copy", "csv", "dataclasses", "datetime", "decimal",
    "difflib", "email", "email.header", "email.message", "email.parser", "email.policy", "email.utils", "enum",
    "fnmatch", "fractions", "functools", "graphlib", "gzip", "hashlib", "heapq", "hmac", "html", "html.entities",
    "html.parser", "http", "ipaddress", "itertools", "json", "json.decoder", "json.encoder", "keyword", "logging",
    "lzma", "math", "numbers", "operator", "pprint", "quopri", "random", "re", "reprlib", "secrets", "statistics",
    "string", "stringprep", "struct", "svc", "svc.http", "svc.log", "svc.source", "svc.source.base",
    "svc.source.models", "svc.text", "textwrap", "time", "tomllib", "traceback", "types", "typing", "unicodedata",
    "uuid", "warnings", "weakref", "xml", "xml.dom", "xml.dom.minidom", "xml.etree", "xml.etree.ElementTree", "zlib",
    "zoneinfo",
)  # fmt: skip

# The public names of the package: `from svc.http import urllib` is refused. A test compares them with `__all__`.
SVC_EXPORTS = {
    "svc": frozenset({"__version__", "http", "log", "source", "text"}),
    "svc.source": frozenset({"base", "models"}),
    "svc.source.base": frozenset({"AbstractSource", "ConfigError", "Source", "SourceConfig"}),
    "svc.source.models": frozenset({"ConfigError", "Record", "SourceAuth", "SourceConfig", "SourceRecord"}),
    "svc.http": frozenset({
        "AuthenticationFailed", "ConnectionFailed", "Headers", "HttpClient", "HttpError", "LimitExceeded", "Refused",
        "Response", "StatusError", "Timeout", "UnknownHost", "add_params", "basic_credentials", "hmac_digest",
        "hmac_signature", "jwt_decode", "jwt_encode", "parse_qs", "quote", "unquote", "urlencode", "urljoin", "urlsplit",
    }),
    "svc.log": frozenset({"Log", "route_logging"}),
    "svc.text": frozenset({"BytesIO", "StringIO", "csv_rows", "to_csv"}),
}  # fmt: skip

# Modules that reach out of the process or into the interpreter. Also refused as attributes: `random._os`.
FORBIDDEN_MODULES = frozenset({
    "asyncio", "builtins", "code", "codeop", "concurrent", "ctypes", "dbm", "fcntl", "fileinput", "ftplib", "gc",
    "glob", "grp", "imaplib", "imp", "importlib", "inspect", "io", "linecache", "marshal", "mmap", "multiprocessing",
    "nt", "os", "pathlib", "pickle", "pkgutil", "platform", "poplib", "posix", "posixpath", "pty", "pwd", "readline",
    "requests", "resource", "runpy", "select", "selectors", "shelve", "shutil", "signal", "site", "smtplib", "socket",
    "socketserver", "sqlite3", "ssl", "subprocess", "sys", "sysconfig", "tempfile", "termios", "thread", "threading",
    "tokenize", "urllib", "venv", "webbrowser", "xmlrpc", "zipfile", "zipimport",
})  # fmt: skip

# Submodules of allowed packages that are not themselves allowed: `from http import client`.
REFUSED_SUBMODULES = frozenset({
    "email.mime", "email.generator", "http.client", "http.cookiejar", "http.cookies", "http.server", "json.tool",
    "logging.config", "logging.handlers", "xml.parsers", "xml.sax", "xml.dom.pulldom",
})  # fmt: skip

# Functions of allowed modules that open files, and what to use.
FILE_FUNCTIONS = {
    "bz2.BZ2File": "bz2.decompress",
    "bz2.open": "bz2.decompress",
    "codecs.open": "the bytes of a response",
    "gzip.open": "gzip.decompress",
    "logging.FileHandler": "self.log",
    "lzma.LZMAFile": "lzma.decompress",
    "lzma.open": "lzma.decompress",
}

SOURCE_CLASS = "write a class that extends AbstractSource from svc.source.base"
_ASK_OPERATOR = "the operator can allow more with CELL_MODULES"
_NO_NETWORK = "use self.http, the platform's HTTP client"
_NO_PROCESS = "a source cannot start processes or send signals"
_SETTINGS = "settings are in self.config, credentials in self.authentication"

# Modules that authors often import, and what to use instead.
_PURPOSES = (
    ("os", f"a source has no access to the operating system; {_SETTINGS}"),
    ("sys", "return to end the run, and log with self.log"),
    ("subprocess signal pty resource sched", _NO_PROCESS),
    ("urllib", f"{_NO_NETWORK}; quote, urlencode, urljoin and urlsplit are in svc.http"),
    ("requests", f"{_NO_NETWORK}, whose calls look the same: self.http.get(url, params=…).json()"),
    (
        "socket httpx aiohttp urllib3 httplib2 http.client ftplib smtplib paramiko ssl socketserver websockets xmlrpc "
        "grpc requests_oauthlib requests_toolbelt",
        _NO_NETWORK,
    ),
    (
        "io pathlib tempfile shutil glob fileinput zipfile tarfile linecache configparser dbm fcntl mmap",
        "a source has no file system; keep text in memory (svc.text has StringIO and BytesIO)",
    ),
    (
        "threading multiprocessing asyncio concurrent queue trio anyio _thread joblib",
        "a source has one thread; send requests in parallel with self.http.get_many",
    ),
    (
        "importlib builtins ctypes cffi gc inspect code ast dis runpy pkgutil atexit tracemalloc faulthandler",
        "a source has no access to the interpreter",
    ),
    (
        "pandas numpy polars pyarrow duckdb scipy dask",
        f"plain Python (csv, statistics, itertools, collections) usually does the job; {_ASK_OPERATOR}",
    ),
    ("dateutil pytz pendulum arrow tzlocal ciso8601 dateparser iso8601", "use datetime and zoneinfo"),
    ("bs4 lxml xmltodict html5lib parsel feedparser", "use html.parser or xml.etree.ElementTree"),
    ("pickle marshal shelve orjson ujson simplejson rapidjson msgspec", "use json"),
    (
        "boto3 botocore google googleapiclient azure stripe github slack_sdk simple_salesforce hubspot",
        "use self.http; svc.http has jwt_encode and hmac_signature for signed requests",
    ),
    (
        "jwt jose authlib oauthlib cryptography Crypto nacl",
        "svc.http has jwt_encode, jwt_decode and hmac_signature; OAuth client credentials are an authentication type",
    ),
    ("pydantic attr attrs marshmallow", f"extend SourceConfig, or use dataclasses; {_ASK_OPERATOR}"),
    ("tenacity backoff retry retrying ratelimit", "self.http retries by itself: retries=…"),
    ("dotenv environs decouple", _SETTINGS),
    (
        "psycopg2 psycopg sqlalchemy pymysql sqlite3 pymongo redis",
        "a custom source reads over HTTP; use a built-in connector for databases",
    ),
    ("yaml toml", "use json, or tomllib on Python 3.11 or later"),
    (
        "dlt",
        f"{SOURCE_CLASS}: get_streams returns the names of the resources, get_records(self, stream) yields "
        "their records",
    ),
    (
        "airbyte_cdk",
        f"{SOURCE_CLASS}: streams() becomes get_streams(self), which returns names, and the read_records() of each "
        "stream becomes get_records(self, stream)",
    ),
    (
        "singer_sdk",
        f"{SOURCE_CLASS}: discover_streams() becomes get_streams(self), which returns names, and the get_records() of "
        "each stream becomes get_records(self, stream)",
    ),
    ("singer", f"{SOURCE_CLASS}: yield SourceRecord(…) from get_records(self, stream) instead of singer.write_record"),
    ("loguru structlog rich tqdm", "use self.log"),
    ("gql graphql", 'send the query with self.http.post(url, json={"query": …, "variables": …})'),
    ("locale gettext", "use str.format, or decimal"),
    ("unittest pytest", "test a source on your own machine: python -m svc preview"),
    ("typing_extensions", "use typing"),
)
ALTERNATIVES = {name: purpose for names, purpose in _PURPOSES for name in names.split()}


def instead_of(module: str) -> str:
    """What to use instead of a module."""
    top = module.split(".")[0]
    if module == "svc.errors":
        return "its exceptions are in svc.http, and ConfigError in svc.source.models"
    if top == "svc":
        return f"the package has {', '.join(sorted(SVC_EXPORTS))}"
    known = ALTERNATIVES.get(module) or ALTERNATIVES.get(top)
    return known or f"docs/custom-sources.md lists the allowed modules; {_ASK_OPERATOR}"
