"""Requests of self.http: what is sent, what comes back, and what is tried again."""

import gzip
import json
import threading
import unittest
from datetime import date
from decimal import Decimal

from harness import ServerCase, echo

from svc.http import (
    ConnectionFailed,
    HttpClient,
    HttpError,
    Refused,
    Response,
    StatusError,
    Timeout,
)


class Requests(ServerCase):
    def test_parameters_are_encoded(self):
        server = self.serve({"/e": echo})
        params = {"q": "a b&c=ü", "tag": ["x", "y"], "no": None, "flag": True, "day": date(2024, 1, 2), "n": 5}
        pairs = self.client().get(f"{server.url}/e?first=1#frag", params=params).json()["pairs"]
        tags = [["tag", "x"], ["tag", "y"]]
        self.assertEqual(
            pairs, [["first", "1"], ["q", "a b&c=ü"], *tags, ["flag", "true"], ["day", "2024-01-02"], ["n", "5"]]
        )

    def test_bodies_are_json_forms_or_bytes(self):
        server = self.serve({"/e": echo})
        http = self.client()
        sent = http.post(f"{server.url}/e", json={"d": Decimal("1.10"), "t": date(2024, 1, 2)}).json()
        self.assertEqual(
            (sent["body"], sent["headers"]["content-type"]),
            ('{"d":1.10,"t":"2024-01-02"}', "application/json"),
        )
        sent = http.put(f"{server.url}/e", data={"a": "1 2"}).json()
        self.assertEqual((sent["method"], sent["body"]), ("PUT", "a=1+2"))
        sent = http.patch(f"{server.url}/e", data="raw", headers={"Content-Type": "text/x"}).json()
        self.assertEqual((sent["body"], sent["headers"]["content-type"]), ("raw", "text/x"))
        self.assertEqual(http.delete(f"{server.url}/e").json()["method"], "DELETE")

    def test_the_clients_own_address_and_headers_apply(self):
        server = self.serve({"/v1/e": echo})
        http = self.client(base_url=f"{server.url}/v1", headers={"X-A": "1", "X-B": "2"})
        headers = http.get("/e", headers={"X-B": "3"}).json()["headers"]
        self.assertEqual((headers["x-a"], headers["x-b"]), ("1", "3"))

    def test_a_body_that_is_not_json_is_said_with_status_and_type(self):
        page = "<html>\n  <h1>Service\tUnavailable</h1>" + "x" * 500
        for status, media, body, kind, message in (
            (
                503,
                "text/html; charset=utf-8",
                page,
                StatusError,
                "u answered 503 with text/html, not JSON: <html> <h1>",
            ),
            (200, "text/html", "<p>Sign in</p>", HttpError, "u answered 200 with text/html, not JSON: <p>Sign in</p>"),
            (204, None, "", HttpError, "u answered 204 with an empty body, not JSON"),
            (
                500,
                "application/problem+json",
                "{oops",
                StatusError,
                "u answered 500 with a body that is not valid JSON",
            ),
            (404, None, "nope", StatusError, "u answered 404 with a body that is not valid JSON"),
        ):
            response = Response(status, {"Content-Type": media} if media else {}, body.encode(), "u")
            with self.assertRaises(HttpError) as caught:
                response.json()
            self.assertIs(type(caught.exception), kind)
            self.assertEqual(str(caught.exception)[: len(message)], message)
            self.assertLess(len(str(caught.exception)), 320)
            self.assertIs(caught.exception.response, response)

    def test_an_answer_looks_like_that_of_requests(self):
        server = self.serve(
            {
                "/ok": lambda _: (
                    200,
                    {"X-Thing": "1", "Content-Type": "text/plain; charset=latin-1"},
                    "é".encode("latin-1"),
                ),
                "/bad": lambda _: (422, {}, b"wrong field"),
            }
        )
        response = self.client().get(f"{server.url}/ok")
        self.assertEqual(
            (response.status_code, response.ok, response.text, response.content),
            (200, True, "é", b"\xe9"),
        )
        self.assertEqual(
            (
                response.headers["x-thing"],
                response.headers.get("X-THING"),
                "x-none" in response.headers,
            ),
            ("1", "1", False),
        )
        self.assertIs(response.raise_for_status(), response)
        with self.assertRaisesRegex(HttpError, "/ok answered 200 with text/plain, not JSON: "):
            response.json()
        response = self.client().get(f"{server.url}/bad")
        self.assertFalse(response)
        with self.assertRaisesRegex(StatusError, "answered 422: wrong field") as caught:
            response.raise_for_status()
        self.assertIs(caught.exception.response, response)

    def test_json_keeps_digits_where_asked(self):
        server = self.serve({"/n": lambda _: (200, {}, b'{"n": 1.100000000000000000001}')})
        self.assertEqual(
            str(self.client().get(f"{server.url}/n").json(parse_float=Decimal)["n"]),
            "1.100000000000000000001",
        )

    def test_compressed_answers_are_decompressed(self):
        server = self.serve({"/z": lambda _: (200, {"Content-Encoding": "gzip"}, gzip.compress(b'{"a":1}'))})
        self.assertEqual(self.client().get(f"{server.url}/z").json(), {"a": 1})

    def test_what_a_request_does_not_take_is_named(self):
        with self.assertRaisesRegex(TypeError, "unknown option 'stream', 'verify'"):
            self.client().get("http://127.0.0.1/", stream=True, verify=False)
        with self.assertRaisesRegex(ValueError, "line break"):
            self.client().get("http://127.0.0.1/", headers={"X": "a\r\nHost: b"})

    def test_failures_have_their_own_exceptions(self):
        gate = threading.Event()
        server = self.serve({"/slow": lambda _: gate.wait(5) and {}})
        self.addCleanup(gate.set)
        http = self.client(retries=0)
        with self.assertRaises(Timeout) as caught:
            http.get(f"{server.url}/slow", timeout=0.05)
        self.assertIsInstance(caught.exception, TimeoutError)
        with self.assertRaises(Refused):
            http.get("file:///etc/passwd")
        closed = self.serve({})
        closed.close()
        closed.close = lambda: None
        with self.assertRaises(ConnectionFailed) as caught:
            http.get(closed.url)
        self.assertIsInstance(caught.exception, ConnectionError)

    def test_many_requests_are_sent_at_once_and_answered_in_order(self):
        together = threading.Barrier(4, timeout=5)

        def wait(call):
            together.wait()
            return {"n": call.query["n"]}

        server = self.serve({"/w": wait, "/post": echo})
        http = self.client()
        answers = http.get_many([f"{server.url}/w?n={n}" for n in range(4)])
        self.assertEqual([answer.json()["n"] for answer in answers], ["0", "1", "2", "3"])
        answers = http.get_many([{"method": "POST", "url": f"{server.url}/post", "json": {"n": n}} for n in range(40)])
        self.assertEqual([json.loads(answer.json()["body"])["n"] for answer in answers], list(range(40)))
        found = http.get_many([f"{server.url}/post", "ftp://x"], return_errors=True)
        self.assertEqual((found[0].status_code, type(found[1])), (200, Refused))
        with self.assertRaises(Refused):
            http.get_many(["ftp://x"])


