"""Pages of a list, one request after another."""


from harness import ServerCase

from svc.http import HttpError, StatusError


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
