"""What the cluster says about one topic, asked for when it is needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from records.errors import LogError
from records.ids import Uuid, uuid_from_string
from records.log.topic.failure import Failure, NoLeaderError

#: So long one question may take.
REQUEST_TIMEOUT_S: Final = 5.0
#: Between two looks at whether the log was closed meanwhile.
_CLOSE_LOOK_S: Final = 0.1

# The client's stubs forgot to type these.
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The last stable offset, and the epoch of the leader that said so."""

    offset: int
    leader_epoch: int


class TopicAdmin:
    """Asks about one topic. Thread-safe.

    Args:
        settings: of the client.
        topic: its name.
        failure: makes the errors.
        is_closed: asked while waiting for an answer.

    Raises:
        LogError: as Failure says; from every method too.
    """

    def __init__(
        self, settings: Mapping[str, Any], topic: str, failure: Failure, is_closed: Callable[[], bool]
    ) -> None:
        self._topic = topic
        self._partition = TopicPartition(topic, 0)
        self._failure = failure
        self._is_closed = is_closed
        with failure.translated("making a client"):
            self._client = AdminClient(dict(settings))

    def cluster_id(self) -> str:
        """The cluster's id."""
        found = self._client.describe_cluster(request_timeout=REQUEST_TIMEOUT_S)
        return str(self._result(found, "asking for the cluster's id").cluster_id)

    def broker_count(self) -> int:
        """Brokers that are alive."""
        return len(self.broker_addresses())

    def broker_addresses(self) -> list[tuple[str, int]]:
        """Host and port of each broker that is alive."""
        found = self._client.describe_cluster(request_timeout=REQUEST_TIMEOUT_S)
        return [(node.host, node.port) for node in self._result(found, "asking for the brokers").nodes]

    def leader_address(self) -> tuple[str, int]:
        """Host and port of the topic's leader."""
        leader = self._description().partitions[0].leader
        if leader is None:
            raise self._failure.no_leader("looking at the topic")
        return leader.host, leader.port

    def topic_id(self) -> Uuid:
        """The id of the topic that has the name now."""
        text = str(self._description().topic_id)
        # The client writes the other base64 alphabet.
        return uuid_from_string(text.replace("+", "-").replace("/", "_"))

    def partition_count(self) -> int:
        """How many partitions the topic has."""
        return len(self._description().partitions)

    def config(self) -> dict[str, str]:
        """All settings of the topic, defaults too."""
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        found = self._client.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
        entries = self._result(found[resource], "asking for the topic's settings")
        return {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def end(self) -> LogEnd:
        """Where committed records end now."""
        found = self._offset(_LATEST, "asking for the last stable offset")
        return LogEnd(found.offset, -1 if found.leader_epoch is None else found.leader_epoch)

    def uncommitted_end(self) -> int:
        """Where records end now, those of open transactions too."""
        doing = "asking for the last offset"
        return int(self._offset(_LATEST, doing, IsolationLevel.READ_UNCOMMITTED).offset)

    def start(self) -> int:
        """First offset that the topic holds now."""
        return int(self._offset(_EARLIEST, "asking for the first offset").offset)

    def create(self, topic: NewTopic) -> None:
        """Make the topic; returns when the cluster says that it has."""
        found = self._client.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)
        self._result(found[self._topic], "creating the topic")

    def _description(self) -> Any:
        names = TopicCollection([self._topic])
        found = self._client.describe_topics(names, request_timeout=REQUEST_TIMEOUT_S)
        return self._result(found[self._topic], "looking at the topic")

    def _offset(
        self, spec: OffsetSpec, doing: str, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> Any:
        found = self._client.list_offsets(
            {self._partition: spec}, isolation_level=isolation, request_timeout=REQUEST_TIMEOUT_S
        )
        try:
            result = self._result(found[self._partition], doing)
            if result.offset < 0:
                # While the partition has no leader that can be reached, the client may answer so, too.
                raise self._failure.no_leader(doing)
        except NoLeaderError:
            # So it says of a topic that is gone, as well, once it has heard that; the cluster knows.
            self._description()
            raise
        return result

    def _result(self, future: Future[_T], doing: str) -> _T:
        deadline_s = time.monotonic() + 2 * REQUEST_TIMEOUT_S
        while True:
            try:
                return future.result(_CLOSE_LOOK_S)
            except FutureTimeoutError:
                if self._is_closed():
                    raise LogError("the log is closed") from None
                if time.monotonic() > deadline_s:
                    raise self._failure.no_answer(doing, 2 * REQUEST_TIMEOUT_S) from None
            except KafkaException as exception:
                self._client.poll(0)  # what went wrong with the connections comes here
                raise self._failure.of(exception.args[0], doing) from exception
