"""Kafka's protocol of ``aclog serve``: a change, a large listing, idle connections, and many topics.

The topics' cluster is a real broker, which the node follows: both answer the same requests. The topics are
written into the cluster's first records, because to create 10,000 takes minutes.
"""

from __future__ import annotations

import io
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.anchor import ROOT
from benchmarks.arena import Arena, DecisionsDifferError
from benchmarks.figures import Goal, Row, Spread, alternate
from benchmarks.http_servers import Server, free_port, running_admin
from benchmarks.settings import progress
from benchmarks.stored import read_acls, writable_log
from records.acl import CLUSTER_NAME, WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from records.batch import encode_batch
from records.entries import AccessControlEntryRecord, TopicRecord
from records.ids import Uuid
from records.log.protocol.requests import create_acls, describe_acls, request_bytes
from snapshot.files.kraft_checkpoint import BOOTSTRAP_NAME

_CREATED = 200
_TOPICS = 10_000
_TEAMS = 100
#: Records of a batch of the cluster's first records.
_BATCH = 1_000
_CONNECTIONS = 2_000
_TIMEOUT_S = 60.0
_API_VERSIONS = bytes.fromhex("0012 0000 00000000 ffff")
#: Null topics, no creation, and topics' operations; version 12.
_ALL_TOPICS = bytes.fromhex("0003 000c 00000007 ffff 00 00 00 01 00")
#: PartitionRecord 0, before and after the topic's id: its only replica is on a broker that does not exist.
_PARTITION = bytes.fromhex("01 03 00 00000000")
_REPLICAS = bytes.fromhex("02 000003e7 02 000003e7 01 01 ffffffff 00000000 00000000 00")
_WARM_UP = 100
_APPENDED_BYTES = 150
_GOALS = {
    "create": Goal("at most", 3, of="ours"),
    "list": Goal("at most", 2, of="ours"),
    "metadata": Goal("at most", 0.3),
    "idle": Goal("at most", 40, of="ours"),
}


def measure(arena: Arena) -> Iterator[Row]:
    port = free_port()
    with writable_log(arena.directory) as log, running_admin(log, port) as server:
        progress(f"{arena.workload}: requests of Kafka's protocol")
        with _connection(port) as connection, (log / "synced").open("wb", buffering=0) as synced:
            listed = [_list(connection) for _ in range(arena.settings.loads)]
            created, syncs = [], []
            for number in range(_CREATED):
                created.append(_create(connection, number))
                syncs.append(_sync_twice(synced))
        yield Row(
            what="CreateAcls of one ACL, answered and visible",
            workload=arena.workload,
            unit="ms",
            ours=Spread(tuple(created)),
            other=Spread(tuple(syncs)),
            against="two writes to the same disk, each synced, as an append needs",
            goal=_GOALS["create"],
            note=f"{_CREATED} round trips, one at a time",
        )
        yield Row(
            what="DescribeAcls of all ACLs",
            workload=arena.workload,
            unit="s",
            ours=Spread(tuple(seconds for seconds, _ in listed)),
            goal=_GOALS["list"],
            note=f"{listed[0][1] / 1e6:.0f} MB",
        )
        yield Row(
            what=f"memory of {_CONNECTIONS} idle connections",
            workload=arena.workload,
            unit="MB",
            ours=Spread.of(_idle_megabytes(server, port)),
            goal=_GOALS["idle"],
        )


def measure_metadata(arena: Arena) -> Iterator[Row]:
    sys.path.insert(0, str(ROOT / "tests"))  # what starts brokers is the tests'
    from support.kafka_broker import jar_broker  # noqa: PLC0415

    acls = [*_rights(), *read_acls(arena.directory / "acls.jsonl")]
    port = free_port()
    with (
        jar_broker({"super.users": "User:admin"}, on_formatted=partial(_add_topics, acls=acls)) as broker,
        running_admin(f"kraft://{broker.controllers}", port, "User:admin"),
        _connection(port) as ours,
        _connection(int(broker.bootstrap_servers.rpartition(":")[2])) as theirs,
    ):
        progress(f"{arena.workload}: Metadata of {_TOPICS} topics")
        if len({_operations(each) for each in (ours, theirs)}) > 1:
            raise DecisionsDifferError("Metadata of all topics: the node and the broker answer differently")
        for _ in range(_WARM_UP):
            _metadata(theirs)
        of_node, of_broker = alternate(
            arena.settings.rounds * 3, partial(_metadata, ours), partial(_metadata, theirs)
        )
    yield Row(
        what=f"Metadata of {_TOPICS} topics with authorized operations",
        workload=arena.workload,
        unit="ms",
        ours=of_node,
        other=of_broker,
        against="the broker that the node follows",
        ratio=of_node.over(of_broker),
        goal=_GOALS["metadata"],
        note=f"{len(acls)} ACLs; the client may read half of the topics",
    )


