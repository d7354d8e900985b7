"""Authentication and signatures of requests."""

import base64
import unittest

from harness import ServerCase, echo

from svc.http import (
    AuthenticationFailed,
    HttpClient,
    hmac_signature,
    jwt_decode,
    jwt_encode,
    urlencode,
)
from svc.laptop.transport import LaptopTransport


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


if __name__ == "__main__":
    unittest.main()
