"""Launches and ships from a GraphQL server: one POST address, cursors in the query's variables.

    python -m svc preview examples/spacecraft.py --stream launches --config config.json \\
        --auth-type api_key --auth-param token=…

config.json: {"url": "https://spacex-production.up.railway.app/graphql"}
"""

from collections.abc import Iterator
from typing import Any

from svc.source.base import AbstractSource
from svc.source.models import SourceAuth, SourceConfig, SourceRecord

QUERIES = {
    "launches": """
        query ($first: Int!, $after: String) {
          launches(first: $first, after: $after) {
            nodes { id mission_name launch_date_utc launch_success rocket { rocket_name } }
            pageInfo { hasNextPage endCursor }
          }
        }
    """,
    "ships": """
        query ($first: Int!, $after: String) {
          ships(first: $first, after: $after) {
            nodes { id name type home_port year_built }
            pageInfo { hasNextPage endCursor }
          }
        }
    """,
}


class SpacecraftConfig(SourceConfig):
    url: str
    page_size: int = 50


class SpacecraftAuth(SourceAuth):
    type = "api_key"
    token: str


class Spacecraft(AbstractSource):
    name = "spacecraft"

    def get_streams(self) -> list[str]:
        return sorted(QUERIES)

    def check_connection(self) -> bool:
        return "__typename" in self._ask("{ __typename }", {})

    def get_records(self, stream: str) -> Iterator[SourceRecord]:
        after = None
        while True:
            page = self._ask(QUERIES[stream], {"first": self.config.page_size, "after": after})[stream]
            for node in page["nodes"]:
                yield SourceRecord(id=node.pop("id"), data=node)
            if not page["pageInfo"]["hasNextPage"]:
                return
            after = page["pageInfo"]["endCursor"]

    def _ask(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        response = self.http.post(self.config.url, json={"query": query, "variables": variables})
        body = response.raise_for_status().json()
        # GraphQL answers 200 even when it fails.
        if body.get("errors"):
            raise RuntimeError("; ".join(error["message"] for error in body["errors"]))
        return body["data"]
