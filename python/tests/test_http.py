import base64
import gzip
import json
import threading
import unittest
from datetime import date
from decimal import Decimal

from harness import ServerCase

from svc.http import (
    AuthenticationFailed,
    ConnectionFailed,
    HttpClient,
    HttpError,
    Refused,
    Response,
    StatusError,
    Timeout,
    hmac_signature,
    jwt_decode,
    jwt_encode,
    urlencode,
)
from svc.laptop.transport import LaptopTransport


def echo(call):
    headers = {name.lower(): value for name, value in call.headers.items()}
    return {"method": call.method, "pairs": call.pairs, "headers": headers, "body": call.body.decode()}


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


class Authentication(ServerCase):
    def sent(self, authentication, **options):
        server = self.serve({"/e": echo})
        return self.client(authentication).get(f"{server.url}/e", **options).json()["headers"]

    def test_every_type_is_applied(self):
        api_key = {"type": "api_key", "params": {"token": "t"}}
        self.assertEqual(self.sent(api_key)["x-api-key"], "t")
        self.assertEqual(self.sent({"type": "api_key", "params": {"token": "t", "header": "X-Other"}})["x-other"], "t")
        self.assertEqual(self.sent({"type": "bearer", "params": {"token": "t"}})["authorization"], "Bearer t")
        basic = {"type": "basic", "params": {"username": "u", "password": "p"}}
        self.assertEqual(self.sent(basic)["authorization"], "Basic dTpw")

    def test_a_request_can_go_without_it_or_with_its_own(self):
        bearer = {"type": "bearer", "params": {"token": "t"}}
        self.assertNotIn("authorization", self.sent(bearer, auth=False))
        self.assertEqual(self.sent(bearer, headers={"authorization": "mine"})["authorization"], "mine")
        self.assertEqual(self.sent(bearer, auth=("u", "p"))["authorization"], "Basic dTpw")
        self.assertEqual(self.sent(bearer, auth=lambda headers: headers.update({"X-Signed": "1"}))["x-signed"], "1")

    def test_a_token_is_fetched_once_and_renewed_when_refused(self):
        tokens = []

        def token(call):
            tokens.append(call.body.decode())
            return {"access_token": f"t{len(tokens)}", "expires_in": 3600}

        def guarded(call):
            return {"ok": 1} if call.headers["Authorization"] in ("Bearer t2", "Bearer t3") else (401, {}, b"")

        server = self.serve({"/token": token, "/g": guarded})
        params = {"token_url": f"{server.url}/token", "client_id": "c", "client_secret": "s", "scope": "read"}
        http = self.client({"type": "oauth2_client_credentials", "params": params})
        self.assertEqual(
            [
                answer.status_code
                for answer in (
                    http.get(f"{server.url}/g"),
                    http.get(f"{server.url}/g"),
                )
            ],
            [200, 200],
        )
        self.assertEqual(tokens, ["grant_type=client_credentials&scope=read"] * 2)

    def test_a_server_that_reads_only_the_form_gets_it(self):
        def token(call):
            return {"access_token": "t"} if b"client_secret=s" in call.body else (401, {}, b"{}")

        server = self.serve({"/token": token, "/e": echo})
        params = {"token_url": f"{server.url}/token", "client_id": "c", "client_secret": "s"}
        http = self.client({"type": "oauth2_client_credentials", "params": params})
        self.assertEqual(http.get(f"{server.url}/e").json()["headers"]["authorization"], "Bearer t")

    def test_no_token_is_an_error_of_its_own(self):
        server = self.serve({"/token": lambda _: (401, {}, b"no")})
        params = {"token_url": f"{server.url}/token", "client_id": "c", "client_secret": "s"}
        with self.assertRaisesRegex(AuthenticationFailed, "answered 401 without an access_token"):
            self.client({"type": "oauth2_client_credentials", "params": params}).get(server.url)

    def test_a_refresh_token_is_exchanged_and_a_replacement_is_kept_before_it_is_used(self):
        events = []
        valid = {"refresh_token": "r0"}

        def token(call):
            sent = dict(pair.split("=") for pair in call.body.decode().split("&"))["refresh_token"]
            events.append(f"exchanged {sent}")
            if sent != valid["refresh_token"]:
                return (400, {}, b'{"error": "invalid_grant"}')
            valid["refresh_token"] = f"r{int(sent[1:]) + 1}"
            return {"access_token": f"a for {sent}", **valid}

        def guarded(call):
            events.append(call.headers["Authorization"])
            return {"ok": 1} if call.headers["Authorization"] == "Bearer a for r1" else (401, {}, b"")

        server = self.serve({"/token": token, "/g": guarded})
        params = {"token_url": f"{server.url}/token", "client_id": "c", "client_secret": "s", "refresh_token": "r0"}
        authentication = {"type": "oauth2_refresh_token", "params": params}
        transport = LaptopTransport(authentication, keep_refresh_token=lambda fresh: events.append(f"kept {fresh}"))
        self.assertTrue(HttpClient(transport).get(f"{server.url}/g").ok)
        self.assertEqual(
            events,
            [
                "exchanged r0",
                "kept r1",
                "Bearer a for r0",
                "exchanged r1",
                "kept r2",
                "Bearer a for r1",
            ],
        )
        with self.assertRaisesRegex(AuthenticationFailed, "does not accept the refresh token any more"):
            self.client(authentication).get(server.url)
        # The refusal is about the token, so the other way to name the client is not tried.
        self.assertEqual(events[6:], ["exchanged r0"])

    def test_a_public_client_names_itself_in_the_form(self):
        seen = []

        def token(call):
            seen.append((call.headers["Authorization"], call.body.decode()))
            return {"access_token": "t"}

        server = self.serve({"/token": token, "/e": echo})
        params = {"token_url": f"{server.url}/token", "client_id": "c", "refresh_token": "r"}
        http = self.client({"type": "oauth2_refresh_token", "params": params})
        self.assertEqual(http.get(f"{server.url}/e").json()["headers"]["authorization"], "Bearer t")
        self.assertEqual(seen, [(None, "grant_type=refresh_token&refresh_token=r&client_id=c")])

    def test_another_host_does_not_learn_it_by_a_redirect(self):
        other = self.serve({"/e": echo})
        server = self.serve(
            {
                "/out": lambda _: (302, {"Location": f"{other.url}/e"}, b""),
                "/in": lambda _: (302, {"Location": "/e"}, b""),
                "/e": echo,
            }
        )
        http = self.client({"type": "api_key", "params": {"token": "t"}})
        self.assertNotIn("x-api-key", http.get(f"{server.url}/out").json()["headers"])
        response = http.get(f"{server.url}/in")
        self.assertEqual((response.json()["headers"]["x-api-key"], response.url), ("t", f"{server.url}/e"))


