import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from harness import EXAMPLES, ROOT, LogLines, ServerCase

from svc.laptop.cli import main
from svc.log import route_logging
from svc.text import StringIO, csv_rows, to_csv

SOURCE = """
from svc.source.base import AbstractSource


class Numbers(AbstractSource):
    def get_streams(self) -> list:
        return ["numbers", "broken"]

    def check_connection(self) -> bool:
        return self.config.get("works", False)

    def get_records(self, stream: str) -> list:
        start = self.state.get("next", 0)
        for n in range(start, start + 20):
            if stream == "broken":
                raise ValueError("no numbers today")
            yield {"n": n, "key": self.authentication.params.get("token")}
            self.state["next"] = n + 1
"""


class CommandLine(ServerCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file = self.folder / "numbers.py"
        self.file.write_text(SOURCE)

    def run_command(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(each) for each in arguments])
        return code, out.getvalue(), err.getvalue()

    def test_preview_prints_records_and_keeps_the_state(self):
        state = self.folder / "state.json"
        options = ("--stream", "numbers", "--max-records", 3, "--auth-param", "token=a=b", "--state", state)
        code, out, err = self.run_command("preview", self.file, *options)
        self.assertEqual((code, err), (0, "3 records of numbers\n"))
        data = [json.loads(line)["data"] for line in out.splitlines()]
        self.assertEqual(data, [{"n": n, "key": "a=b"} for n in range(3)])
        # The third record was taken, but nobody asked for what comes after it.
        self.assertEqual(json.loads(state.read_text()), {"next": 2})
        _, out, _ = self.run_command("preview", self.file, "--state", state, "--max-records", 1)
        self.assertEqual(json.loads(out)["data"]["n"], 2)

    def test_a_failure_shows_the_authors_own_lines(self):
        code, out, err = self.run_command("preview", self.file, "--stream", "broken")
        self.assertEqual((code, out), (1, ""))
        self.assertIn('raise ValueError("no numbers today")', err)
        self.assertTrue(err.endswith("ValueError: no numbers today\n"))
        self.assertNotIn("cli.py", err)

    def test_an_unknown_stream_is_named_with_those_there_are(self):
        code, _, err = self.run_command("preview", self.file, "--stream", "none")
        self.assertEqual((code, err), (1, "unknown stream 'none'; the source has: numbers, broken\n"))

    def test_check_and_streams(self):
        config = self.folder / "config.json"
        config.write_text('{"works": true}')
        self.assertEqual(self.run_command("check", self.file, "--config", config)[:2], (0, "connection works\n"))
        self.assertEqual(self.run_command("check", self.file)[0], 1)
        self.assertEqual(self.run_command("streams", self.file)[1], "numbers\nbroken\n")

    def test_validate_prints_places(self):
        code, out, _ = self.run_command("validate", EXAMPLES / "forum.py")
        self.assertEqual((code, out), (0, "forum: valid; streams: posts, comments\n"))
        self.file.write_text("import os\n")
        code, out, _ = self.run_command("validate", self.file)
        self.assertEqual(code, 1)
        self.assertIn(f"{self.file}:1:1: error: import of 'os' is not allowed", out)

    def test_an_example_is_previewed_over_http_by_the_command_itself(self):
        server = self.serve({"/posts": lambda call: [{"id": 1, "title": "t"}] if call.query["_page"] == "1" else []})
        config = self.folder / "config.json"
        config.write_text(json.dumps({"base_url": server.url}))
        command = [sys.executable, "-m", "svc", "preview", "examples/forum.py", "--config", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=30)
        self.assertEqual((done.returncode, done.stdout), (0, '{"id":"1","data":{"id":1,"title":"t"}}\n'), done.stderr)

    def test_a_wait_that_a_server_asks_for_is_in_the_log(self):
        answers = [(429, {"Retry-After": "0.01"}, b"")]
        server = self.serve({"/posts": lambda _: answers.pop() if answers else []})
        config = self.folder / "config.json"
        config.write_text(json.dumps({"base_url": server.url}))
        code, _, err = self.run_command("preview", EXAMPLES / "forum.py", "--config", config)
        self.assertEqual(code, 0, err)
        host = server.url.partition("//")[2]
        self.assertIn(f"info: {host} answered 429: waiting 0.01 s, because the server asked for it\n", err)


