"""Tickets and users of a help desk: REST, each page names the cursor of the next.

    python -m svc preview examples/helpdesk.py --config config.json --auth-type bearer --auth-param token=…

config.json: {"base_url": "https://example.zendesk.com"}
"""

from collections.abc import Iterator

from svc.source.base import AbstractSource
from svc.source.models import SourceAuth, SourceConfig, SourceRecord


class HelpdeskConfig(SourceConfig):
    base_url: str
    page_size: int = 100


class HelpdeskAuth(SourceAuth):
    type = "bearer"
    token: str


class Helpdesk(AbstractSource):
    name = "helpdesk"

    def get_streams(self) -> list[str]:
        return ["tickets", "users"]

    def check_connection(self) -> bool:
        response = self.http.get(f"{self.config.base_url}/api/v2/users/me.json")
        return response.ok and response.json()["user"]["id"] is not None

    def get_records(self, stream: str) -> Iterator[SourceRecord]:
        rows = self.http.paginate_cursor(
            f"{self.config.base_url}/api/v2/{stream}.json",
            params={"page[size]": self.config.page_size},
            cursor_param="page[after]",
            # A last page still has a cursor here, and says that nothing follows.
            cursor=lambda body: body["meta"]["after_cursor"] if body["meta"]["has_more"] else None,
            items=stream,
        )
        for row in rows:
            yield SourceRecord(id=row["id"], data=row)