class Pagination(ServerCase):
    ROWS = [{"n": n} for n in range(25)]

    def test_by_page_number(self):
        def page(call):
            start = (int(call.query["page"]) - 1) * 10
            return self.ROWS[start : start + 10]

        server = self.serve({"/p": page})
        self.assertEqual(list(self.client().paginate_pages(f"{server.url}/p", size_param="per", size=10)), self.ROWS)
        self.assertEqual((len(server.calls), server.calls[0].query["per"]), (3, "10"))
        self.assertEqual(list(self.client().paginate_pages(f"{server.url}/p")), self.ROWS)
        self.assertEqual(len(list(self.client().paginate_pages(f"{server.url}/p", max_pages=1))), 10)

    def test_by_offset_also_where_the_server_caps_the_limit(self):
        def page(call):
            start = int(call.query["offset"])
            return {"results": self.ROWS[start : start + 5], "total": 25}

        server = self.serve({"/p": page})
        rows = list(self.client().paginate_offset(f"{server.url}/p", limit=20, total="total"))
        self.assertEqual((rows, len(server.calls)), (self.ROWS, 5))
        self.assertEqual(len(list(self.client().paginate_offset(f"{server.url}/p", limit=20))), 5)

    def test_by_cursor(self):
        def page(call):
            start = int(call.query.get("c", 0))
            following = str(start + 10) if start < 20 else None
            return {"meta": {"next": following}, "list": {"rows": self.ROWS[start : start + 10]}}

        server = self.serve({"/p": page})
        rows = self.client().paginate_cursor(
            f"{server.url}/p",
            cursor="meta.next",
            cursor_param="c",
            items="list.rows",
            params={"a": 1},
        )
        self.assertEqual(list(rows), self.ROWS)
        self.assertEqual([call.query["a"] for call in server.calls], ["1", "1", "1"])

    def test_by_an_address_in_the_body(self):
        server = self.serve({})
        server.routes["/p"] = lambda call: {"data": [1], "next": f"{server.url}/p2?x=1"}
        server.routes["/p2"] = lambda call: {"data": [2], "next": "/p3" if call.query == {"x": "1"} else "wrong"}
        server.routes["/p3"] = lambda call: {"data": [3], "next": None}
        self.assertEqual(
            list(self.client().paginate_cursor(f"{server.url}/p", cursor="next", params={"a": 1})),
            [1, 2, 3],
        )

    def test_by_link_header(self):
        link = '<{0}/prev>; rel="prev", </p2?a=1,2>; rel="next last"; title="x, y"'
        server = self.serve({"/p2": lambda call: [2, call.query["a"]]})
        server.routes["/p"] = lambda _: (200, {"Link": link.format(server.url)}, b"[1]")
        self.assertEqual(list(self.client().paginate_links(f"{server.url}/p")), [1, 2, "1,2"])
        self.assertEqual(self.client().get(f"{server.url}/p").links["last"]["url"], f"{server.url}/p2?a=1,2")

    def test_a_page_is_fetched_when_its_items_are_wanted(self):
        server = self.serve({"/p": lambda call: [{"n": 1}]})
        next(self.client().paginate_pages(f"{server.url}/p"))
        self.assertEqual(len(server.calls), 1)

    def test_a_server_that_sends_in_circles_is_an_error(self):
        server = self.serve({"/p": lambda _: {"data": [1], "next_cursor": "same"}})
        with self.assertRaisesRegex(HttpError, "cursor 'same' twice"):
            list(self.client().paginate_cursor(f"{server.url}/p"))
        server.routes["/l"] = lambda _: (200, {"Link": '</l>; rel="next"'}, b"[]")
        with self.assertRaisesRegex(HttpError, "links to .* twice"):
            list(self.client().paginate_links(f"{server.url}/l"))

    def test_a_failing_page_and_one_without_a_list_are_errors(self):
        server = self.serve({"/bad": lambda _: (500, {}, b"boom"), "/odd": lambda _: {"stuff": {}, "more": 1}})
        with self.assertRaisesRegex(StatusError, "500: boom"):
            list(self.client().paginate_pages(f"{server.url}/bad"))
        with self.assertRaisesRegex(HttpError, r"items='path.to.list' \(keys: stuff, more\)"):
            list(self.client().paginate_pages(f"{server.url}/odd"))


