"""A simulated quorum of controllers behind simulated sockets; kio encodes its answers.

It simulates what an observer can see, by Kafka's rules (KafkaRaftClient, ReplicatedLog): the log of each
controller, commits, the leader of each epoch and who knows it, snapshots, and answers that are refused,
truncated, closed or missing. A leader has everything that was committed before its epoch, and commits
nothing before a batch of its own epoch.
"""

from __future__ import annotations

import datetime as dt
import io
import random
import socket
import uuid
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

from kio.schema.api_versions.v3 import response as versions_response
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.create_acls.v3.request import CreateAclsRequest
from kio.schema.delete_acls.v3.request import DeleteAclsRequest
from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.describe_cluster.v1.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17 import request as fetch_request_17
from kio.schema.fetch.v17 import response as fetch_response_17
from kio.schema.fetch.v18 import request as fetch_request_18
from kio.schema.fetch.v18 import response as fetch_response_18
from kio.schema.fetch_snapshot.v1 import response as snapshot_response
from kio.schema.fetch_snapshot.v1.request import FetchSnapshotRequest
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import Records, i16, i32, i32Timedelta, i64, u16

from records.batch import encode_batch
from records.codecs.kraft import encode_frame
from records.control import ControlType, encode_control_key, snapshot_footer_value, snapshot_header_value
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import METADATA_TOPIC_ID, Uuid
from records.log.url import Address
from snapshot.digest import DIGEST_MASK, acl_hash

CLUSTER_ID = "simulated"
NODES = 3
NOW = i32Timedelta.parse(dt.timedelta(0))
State = dict[Uuid, AccessControlEntryRecord]
Changes = Sequence[AccessControlEntryRecord | RemoveAccessControlEntryRecord]


@dataclass(frozen=True)
class Batch:
    base: int
    end: int
    epoch: int
    data: bytes
    records: Changes = ()


@dataclass(frozen=True)
class Snapshot:
    end: int
    epoch: int
    data: bytes


@dataclass
class Node:
    id: int
    address: Address
    epoch: int = 0
    leader: int | None = None
    log: list[Batch] = field(default_factory=list)
    high_watermark: int = -1
    snapshot: Snapshot | None = None
    start: int = 0
    is_up: bool = True

    @property
    def end(self) -> int:
        return self.log[-1].end if self.log else self.start

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """ReplicatedLog.endOffsetForEpoch: the greatest epoch up to this one, and where it ends."""
        ends = [(batch.epoch, batch.end) for batch in self.log if batch.epoch <= epoch]
        return max(ends, default=(0 if self.snapshot is None else self.snapshot.epoch, self.start))


