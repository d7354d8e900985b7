"""Loads what a cell may need before it is sealed: after that no file can be opened and nothing more imported."""

import _strptime  # type: ignore[import-not-found]
import codecs
import hashlib
import io
import os
import time
import zoneinfo
import zoneinfo._common
from importlib import import_module

from cell import runner
from cell.extra_modules import load_modules
from cell.modules import ALLOWED_MODULES

CODECS = (
    "ascii latin_1 utf_8 utf_8_sig utf_16 utf_16_le utf_16_be utf_32 utf_32_le utf_32_be utf_7 cp437 cp850 cp852 cp866 "
    "cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 iso8859_2 iso8859_3 iso8859_4 iso8859_5 iso8859_6 "
    "iso8859_7 iso8859_8 iso8859_9 iso8859_10 iso8859_13 iso8859_14 iso8859_15 iso8859_16 koi8_r koi8_u mac_roman "
    "shift_jis cp932 euc_jp iso2022_jp gbk gb2312 gb18030 big5 euc_kr cp949 tis_620 idna punycode raw_unicode_escape "
    "unicode_escape base64 hex quopri bz2 zlib rot_13"
).split()

# What functions of allowed modules import only when they are called.
LAZY_IMPORTS = (
    "_colorize copyreg email._header_value_parser email.contentmanager email.feedparser email.generator "
    "email.headerregistry email.iterators email.mime.text email.mime.multipart inspect linecache locale "
    "string.templatelib tracemalloc unicodedata xml.dom.expatbuilder xml.dom.minicompat xml.etree.ElementPath "
    "xml.sax.saxutils"
).split()


def preload_time_zones():
    """Keeps the files of all zones in memory: a sealed child cannot open them. They are parsed when first used."""
    zones: dict[str, bytes] = {}
    for folder in zoneinfo.TZPATH:
        for parent, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if name not in ("posix", "right")]
            prefix = os.path.relpath(parent, folder)
            for name in names:
                key = name if prefix == "." else prefix + "/" + name
                try:
                    with open(os.path.join(parent, name), "rb") as file:
                        data = file.read()
                except OSError:
                    continue
                if data.startswith(b"TZif"):
                    zones.setdefault(key, data)

    def load_tzdata(key):
        if key not in zones:
            raise zoneinfo.ZoneInfoNotFoundError(f"No time zone found with key {key}")
        return io.BytesIO(zones[key])

    if zones:
        zoneinfo.reset_tzpath(to=())
        zoneinfo._common.load_tzdata = load_tzdata
        zoneinfo.available_timezones = lambda: {key for key in zones if key not in ("localtime", "posixrules")}


def own_modules(root):
    """Every module of `svc`, because a sealed child cannot import one later."""
    for parent, folders, names in os.walk(os.path.join(root, "svc")):
        # This part is for an author's own machine: it opens sockets and files.
        folders[:] = [name for name in folders if name != "laptop"]
        package = os.path.relpath(parent, root).replace(os.sep, ".")
        for name in names:
            if name.endswith(".py") and name not in ("__main__.py", "__init__.py"):
                yield package + "." + name[:-3]


def preload(root, extra, modules):
    """Loads all that a sealed child may need. Returns the module that serves jobs, and what could not be loaded."""
    for name in (*ALLOWED_MODULES, *LAZY_IMPORTS, *own_modules(root), *extra):
        try:
            import_module(name)
        except ImportError:
            pass  # a module that this Python was built without, or that its version does not have
    for name in CODECS:
        try:
            codecs.lookup(name)
        except LookupError:
            pass
    # OpenSSL reads its configuration on first use, and Python the names of days and months.
    for name in hashlib.algorithms_available:
        try:
            hashlib.new(name)
        except ValueError:
            pass
    _strptime._strptime_time("2020-01-01", "%Y-%m-%d")
    time.localtime()
    preload_time_zones()
    runner.Cell.packages, problems = load_modules(modules)
    return runner, problems
