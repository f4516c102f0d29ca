"""Kafka's protocol of ``aclog serve``: a change's round trip, a large listing, memory of idle connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.arena import Arena
from benchmarks.figures import Goal, Row, Spread
from benchmarks.http_servers import Server, free_port, running_admin
from benchmarks.settings import progress
from benchmarks.stored import writable_log
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.log.protocol.requests import create_acls, describe_acls, request_bytes

_CREATED = 200
_CONNECTIONS = 2_000
_TIMEOUT_S = 60.0
_API_VERSIONS = bytes.fromhex("0012 0000 00000000 ffff")
_GOALS = {
    "create": Goal("at most", 3, of="ours"),
    "list": Goal("at most", 2, of="ours"),
    "idle": Goal("at most", 40, of="ours"),
}


def measure(arena: Arena) -> Iterator[Row]:
    port = free_port()
    with writable_log(arena.directory) as log, running_admin(log, port) as server:
        progress(f"{arena.workload}: requests of Kafka's protocol")
        with _connection(port) as connection:
            listed = [_list(connection) for _ in range(arena.settings.loads)]
            created = [_create(connection, number) for number in range(_CREATED)]
        yield Row(
            what="CreateAcls of one ACL, answered and visible",
            workload=arena.workload,
            unit="ms",
            ours=Spread(tuple(created)),
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
