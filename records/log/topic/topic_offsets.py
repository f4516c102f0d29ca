"""TopicOffsets: the first and last offsets of many topics of one cluster, with one request for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from records.errors import LogError
from records.log.topic.topic_admin import ClusterClient, TopicAdmin, query_ends, query_starts
from records.log.topic.topic_errors import TopicErrors
from records.log.url import TOPIC_SCHEME, TopicUrl, parse_topic_url

_Query: TypeAlias = Callable[[Sequence[TopicAdmin]], list[int | LogError]]


class TopicOffsets:
    """Queries topics with the same bootstrap servers; settings and errors as TopicRangeReader."""

    def __init__(self, bootstrap_servers: str, client: Mapping[str, str]) -> None:
        where = TopicUrl(f"{TOPIC_SCHEME}{bootstrap_servers}", bootstrap_servers, "")
        self._cluster = ClusterClient(where, client)

    def ends(self, urls: Sequence[str]) -> dict[str, int | LogError]:
        """The last stable offset of each topic, or its error, by URL."""
        return self._queried(urls, query_ends)

    def starts(self, urls: Sequence[str]) -> dict[str, int | LogError]:
        """As ``ends``, the first offset."""
        return self._queried(urls, query_starts)

    def _queried(self, urls: Sequence[str], query: _Query) -> dict[str, int | LogError]:
        return dict(zip(urls, query([self._admin(url) for url in urls]), strict=True))

    def _admin(self, url: str) -> TopicAdmin:
        where = parse_topic_url(url)
        topic_errors = TopicErrors(where, self._cluster.errors)
        return TopicAdmin(self._cluster.client, where.topic, topic_errors, lambda: False)