class SimQuorum:
    """Attributes: ``digests`` by each offset at which committed batches end; ``states`` the ACLs there.

    ``tamper`` changes the bytes of each answer before they are sent.
    """

    def __init__(self, seed: int, *, fetch_version: int = 18) -> None:
        self.random = random.Random(seed)
        self.fetch_version = fetch_version
        self.nodes = [Node(number, Address(f"controller-{number}", 9093)) for number in range(NODES)]
        self.states: dict[int, State] = {0: {}}
        self.digests: dict[int, int] = {0: 0}
        self.faults = 0.0
        self.requests = 0
        self.unroutable: set[int] = set()
        self.starting: set[int] = set()
        self.tamper: Callable[[bytes], bytes] = bytes
        self._epoch = 0
        self._leader: Node | None = None
        self.elect()

    @property
    def committed(self) -> int:
        return max(self.digests)

    # --- what happens in the quorum ----------------------------------------------------------------------

    def elect(self, *, is_seen: bool = True) -> None:
        """A new leader, with all committed batches and perhaps some uncommitted ones."""
        self._epoch += 1
        before = self._leader
        leader = self.random.choice(self.nodes)
        if before is not None and leader is not before:
            remaining = [batch for batch in before.log if batch.end <= self.committed]
            rest = [batch for batch in before.log if batch.end > self.committed]
            leader.log = remaining + rest[: self.random.randint(0, len(rest))]
            leader.start, leader.snapshot = before.start, before.snapshot
        leader.epoch, leader.leader, leader.high_watermark = self._epoch, leader.id, -1
        self._leader = leader
        value = b"\0\0" + leader.id.to_bytes(4, "big") + b"\1\1\0"
        self._append(leader, [value], [encode_control_key(ControlType.LEADER_CHANGE)])
        if is_seen:
            self.tell()

    def tell(self) -> None:
        """Report the leader to all other controllers."""
        assert self._leader is not None
        for node in self.nodes:
            if node is not self._leader:
                node.epoch, node.leader = self._epoch, self._leader.id
                node.high_watermark = -1
                node.log = [batch for batch in self._leader.log if batch.end <= self.committed]
                node.start, node.snapshot = self._leader.start, self._leader.snapshot

    def write(self) -> None:
        """A batch of one to three records, not committed yet."""
        assert self._leader is not None
        records: list[AccessControlEntryRecord | RemoveAccessControlEntryRecord] = []
        for _ in range(self.random.randint(1, 3)):
            number = self.random.randrange(8)
            acl_id = Uuid(bytes([number]) * 16)
            if self.random.random() < 0.4:
                records.append(RemoveAccessControlEntryRecord(acl_id))
            else:
                host = f"10.0.0.{self.random.randrange(200)}"
                records.append(AccessControlEntryRecord(acl_id, 2, f"t{number}", 3, "User:a", host, 3, 3))
        self._append(self._leader, [encode_frame(record) for record in records], None, tuple(records))

    def commit(self) -> None:
        """Commit some or all batches of the leader, if they reach its own epoch."""
        leader = self._leader
        assert leader is not None
        ends = [batch.end for batch in leader.log if batch.end > self.committed or batch.end == leader.end]
        if not ends:
            return
        first_own = next((batch.end for batch in leader.log if batch.epoch == leader.epoch), 0)
        chosen = self.random.choice(ends)
        if chosen < first_own:
            return
        state, before = dict(self.states[self.committed]), self.committed
        for batch in leader.log:
            if before < batch.end <= chosen:
                self.fold(state, batch.records)
                self.states[batch.end] = dict(state)
                self.digests[batch.end] = sum(map(acl_hash, state.values())) & DIGEST_MASK
        leader.high_watermark = max(leader.high_watermark, chosen)

    @staticmethod
    def fold(state: State, records: Changes) -> None:
        """Apply the records to the state."""
        for record in records:
            if isinstance(record, AccessControlEntryRecord):
                state[record.id] = record
            else:
                state.pop(record.id, None)

    def take_snapshot(self, *, trims: bool) -> None:
        """At the leader's high watermark; ``trims``: whether the batches before it are deleted."""
        leader = self._leader
        assert leader is not None
        end = leader.high_watermark
        if end <= 0 or (leader.snapshot is not None and leader.snapshot.end >= end):
            return
        epoch = max(batch.epoch for batch in leader.log if batch.end <= end)
        leader.snapshot = Snapshot(end, epoch, snapshot_bytes(self.states[end], epoch))
        if trims:
            leader.log = [batch for batch in leader.log if batch.end > end]
            leader.start = end

    def lose(self, end: int) -> None:
        """Restore the cluster from a backup: the batches from ``end`` on are lost."""
        self.states = {at: state for at, state in self.states.items() if at <= end}
        self.digests = {at: digest for at, digest in self.digests.items() if at <= end}
        for node in self.nodes:
            node.log = [batch for batch in node.log if batch.end <= end]
        self.elect()

    def happen(self) -> None:
        """Cause one random event."""
        chance = self.random.random()
        if chance < 0.45:
            self.write()
        elif chance < 0.8:
            self.commit()
        elif chance < 0.86:
            self.elect(is_seen=self.random.random() < 0.5)
        elif chance < 0.92:
            self.tell()
        elif chance < 0.95:
            self.take_snapshot(trims=self.random.random() < 0.6)
        else:
            node = self.random.choice(self.nodes)
            node.is_up = not node.is_up

    def settle(self) -> None:
        """End all faults: every controller runs and knows the one leader, and all is committed."""
        self.faults = 0.0
        for node in self.nodes:
            node.is_up = True
        self.elect()
        assert self._leader is not None
        while self._leader.high_watermark != self._leader.end:
            self.commit()

    def _append(
        self,
        node: Node,
        values: Sequence[bytes],
        keys: Sequence[bytes] | None,
        records: Changes = (),
    ) -> None:
        base = node.end
        data = encode_batch(
            values, base_offset=base, epoch=node.epoch, timestamp_ms=1, keys=keys, is_control=keys is not None
        )
        node.log.append(Batch(base, base + len(values), node.epoch, data, records))

    # --- what is answered --------------------------------------------------------------------------------

    def connect(self, address: tuple[str, int], _timeout_s: float = 0) -> SimSocket:
        """Replaces socket.create_connection."""
        node = next((node for node in self.nodes if node.address.host == address[0]), None)
        if node is None:
            address[0].encode("idna")  # may raise UnicodeError, as the real one does
            raise socket.gaierror(-2, "Name or service not known")
        if not node.is_up or node.id in self.unroutable or self.random.random() < self.faults / 4:
            raise ConnectionRefusedError(111, "Connection refused")
        return SimSocket(self, node)

    def answer(self, node: Node, frame: bytes) -> bytes | None:
        """The frame of the answer; None: the connection is closed instead."""
        self.requests += 1
        # A handshake is no flexible message.
        header_schema = SaslHandshakeRequest.__header_schema__ if frame[:2] == b"\0\x11" else RequestHeader
        header, at = entity_reader(cast("type[Any]", header_schema))(frame, 0)
        request_types: dict[int, type[Any]] = {
            18: ApiVersionsRequest,
            60: DescribeClusterRequest,
            59: FetchSnapshotRequest,
            1: fetch_request_18.FetchRequest
            if header.request_api_version == 18
            else fetch_request_17.FetchRequest,
            30: CreateAclsRequest,
            31: DeleteAclsRequest,
            17: SaslHandshakeRequest,
        }
        request, _ = entity_reader(request_types[header.request_api_key])(frame, at)
        if not node.is_up:
            return None
        response = self._respond(node, request)
        out = io.BytesIO()
        header_type = type(response).__header_schema__
        entity_writer(header_type)(out, header_type(correlation_id=header.correlation_id))
        entity_writer(type(response))(out, response)
        return len(out.getvalue()).to_bytes(4, "big") + out.getvalue()

    def _respond(self, node: Node, request: Any) -> Any:
        if isinstance(request, ApiVersionsRequest):
            ranges = ((1, self.fetch_version), (59, 1), (60, 1))
            keys = tuple(
                versions_response.ApiVersion(api_key=i16(key), min_version=i16(0), max_version=i16(last))
                for key, last in ranges
            )
            return versions_response.ApiVersionsResponse(
                error_code=ErrorCode.none, api_keys=keys, throttle_time=NOW
            )
        if isinstance(request, DescribeClusterRequest):
            controllers = tuple(
                DescribeClusterBroker(broker_id=BrokerId(each.id), host=each.address.host, port=i32(9093))
                for each in self.nodes
            )
            if node.id in self.starting:  # it knows no features yet
                error = ErrorCode.unsupported_version
                return DescribeClusterResponse(throttle_time=NOW, error_code=error, cluster_id="", brokers=())
            return DescribeClusterResponse(
                throttle_time=NOW, error_code=ErrorCode.none, cluster_id=CLUSTER_ID, brokers=controllers
            )
        if isinstance(request, SaslHandshakeRequest):  # as a listener without SASL
            return SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state, mechanisms=())
        if request.cluster_id not in (None, CLUSTER_ID):
            return self._another_cluster(request)
        if isinstance(request, FetchSnapshotRequest):
            return self._snapshot(node, request)
        assert request.replica_state.replica_id == -1
        return self._fetch(node, request)

    def _another_cluster(self, request: Any) -> Any:
        error = ErrorCode.inconsistent_cluster_id
        if isinstance(request, FetchSnapshotRequest):
            return snapshot_response.FetchSnapshotResponse(throttle_time=NOW, error_code=error, topics=())
        schema = fetch_response_18 if self.fetch_version == 18 else fetch_response_17
        return schema.FetchResponse(throttle_time=NOW, error_code=error, responses=())

    def _refusal(self, node: Node, epoch: int) -> ErrorCode:
        if epoch < node.epoch:
            return ErrorCode.fenced_leader_epoch
        if epoch > node.epoch:
            return ErrorCode.unknown_leader_epoch
        return ErrorCode.none if node.leader == node.id else ErrorCode.not_leader_or_follower

    def _fetch(self, node: Node, request: Any) -> Any:
        schema = fetch_response_18 if self.fetch_version == 18 else fetch_response_17
        partition = request.topics[0].partitions[0]
        assert request.topics[0].topic_id == uuid.UUID(bytes=bytes(METADATA_TOPIC_ID))
        answer: dict[str, Any] = {}
        error = self._refusal(node, partition.current_leader_epoch)
        if error is ErrorCode.none:
            answer = self._fetch_answer(node, schema, partition)
        partition = schema.PartitionData(
            partition_index=i32(0),
            error_code=error,
            high_watermark=i64(node.high_watermark if error is ErrorCode.none else -1),
            current_leader=schema.LeaderIdAndEpoch(
                leader_id=BrokerId(-1 if node.leader is None else node.leader), leader_epoch=i32(node.epoch)
            ),
            aborted_transactions=None,
            **{"records": Records(b""), **answer},
        )
        endpoints = tuple(
            schema.NodeEndpoint(node_id=BrokerId(each.id), host=each.address.host, port=i32(9093))
            for each in self.nodes
            if each.id == node.leader
        )
        topic = schema.FetchableTopicResponse(topic_id=request.topics[0].topic_id, partitions=(partition,))
        return schema.FetchResponse(
            throttle_time=NOW, error_code=ErrorCode.none, responses=(topic,), node_endpoints=endpoints
        )

    def _fetch_answer(self, node: Node, schema: Any, partition: Any) -> dict[str, Any]:
        offset, epoch, snapshot = partition.fetch_offset, partition.last_fetched_epoch, node.snapshot
        assert epoch >= 0
        if snapshot is not None and (
            offset == 0 or offset < node.start or (offset == node.start and epoch != snapshot.epoch)
        ):
            found = schema.SnapshotId(end_offset=i64(snapshot.end), epoch=i32(snapshot.epoch))
            return {"snapshot_id": found}
        if offset > 0 or node.start > 0:
            last_epoch, end = node.end_of_epoch(epoch)
            if last_epoch != epoch or end < offset:
                found = schema.EpochEndOffset(epoch=i32(last_epoch), end_offset=i64(end))
                return {"diverging_epoch": found}
        first = bisect_right([batch.end for batch in node.log], offset)
        batches = [batch.data for batch in node.log[first : first + self.random.randint(1, 4)]]
        data = b"".join(batches)
        if len(batches) > 1 and self.random.random() < 0.5:
            data = data[: self.random.randint(len(batches[0]), len(data))]  # cut by its size
        return {"records": Records(data)}

    def _snapshot(self, node: Node, request: FetchSnapshotRequest) -> Any:
        requested = request.topics[0].partitions[0]
        error, data, size = self._refusal(node, requested.current_leader_epoch), b"", 0
        snapshot = node.snapshot
        if error is ErrorCode.none:
            wanted = (requested.snapshot_id.end_offset, requested.snapshot_id.epoch)
            if snapshot is None or (snapshot.end, snapshot.epoch) != wanted:
                error = ErrorCode.snapshot_not_found
            else:
                size = len(snapshot.data)
                data = snapshot.data[requested.position :][: self.random.randint(1, 100)]
        partition = snapshot_response.PartitionSnapshot(
            index=i32(0),
            error_code=error,
            snapshot_id=snapshot_response.SnapshotId(
                end_offset=requested.snapshot_id.end_offset, epoch=requested.snapshot_id.epoch
            ),
            current_leader=snapshot_response.LeaderIdAndEpoch(
                leader_id=BrokerId(-1 if node.leader is None else node.leader), leader_epoch=i32(node.epoch)
            ),
            size=i64(size),
            position=requested.position,
            unaligned_records=Records(data),
        )
        endpoints = tuple(
            snapshot_response.NodeEndpoint(node_id=BrokerId(each.id), host=each.address.host, port=u16(9093))
            for each in self.nodes
            if each.id == node.leader
        )
        topic = snapshot_response.TopicSnapshot(name=TopicName("__cluster_metadata"), partitions=(partition,))
        return snapshot_response.FetchSnapshotResponse(
            throttle_time=NOW, error_code=ErrorCode.none, topics=(topic,), node_endpoints=endpoints
        )


