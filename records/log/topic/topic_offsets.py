"""TopicOffsets: the first and last offsets of many topics of one cluster, with one request for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from records.errors import LogError
from records.log.topic.client import ClientErrors, ClientSettings
from records.log.topic.topic_admin import TopicAdmin, admin_client
from records.log.topic.topic_errors import NoLeaderError, TopicErrors
from records.log.topic.url import SCHEME, TopicUrl, parse_topic_url

_REQUEST_TIMEOUT_S: Final = 5.0


class TopicOffsets:
    """Queries topics with the same bootstrap servers; settings and errors as TopicRangeReader."""

    def __init__(self, bootstrap_servers: str, client: Mapping[str, str]) -> None:
        self._errors = ClientErrors(client)
        where = TopicUrl(f"{SCHEME}{bootstrap_servers}", bootstrap_servers, "")
        settings = ClientSettings(where, client, self._errors)
        self._client = admin_client(settings, TopicErrors(where, self._errors))

    def ends(self, urls: Iterable[str]) -> dict[str, int | LogError]:
        """The last stable offset of each topic, or its error, by URL."""
        return self._offsets(urls, OffsetSpec.latest(), "asking for the last stable offset")  # type: ignore[no-untyped-call]

    def starts(self, urls: Iterable[str]) -> dict[str, int | LogError]:
        """As ``ends``, the first offset."""
        return self._offsets(urls, OffsetSpec.earliest(), "asking for the first offset")  # type: ignore[no-untyped-call]

    def _offsets(self, urls: Iterable[str], spec: OffsetSpec, doing: str) -> dict[str, int | LogError]:
        partitions = {url: TopicPartition(parse_topic_url(url).topic, 0) for url in urls}
        if not partitions:
            return {}
        pending = self._client.list_offsets(
            dict.fromkeys(partitions.values(), spec),
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_REQUEST_TIMEOUT_S,
        )
        found: dict[str, int | LogError] = {}
        for url, partition in partitions.items():
            where = parse_topic_url(url)
            topic_errors = TopicErrors(where, self._errors)
            try:
                offset = int(pending[partition].result(2 * _REQUEST_TIMEOUT_S).offset)
                found[url] = offset if offset >= 0 else self._without_leader(where, topic_errors, doing)
            except FutureTimeoutError:
                found[url] = topic_errors.no_answer(doing, 2 * _REQUEST_TIMEOUT_S)
            except KafkaException as exception:
                self._client.poll(0)  # delivers the errors of the connections
                error = topic_errors.translate(exception.args[0], doing)
                if isinstance(error, NoLeaderError):
                    error = self._without_leader(where, topic_errors, doing)
                found[url] = error
        return found

    def _without_leader(self, where: TopicUrl, topic_errors: TopicErrors, doing: str) -> LogError:
        """The client reports a deleted topic as one without a leader, so ask the cluster."""
        try:
            TopicAdmin(self._client, where.topic, topic_errors, lambda: False).topic_id()
        except LogError as error:
            return error
        return topic_errors.no_leader(doing)
