"""Posts of a forum and their comments: a stream whose records depend on those of another.

The comments of a page of posts are fetched at once by `get_many`, not one after the other.

    python -m svc preview examples/forum.py --stream comments
"""

from collections.abc import Iterator
from typing import Any

from svc.source.base import AbstractSource
from svc.source.models import SourceConfig, SourceRecord


class ForumConfig(SourceConfig):
    base_url: str = "https://jsonplaceholder.typicode.com"
    page_size: int = 20


class Forum(AbstractSource):
    name = "forum"
    streams = ["posts", "comments"]

    def get_streams(self) -> list[str]:
        return self.streams

    def check_connection(self) -> bool:
        return self.http.get(f"{self.config.base_url}/posts/1").ok

    def get_records(self, stream: str) -> Iterator[SourceRecord]:
        if stream == "posts":
            for post in self._posts():
                yield SourceRecord(id=post["id"], data=post)
        else:
            yield from self._comments()

    def _posts(self) -> Iterator[dict[str, Any]]:
        size = self.config.page_size
        yield from self.http.paginate_pages(
            f"{self.config.base_url}/posts", page_param="_page", size_param="_limit", size=size
        )

    def _comments(self) -> Iterator[SourceRecord]:
        batch: list[dict[str, Any]] = []
        for post in self._posts():
            batch.append(post)
            if len(batch) == self.config.page_size:
                yield from self._comments_of(batch)
                batch = []
        yield from self._comments_of(batch)

    def _comments_of(self, posts: list[dict[str, Any]]) -> Iterator[SourceRecord]:
        answers = self.http.get_many(f"{self.config.base_url}/posts/{post['id']}/comments" for post in posts)
        for post, answer in zip(posts, answers):
            for comment in answer.raise_for_status().json():
                yield SourceRecord(id=comment["id"], data={**comment, "post_title": post["title"]})