class Retries(ServerCase):
    def failing(self, times, status, headers=None):
        left = [times]

        def answer(_):
            left[0] -= 1
            return (status, headers or {}, b"") if left[0] >= 0 else {"ok": True}

        return self.serve({"/r": answer})

    def test_retry_after_is_honoured(self):
        server = self.failing(2, 429, {"Retry-After": "7"})
        self.assertTrue(self.client().get(f"{server.url}/r").json()["ok"])
        self.assertEqual(self.waits, [7.0, 7.0])

    def test_a_pause_longer_than_five_minutes_is_not_waited_for(self):
        server = self.failing(2, 503, {"Retry-After": "3600"})
        self.assertEqual((self.client().get(f"{server.url}/r").status_code, self.waits), (503, []))

    def test_the_last_answer_is_given_when_the_tries_are_used_up(self):
        server = self.failing(9, 503)
        self.assertEqual(self.client().get(f"{server.url}/r", retries=2).status_code, 503)
        self.assertEqual((len(server.calls), self.waits), (3, [0.5, 1.0]))

    def test_a_post_is_not_sent_again_after_a_bad_gateway(self):
        server = self.failing(1, 502)
        self.assertEqual(self.client().post(f"{server.url}/r").status_code, 502)
        self.assertTrue(self.client().get(f"{server.url}/r").ok)

    def test_other_statuses_are_answers(self):
        server = self.failing(1, 500)
        self.assertEqual((self.client().get(f"{server.url}/r").status_code, len(server.calls)), (500, 1))


class Client(unittest.TestCase):
    def test_the_transport_gets_what_it_was_promised(self):
        asked = []

        class Transport:
            def request(self, requests):
                asked.extend(requests)
                return [{"status": 200, "headers": [["A", "1"], ["A", "2"]], "body": b"", "url": ""} for _ in requests]

        response = HttpClient(Transport(), timeout=5).post("http://h/p", params={"q": 1}, data=b"x", retries=1)
        rest = {"headers": {}, "body": b"x", "timeout": 5, "retries": 1, "authenticate": True}
        self.assertEqual(asked, [{"method": "POST", "url": "http://h/p?q=1", **rest}])
        self.assertEqual((response.headers["a"], response.url), ("1, 2", "http://h/p?q=1"))


if __name__ == "__main__":
    unittest.main()