class RefreshTokens(ServerCase):
    SOURCE = """
from svc.source.base import AbstractSource


class Numbers(AbstractSource):
    def get_streams(self) -> list:
        return ["numbers"]

    def check_connection(self) -> bool:
        return self.http.get(self.config["url"] + "/g").ok

    def get_records(self, stream: str) -> list:
        return []
"""

    def check(self, *more):
        server = self.serve(
            {
                "/token": lambda call: {"access_token": "a", "refresh_token": "fresh-one"},
                "/g": lambda call: {"ok": call.headers["Authorization"]},
            }
        )
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "numbers.py").write_text(self.SOURCE)
        (self.folder / "config.json").write_text(json.dumps({"url": server.url}))
        (self.folder / "token").write_text("old-one\n")
        options = ["check", self.folder / "numbers.py", "--config", self.folder / "config.json"]
        options += ["--auth-type", "oauth2_refresh_token", "--auth-param", f"token_url={server.url}/token"]
        options += ["--auth-param", "client_id=c", *(each(self.folder) if callable(each) else each for each in more)]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(each) for each in options])
        self.assertEqual(code, 0, err.getvalue())
        self.assertNotIn("fresh-one", out.getvalue() + err.getvalue())
        return err.getvalue()

    def test_a_replaced_token_goes_into_its_file(self):
        self.assertEqual(self.check("--refresh-token", lambda folder: folder / "token"), "")
        self.assertEqual((self.folder / "token").read_text(), "fresh-one\n")
        self.assertEqual((self.folder / "token").stat().st_mode & 0o777, 0o600)

    def test_without_a_file_the_person_is_told(self):
        self.assertIn("has replaced the refresh token", self.check("--auth-param", "refresh_token=old-one"))


class LogAndText(unittest.TestCase):
    def test_levels_placeholders_and_calls(self):
        log = LogLines()
        log.debug("a")
        log.info("%s of %d", "x", 3)
        log.warn("w")
        log("plain", 1, None)
        log.error("100% wrong %s %s", "only one")
        self.assertEqual(
            log.lines,
            [
                ("debug", "a"),
                ("info", "x of 3"),
                ("warning", "w"),
                ("info", "plain 1 None"),
                (
                    "error",
                    "100% wrong %s %s only one",
                ),
            ],
        )
        try:
            raise KeyError("k")
        except KeyError:
            log.exception("failed")
        self.assertIn("KeyError: 'k'", log.lines[-1][1])

    def test_the_logging_module_goes_to_the_same_place(self):
        import logging

        log = LogLines()
        root = logging.getLogger()
        kept = root.handlers[:], root.level
        self.addCleanup(lambda: (root.handlers.__setitem__(slice(None), kept[0]), root.setLevel(kept[1])))
        route_logging(log)
        logging.getLogger("x").info("hello %s", "you")
        logging.getLogger("x").critical("bad")
        self.assertEqual(log.lines, [("info", "hello you"), ("error", "bad")])
        try:
            raise KeyError("k")
        except KeyError:
            logging.getLogger("x").exception("failed")
        self.assertRegex(log.lines[-1][1], r"(?s)^failed\nTraceback.*KeyError: 'k'$")

    def test_csv_text(self):
        text = '\ufeffid;note\r\n1;"two\nlines"\r\n2;\u2028\r\n'
        self.assertEqual(
            list(csv_rows(text, delimiter=";")),
            [{"id": "1", "note": "two\nlines"}, {"id": "2", "note": "\u2028"}],
        )
        self.assertEqual(to_csv([{"a": 1, "b": "x,y"}]), 'a,b\r\n1,"x,y"\r\n')
        self.assertEqual(to_csv([]), "")
        self.assertEqual(StringIO("ab").read(), "ab")


if __name__ == "__main__":
    unittest.main()