#: What a TLS client sends first, as the probe of a port does.
_TLS_HANDSHAKE = b"\x16\x03"


class SimSocket:
    """The socket methods that records.log uses, with faults at any byte."""

    def __init__(self, quorum: SimQuorum, node: Node) -> None:
        self._quorum = quorum
        self._node = node
        self._coming = b""
        self._is_closed = False

    def setsockopt(self, *_args: int) -> None:
        """Nothing to do."""

    def settimeout(self, _timeout_s: float) -> None:
        """Nothing to do."""

    def sendall(self, data: bytes) -> None:
        if self._is_closed:
            raise BrokenPipeError(32, "Broken pipe")
        if data.startswith(_TLS_HANDSHAKE):
            self._is_closed = True  # as a controller without TLS does
            return
        quorum, chance = self._quorum, self._quorum.random
        frame = quorum.answer(self._node, data[4:])
        if frame is None:
            self._is_closed = True
        elif chance.random() >= quorum.faults:
            self._coming = quorum.tamper(frame)
        elif chance.random() < 0.6:
            self._coming = frame[: chance.randrange(len(frame))]
            self._is_closed = chance.random() < 0.5  # else it hangs
        else:
            self._coming = chance.randbytes(chance.randint(1, 60)) + bytes(4)
            self._is_closed = True

    def recv(self, size_bytes: int) -> bytes:
        size_bytes = self._quorum.random.randint(1, size_bytes)
        found, self._coming = self._coming[:size_bytes], self._coming[size_bytes:]
        if not found and not self._is_closed:
            raise TimeoutError
        return found

    def shutdown(self, _how: int) -> None:
        self._is_closed = True

    def close(self) -> None:
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def snapshot_bytes(state: State, epoch: int) -> bytes:
    """As Kafka writes a ``.checkpoint``: header, the ACLs, footer."""
    batches: list[tuple[list[bytes], ControlType | None]] = [
        ([snapshot_header_value(1)], ControlType.SNAPSHOT_HEADER),
        ([encode_frame(record) for record in state.values()], None),
        ([snapshot_footer_value()], ControlType.SNAPSHOT_FOOTER),
    ]
    data, offset = b"", 0
    for values, control in batches:
        if values:
            keys = None if control is None else [encode_control_key(control)]
            data += encode_batch(
                values,
                base_offset=offset,
                epoch=epoch,
                timestamp_ms=1,
                keys=keys,
                is_control=control is not None,
            )
            offset += len(values)
    return data