def _rights() -> Iterator[AccessControlEntryRecord]:
    """A client may read half of the topics, the broker register, and the node ask which cluster it is."""
    values = [
        (ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, operation)
        for operation in (AclOperation.CLUSTER_ACTION, AclOperation.ALTER)
    ]
    values += [
        (ResourceType.TOPIC, f"team-{team}.", PatternType.PREFIXED, operation)
        for team in range(0, _TEAMS, 2)
        for operation in (AclOperation.READ, AclOperation.WRITE)
    ]
    for number, (resource_type, name, pattern_type, operation) in enumerate(values):
        yield AccessControlEntryRecord(
            Uuid(b"right" + number.to_bytes(11, "big")),
            resource_type,
            name,
            pattern_type,
            "User:ANONYMOUS",
            WILDCARD,
            operation,
            AclPermissionType.ALLOW,
        )


def _add_topics(directory: Path, acls: Sequence[AccessControlEntryRecord]) -> None:
    """Add topics and ACLs to the first records of a new cluster, before the footer."""
    from support.column_logs import frame_of  # noqa: PLC0415

    file = directory / BOOTSTRAP_NAME
    data = file.read_bytes()
    footer_at = end = 0
    while end < len(data):
        footer_at, end = end, end + 12 + int.from_bytes(data[end + 8 : end + 12], "big")
    frames = [frame_of(each) for each in acls]
    for number in range(_TOPICS):
        topic_id = Uuid(b"topic" + number.to_bytes(11, "big"))
        frames.append(frame_of(TopicRecord(2, 0, topic_id, f"team-{number % _TEAMS}.topic-{number}")))
        frames.append(_PARTITION + bytes(topic_id) + _REPLICAS)
    offset = int.from_bytes(data[footer_at : footer_at + 8], "big")
    pieces = [data[:footer_at]]
    for begin in range(0, len(frames), _BATCH):
        values = frames[begin : begin + _BATCH]
        pieces.append(encode_batch(values, base_offset=offset, epoch=1, timestamp_ms=1))
        offset += len(values)
    # The CRC of a batch does not cover its offset.
    file.write_bytes(b"".join((*pieces, offset.to_bytes(8, "big"), data[footer_at + 8 :])))


def _operations(connection: socket.socket) -> frozenset[tuple[str, int]]:
    """Names and authorized operations of all topics."""
    from support.admin_requests import decoded  # noqa: PLC0415

    connection.sendall(len(_ALL_TOPICS).to_bytes(4, "big") + _ALL_TOPICS)
    with connection.makefile("rb") as file:
        answer = file.read(int.from_bytes(file.read(4), "big"))
    return frozenset(
        (each.name, each.topic_authorized_operations) for each in decoded("metadata", 12, answer).topics
    )


def _metadata(connection: socket.socket) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    _ask(connection, _ALL_TOPICS)
    return (time.perf_counter() - began) * 1000


def _sync_twice(file: io.FileIO) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    for _ in range(2):
        file.write(bytes(_APPENDED_BYTES))
        os.fdatasync(file.fileno())
    return (time.perf_counter() - began) * 1000


@contextmanager
def _connection(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as connection:
        yield connection


def _ask(connection: socket.socket, request: bytes) -> int:
    """Size of the answer."""
    connection.sendall(len(request).to_bytes(4, "big") + request)
    size = left = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    buffer = bytearray(1 << 20)
    while left:
        if not (count := connection.recv_into(buffer, min(left, len(buffer)))):
            raise RuntimeError("the server has closed the connection")
        left -= count
    return size


def _list(connection: socket.socket) -> tuple[float, int]:
    """Seconds and bytes."""
    began = time.perf_counter()
    size = _ask(connection, request_bytes(describe_acls(), 1))
    return time.perf_counter() - began, size


def _create(connection: socket.socket, number: int) -> float:
    """Milliseconds."""
    acl: Any = (
        *(ResourceType.TOPIC, f"created-{number}", PatternType.LITERAL),
        *("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW),
    )
    request = request_bytes(create_acls([acl]), number)
    began = time.perf_counter()
    _ask(connection, request)
    return (time.perf_counter() - began) * 1000


def _idle_megabytes(server: Server, port: int) -> float:
    before = _resident_megabytes(server)
    with ExitStack() as stack:
        for _ in range(_CONNECTIONS):
            # Each has asked what a client asks first.
            _ask(stack.enter_context(_connection(port)), _API_VERSIONS)
        return _resident_megabytes(server) - before


def _resident_megabytes(server: Server) -> float:
    kib = 0
    for pid in server.pids:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        kib += next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return kib * 1024 / 1e6
