"""`svc` as a package that authors install: what is in the wheel, and what editors and type checkers see."""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from harness import ROOT, note

import svc

SOURCE = """
from collections.abc import Iterator

from svc.http import Response
from svc.source.base import AbstractSource
from svc.source.models import SourceConfig, SourceRecord


class ShopConfig(SourceConfig):
    base_url: str
    size: int = 100


class Shop(AbstractSource):
    name = "shop"
    config: ShopConfig

    def get_streams(self) -> list[str]:
        return ["orders"]

    def check_connection(self) -> bool:
        response: Response = self.http.get(self.config.base_url, params={"size": self.config.size}, timeout=5)
        return response.ok

    def get_records(self, stream: str) -> Iterator[SourceRecord]:
        self.log.info("since %s", self.state.get("since"))
        for row in self.http.paginate_pages(f"{self.config.base_url}/{stream}", items="rows", headers={"A": "b"}):
            yield SourceRecord(id=row["id"], data=row)
            self.state["since"] = row["updated"]
"""
PLAIN = """
from svc.source.base import AbstractSource


class Numbers(AbstractSource):
    def get_streams(self):
        return ["numbers"]

    def check_connection(self):
        return True

    def get_records(self, stream):
        yield [{"n": 1}, {"n": 2}]
"""


def has(*modules):
    return all(importlib.util.find_spec(name) is not None for name in modules)


def run(*command, cwd, **environment):
    # No index is asked and no configuration read: what is not on this machine is not there.
    quiet = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**kept, **quiet, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
    )


def builds_wheels():
    if not has("pip", "setuptools"):
        return False
    # Since version 70.1 it brings its own bdist_wheel.
    return has("wheel") or tuple(map(int, importlib.metadata.version("setuptools").split(".")[:2])) >= (70, 1)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)

    def install(self):
        """The wheel, built from a copy because building writes beside the sources, and a folder it is installed in."""
        copy = self.folder / "python"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__", "tests"))
        built = run("-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "-w", "out", cwd=copy)
        self.assertEqual(built.returncode, 0, built.stderr)
        (wheel,) = (copy / "out").glob("*.whl")
        target = self.folder / "installed"
        installed = run("-m", "pip", "install", "--no-deps", "--target", str(target), str(wheel), cwd=copy)
        self.assertEqual(installed.returncode, 0, installed.stderr)
        return wheel, target

    def test_the_wheel_holds_svc_alone_and_works_where_it_is_installed(self):
        if not builds_wheels():
            note("no wheel was built: pip, setuptools and wheel are needed (pip install setuptools wheel)")
            return
        wheel, target = self.install()
        self.assertEqual(wheel.name, f"sluice_svc-{svc.__version__}-py3-none-any.whl")
        names = zipfile.ZipFile(wheel).namelist()
        tops = {name.split("/")[0] for name in names}
        self.assertEqual(tops, {"svc", f"sluice_svc-{svc.__version__}.dist-info"})
        modules = {str(each.relative_to(ROOT)) for each in (ROOT / "svc").rglob("*.py")}
        self.assertEqual({name for name in names if name.startswith("svc/")}, modules | {"svc/py.typed"})

        file = self.folder / "numbers_source.py"
        file.write_text(PLAIN)
        done = run("-m", "svc", "preview", str(file), cwd=self.folder, PYTHONPATH=str(target))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 2)
        validated = run("-m", "svc", "validate", str(file), cwd=self.folder, PYTHONPATH=str(target))
        self.assertEqual(validated.returncode, 2)
        self.assertIn("needs a checkout", validated.stderr)

    def test_a_source_passes_the_strictest_type_check_and_a_slip_does_not(self):
        if not has("mypy"):
            note("the types of svc were not checked: pip install mypy")
            return
        file = self.folder / "typed_source.py"
        options = ("-m", "mypy", "--strict", "--no-incremental", "--cache-dir", os.devnull, str(file))
        file.write_text(SOURCE)
        good = run(*options, cwd=self.folder, MYPYPATH=str(ROOT))
        self.assertEqual(good.returncode, 0, good.stdout + good.stderr)
        slips = {
            "timeout=5": "timeot=5",
            "response.ok": "response.okay",
            "self.log.info": "self.log.inform",
            "self.http.paginate_pages": "self.http.paginate_page",
            "self.config.size}": "self.config.size.nothing}",
        }
        wrong = SOURCE
        for right, slip in slips.items():
            wrong = wrong.replace(right, slip)
        file.write_text(wrong)
        bad = run(*options, cwd=self.folder, MYPYPATH=str(ROOT))
        for word in ("timeot", "okay", "inform", "paginate_page", "nothing"):
            self.assertIn(word, bad.stdout)


if __name__ == "__main__":
    unittest.main()
