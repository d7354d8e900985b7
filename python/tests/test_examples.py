"""The examples against servers that answer as the real ones do."""

import unittest
from datetime import datetime, timezone

from harness import EXAMPLES, LogLines, ServerCase, example

from cell.modules import ALLOWED_MODULES
from cell.validator import validate
from svc.source.records import preview_record

NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


def previews(source, stream):
    return [preview_record(item) for item in source.get_records(stream)]


class Validation(unittest.TestCase):
    def test_every_example_is_valid_without_a_warning(self):
        self.assertEqual(NAMES, ["earthquakes", "forum", "greenhouse", "helpdesk", "music_catalog", "spacecraft"])
        for name in NAMES:
            report = validate(example(name), ALLOWED_MODULES, name)
            self.assertEqual((report["errors"], report["warnings"]), ([], []), name)
            self.assertTrue(report["extracted_streams"])
            self.assertTrue(report["extracted_schema"]["config_fields"])


class Greenhouse(ServerCase):
    def test_it_reads_without_any_setting(self):
        source = self.build(example("greenhouse"))
        self.assertEqual([record["data"]["plant"] for record in previews(source, "plants")], ["basil", "fern", "tomato"])
        self.assertEqual(len({record["id"] for record in previews(source, "readings")}), 72)


class Helpdesk(ServerCase):
    TICKETS = [{"id": n, "subject": f"Ticket {n}"} for n in range(1, 6)]

    def tickets(self, call):
        start = int(call.query.get("page[after]", 0))
        size = int(call.query["page[size]"])
        rows = self.TICKETS[start : start + size]
        more = start + size < len(self.TICKETS)
        return {"tickets": rows, "meta": {"has_more": more, "after_cursor": str(start + len(rows))}}

    def test_all_pages_are_read_with_the_token(self):
        server = self.serve(
            {"/api/v2/tickets.json": self.tickets, "/api/v2/users/me.json": lambda _: {"user": {"id": 1}}},
        )
        source = self.build(
            example("helpdesk"),
            config={"base_url": server.url, "page_size": 2},
            authentication={"type": "bearer", "params": {"token": "t"}},
        )
        self.assertTrue(source.check_connection())
        records = previews(source, "tickets")
        self.assertEqual([record["id"] for record in records], ["1", "2", "3", "4", "5"])
        self.assertEqual(records[0]["data"], self.TICKETS[0])
        self.assertEqual({call.headers["Authorization"] for call in server.calls}, {"Bearer t"})
        self.assertEqual(len(server.calls), 4)


class MusicCatalog(ServerCase):
    def test_the_platform_fetches_the_token(self):
        albums = [{"id": f"a{n}", "name": f"Album {n}", "uri": f"album:{n}"} for n in range(120)]

        def releases(call):
            if call.headers["Authorization"] != "Bearer fresh":
                return 401, {}, b"{}"
            offset, limit = int(call.query.get("offset", 0)), int(call.query["limit"])
            return {"albums": {"items": albums[offset : offset + limit], "total": len(albums)}}

        server = self.serve(
            {
                "/token": lambda call: {"access_token": "fresh", "expires_in": 3600},
                "/v1/browse/new-releases": releases,
            }
        )
        params = {"token_url": f"{server.url}/token", "client_id": "id", "client_secret": "secret"}
        source = self.build(
            example("music_catalog"),
            config={"base_url": server.url, "country": "PT"},
            authentication={"type": "oauth2_client_credentials", "params": params},
        )
        self.assertEqual(source.get_streams(), ["new_releases", "featured_playlists"])
        self.assertTrue(source.check_connection())
        records = previews(source, "new_releases")
        self.assertEqual((len(records), records[-1]["id"], records[0]["data"]["country"]), (120, "a119", "PT"))
        self.assertEqual(sum(call.path == "/token" for call in server.calls), 1)