class Signing(unittest.TestCase):
    def test_known_signatures(self):
        # RFC 4231, test case 2.
        known = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        self.assertEqual(hmac_signature("Jefe", "what do ya want for nothing?"), known)
        # RFC 2202, test case 2.
        known = base64.b64encode(bytes.fromhex("effcdf6ae5eb2fa2d27416d5f184df9c259a7c79")).decode()
        self.assertEqual(hmac_signature("Jefe", b"what do ya want for nothing?", "sha1", "base64"), known)
        with self.assertRaises(ValueError):
            hmac_signature("k", "m", encoding="rot13")

    def test_a_known_token(self):
        token = jwt_encode({"sub": "1234567890", "name": "John Doe", "iat": 1516239022}, "your-256-bit-secret")
        self.assertEqual(token.split(".")[2], "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c")

    def test_tokens_are_checked(self):
        for algorithm in ("HS256", "HS384", "HS512"):
            token = jwt_encode({"a": 1}, "key", algorithm, {"kid": "k"})
            self.assertEqual(jwt_decode(token, "key"), {"a": 1})
            with self.assertRaisesRegex(ValueError, "signature"):
                jwt_decode(token, "other")
        for wrong in ("a.b", "", "a.b.c"):
            with self.assertRaises(ValueError):
                jwt_decode(wrong)
        with self.assertRaisesRegex(ValueError, "HS256"):
            jwt_encode({}, "k", "none")

    def test_a_query_string(self):
        self.assertEqual(urlencode([("a", 1), ("a", None), ("b", [1, 2])]), "a=1&b=1&b=2")


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
