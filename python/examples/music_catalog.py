"""Albums and playlists of a music service that gives tokens to a client id and secret (OAuth client credentials).

The platform fetches the token, sends it with every request and renews it: nothing of that is in this code.

    python -m svc preview examples/music_catalog.py --stream new_releases --auth-type oauth2_client_credentials \\
        --auth-param token_url=https://accounts.spotify.com/api/token \\
        --auth-param client_id=… --auth-param client_secret=…
"""

from collections.abc import Iterator
from typing import Any

from svc.source.base import AbstractSource
from svc.source.models import SourceAuth, SourceConfig, SourceRecord

STREAMS = {
    "new_releases": ("/v1/browse/new-releases", "albums"),
    "featured_playlists": ("/v1/browse/featured-playlists", "playlists"),
}


class MusicConfig(SourceConfig):
    base_url: str = "https://api.spotify.com"
    country: str = "SE"


class MusicAuth(SourceAuth):
    type = "oauth2_client_credentials"
    token_url: str
    client_id: str
    client_secret: str


class MusicCatalog(AbstractSource):
    name = "music_catalog"

    def get_streams(self) -> list[str]:
        return list(STREAMS)

    def check_connection(self) -> bool:
        return self._get("/v1/browse/new-releases", limit=1).ok

    def get_records(self, stream: str) -> Iterator[SourceRecord]:
        path, key = STREAMS[stream]
        rows = self.http.paginate_offset(
            f"{self.config.base_url}{path}",
            params={"country": self.config.country},
            limit=50,
            items=f"{key}.items",
            total=f"{key}.total",
        )
        for row in rows:
            data = {"name": row["name"], "uri": row["uri"], "country": self.config.country}
            yield SourceRecord(id=row["id"], data=data)

    def _get(self, path: str, **params: Any) -> Any:
        return self.http.get(f"{self.config.base_url}{path}", params=params)