class Forum(ServerCase):
    def test_the_children_of_every_parent_are_read(self):
        posts = [{"id": n, "title": f"Post {n}"} for n in range(1, 8)]

        def page(call):
            start = (int(call.query["_page"]) - 1) * int(call.query["_limit"])
            return posts[start : start + int(call.query["_limit"])]

        def comments(post):
            return lambda _: [{"id": post * 10 + n, "postId": post} for n in range(2)]

        routes = {f"/posts/{post['id']}/comments": comments(post["id"]) for post in posts}
        server = self.serve({"/posts": page, "/posts/1": lambda _: posts[0], **routes})
        source = self.build(example("forum"), config={"base_url": server.url, "page_size": 3})
        self.assertTrue(source.check_connection())
        self.assertEqual(len(previews(source, "posts")), 7)
        found = previews(source, "comments")
        expected = [str(post["id"] * 10 + n) for post in posts for n in range(2)]
        self.assertEqual([record["id"] for record in found], expected)
        self.assertEqual(found[-1]["data"]["post_title"], "Post 7")


class Earthquakes(ServerCase):
    def query(self, call):
        self.assertEqual(call.query["minmagnitude"], "4.5")
        start = datetime.fromisoformat(call.query["starttime"]).replace(tzinfo=timezone.utc)
        properties = {"time": start.timestamp() * 1000, "place": "sea", "mag": 5.1}
        return {
            "features": [
                {"id": f"q{start:%m%d}", "properties": properties, "geometry": {"coordinates": [1.5, 2.5, 10]}},
            ]
        }

    def read(self, server, state, end):
        config = {"base_url": server.url, "start_date": "2024-01-01", "end_date": end}
        log = LogLines()
        source = self.build(example("earthquakes"), config=config, state=state, log=log)
        return previews(source, "events"), log

    def test_each_run_goes_on_where_the_last_one_ended(self):
        server = self.serve({"/fdsnws/event/1/query": self.query})
        state = {}
        first, log = self.read(server, state, "2024-01-03")
        self.assertEqual([record["id"] for record in first], ["q0101", "q0102"])
        self.assertEqual(first[0]["data"]["happened_at"], "2024-01-01T00:00:00+00:00")
        self.assertEqual(state, {"next_day": "2024-01-03"})
        self.assertIn(("info", "read all events before 2024-01-03"), log.lines)
        second, _ = self.read(server, state, "2024-01-05")
        self.assertEqual([record["id"] for record in second], ["q0103", "q0104"])
        self.assertEqual(self.read(server, state, "2024-01-05")[0], [])

    def test_a_day_that_breaks_off_is_read_again(self):
        server = self.serve({"/fdsnws/event/1/query": self.query})
        state = {}
        source = self.build(
            example("earthquakes"),
            config={
                "base_url": server.url,
                "start_date": "2024-01-01",
                "end_date": "2024-01-05",
            },
            state=state,
        )
        records = source.get_records("events")
        next(records)
        next(records)
        records.close()
        self.assertEqual(state, {"next_day": "2024-01-02"})


class Spacecraft(ServerCase):
    def graphql(self, call):
        if call.headers["X-API-Key"] != "key":
            return {"errors": [{"message": "wrong key"}, {"message": "go away"}]}
        asked = call.json()
        if "__typename" in asked["query"]:
            return {"data": {"__typename": "Query"}}
        start = int(asked["variables"]["after"] or 0)
        end = min(start + asked["variables"]["first"], 5)
        nodes = [{"id": f"s{n}", "name": f"Ship {n}", "type": None} for n in range(start, end)]
        return {"data": {"ships": {"nodes": nodes, "pageInfo": {"hasNextPage": end < 5, "endCursor": str(end)}}}}

    def source(self, key):
        server = self.serve({"/graphql": self.graphql})
        return self.build(
            example("spacecraft"),
            config={"url": f"{server.url}/graphql", "page_size": 2},
            authentication={"type": "api_key", "params": {"token": key}},
        )

    def test_all_pages_are_read(self):
        source = self.source("key")
        self.assertTrue(source.check_connection())
        self.assertEqual([record["id"] for record in previews(source, "ships")], ["s0", "s1", "s2", "s3", "s4"])

    def test_an_error_in_an_answer_of_200_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "wrong key; go away"):
            self.source("other").check_connection()


if __name__ == "__main__":
    unittest.main()
