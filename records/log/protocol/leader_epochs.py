"""LeaderEpochs: the ranges of the leader epochs of many topics, by requests to each leader (KIP-320).

Metadata 12 and OffsetForLeaderEpoch 4. The leader's epoch of the metadata is sent along, so that a broker
that knows another one refuses to answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.offset_for_leader_epoch.v4 import request as epoch_request
from kio.schema.offset_for_leader_epoch.v4.response import OffsetForLeaderEpochResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from records.errors import LogUnreachableError
from records.ids import Uuid
from records.log.protocol.cluster_errors import ClusterErrors
from records.log.protocol.connection import Connection
from records.log.protocol.response_values import NO_ERROR
from records.log.protocol.responses import error_name, schema_decoder
from records.log.url import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from records.log.protocol.settings import ProtocolSettings

_CONSUMER: Final = BrokerId(-1)


class EpochRange(NamedTuple):
    """The largest epoch of a log up to the requested one, and its offsets.

    ``start``: -1: it is the first one.
    """

    topic_id: Uuid
    epoch: int
    start: int
    end: int


class _Leader(NamedTuple):
    """The leader of partition 0 of a topic."""

    topic: str
    topic_id: Uuid
    address: Address
    epoch: int


class LeaderEpochs:
    """Queries one cluster. Has no connection between calls."""

    def __init__(self, url: str, servers: Sequence[Address], settings: ProtocolSettings) -> None:
        self._servers = servers
        self._settings = settings
        self._errors = ClusterErrors(url, settings)

    def ranges(self, epochs: Mapping[str, int]) -> dict[str, EpochRange]:
        """The range of an epoch of each topic, by its name.

        A topic is missing if its leader did not answer about it, as after an election.

        Raises:
            LogUnreachableError: no broker answers.
            LogRefusedError: authentication failed.
        """
        by_address: dict[Address, list[_Leader]] = {}
        for leader in self._leaders(epochs):
            by_address.setdefault(leader.address, []).append(leader)
        found: dict[str, EpochRange] = {}
        for address, leaders in by_address.items():
            try:
                with Connection(address, self._settings, self._errors) as connection:
                    ends = connection.send(_epochs_request(leaders, epochs), _EPOCH_ENDS)
                    earlier = {topic: epoch - 1 for topic, epoch in epochs.items()}
                    starts = connection.send(_epochs_request(leaders, earlier), _EPOCH_ENDS)
            except LogUnreachableError:
                continue
            for leader in leaders:
                topic = leader.topic
                if topic in ends and topic in starts:
                    (epoch, end), (_, start) = ends[topic], starts[topic]
                    found[topic] = EpochRange(leader.topic_id, epoch, start, end)
        return found

    def _leaders(self, topics: Iterable[str]) -> list[_Leader]:
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(topic_id=None, name=TopicName(topic)) for topic in topics),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        last_error: LogUnreachableError | None = None
        for address in self._servers:
            try:
                with Connection(address, self._settings, self._errors) as connection:
                    return connection.send(request, _LEADERS)
            except LogUnreachableError as error:
                last_error = error
        raise last_error or self._errors.log_closed()


def _epochs_request(leaders: Iterable[_Leader], epochs: Mapping[str, int]) -> Any:
    topics = tuple(
        epoch_request.OffsetForLeaderTopic(
            topic=TopicName(leader.topic),
            partitions=(
                epoch_request.OffsetForLeaderPartition(
                    partition=i32(0),
                    current_leader_epoch=i32(leader.epoch),
                    leader_epoch=i32(epochs[leader.topic]),
                ),
            ),
        )
        for leader in leaders
    )
    return epoch_request.OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=topics)


def _read_leaders(found: MetadataResponse) -> list[_Leader]:
    addresses = {broker.node_id: Address(broker.host, broker.port) for broker in found.brokers}
    return [
        _Leader(
            topic.name, Uuid(topic.topic_id.bytes), addresses[partition.leader_id], partition.leader_epoch
        )
        for topic in found.topics
        for partition in topic.partitions
        if topic.name is not None
        and topic.topic_id is not None
        and error_name(topic.error_code) == error_name(partition.error_code) == NO_ERROR
        and partition.partition_index == 0
        and partition.leader_id in addresses
    ]


def _read_ends(found: OffsetForLeaderEpochResponse) -> dict[str, tuple[int, int]]:
    """Epoch and end offset by topic, of each partition 0 without an error."""
    return {
        topic.topic: (partition.leader_epoch, partition.end_offset)
        for topic in found.topics
        for partition in topic.partitions
        if partition.partition == 0 and error_name(partition.error_code) == NO_ERROR
    }


_LEADERS: Final = schema_decoder(MetadataResponse, _read_leaders)
_EPOCH_ENDS: Final = schema_decoder(OffsetForLeaderEpochResponse, _read_ends)
