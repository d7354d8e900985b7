import importlib
import subprocess
import sys
import unittest

import harness

from cell.modules import ALLOWED_MODULES, ALTERNATIVES, FORBIDDEN_MODULES, SVC_EXPORTS, instead_of

NEVER = (
    "os sys subprocess socket urllib requests importlib builtins ctypes shutil pathlib io tempfile "
    "threading multiprocessing asyncio signal gc inspect pickle marshal code pty mmap resource fcntl "
).split()


class Modules(unittest.TestCase):
    def test_all_exist_in_this_python(self):
        for name in ALLOWED_MODULES:
            if name == "tomllib" and sys.version_info < (3, 11):
                continue
            importlib.import_module(name)

    def test_the_list_is_sorted_and_has_nothing_twice(self):
        self.assertEqual(list(ALLOWED_MODULES), sorted(set(ALLOWED_MODULES)))

    def test_what_must_never_be_on_it_is_not(self):
        tops = {name.split(".")[0] for name in ALLOWED_MODULES}
        self.assertEqual(tops & set(NEVER), set())
        self.assertEqual(tops & FORBIDDEN_MODULES, set())
        self.assertEqual(set(NEVER) - set(ALTERNATIVES), set())

    def test_the_names_of_svc_are_those_it_has(self):
        for module, names in SVC_EXPORTS.items():
            loaded = importlib.import_module(module)
            if module not in ("svc", "svc.source"):
                self.assertEqual(set(loaded.__all__), set(names), module)
            for name in names:
                self.assertTrue(hasattr(loaded, name) or importlib.util.find_spec(f"{module}.{name}"), name)

    def test_an_import_of_svc_errors_says_where_its_exceptions_are(self):
        self.assertIn("its exceptions are in svc.http", instead_of("svc.errors"))

    def test_the_docs_list_every_module(self):
        text = (harness.ROOT.parent / "docs" / "custom-sources.md").read_text("utf-8")
        for name in ALLOWED_MODULES:
            self.assertIn(f"`{name}`", text)

    def test_svc_imports_only_the_standard_library_and_quickly(self):
        code = (
            "import sys; before = set(sys.modules);"
            "import svc.http, svc.log, svc.text, svc.source.base, svc.source.loader;"
            "tops = {n.split('.')[0] for n in set(sys.modules) - before};"
            "known = getattr(sys, 'stdlib_module_names', tops - {'svc'});"
            "extra = {t for t in tops if t not in known};"
            "print(sorted(extra), 'socket' in sys.modules, 'ssl' in sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-S", "-c", code],
            capture_output=True,
            text=True,
            cwd=harness.ROOT,
            check=True,
        )
        self.assertEqual(done.stdout.strip(), "['svc'] False False")


if __name__ == "__main__":
    unittest.main()
