"""Kafka's protocol over plain sockets, for what no client sends."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from authorizer.admin_server.server import AdminServer
from authorizer.node.node import Node
from records.log.protocol.requests import describe_acls, request_bytes
from support.nodes import SOON_S, config_of

#: ApiVersions version 0, correlation id 7, without a client id.
API_VERSIONS = bytes.fromhex("0012 0000 00000007 ffff")


@contextmanager
def admin_server(node: Node, **settings: Any) -> Iterator[AdminServer]:
    """A server on a free port of this machine."""
    with AdminServer(config_of(admin_listeners="PLAINTEXT://127.0.0.1:0", **settings)) as server:
        yield server.start(node)


@contextmanager
def connected(server: AdminServer, receive_buffer: int | None = None) -> Iterator[socket.socket]:
    """A connection to its first listener."""
    host, _, port = server.addresses[0].rpartition(":")
    with socket.socket() as opened:
        opened.settimeout(SOON_S)
        if receive_buffer is not None:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        opened.connect((host, int(port)))
        yield opened


def framed(request: bytes) -> bytes:
    """With its length before it."""
    return len(request).to_bytes(4, "big") + request


def describe_every_acl(correlation_id: int = 7) -> bytes:
    """A frame that asks for all ACLs."""
    return framed(request_bytes(describe_acls(), correlation_id))


def receive(opened: socket.socket) -> bytes | None:
    """The next response; None: the server has closed the connection."""
    try:
        size = _exactly(opened, 4)
        return None if size is None else _exactly(opened, int.from_bytes(size, "big"))
    except ConnectionError:
        return None


def _exactly(opened: socket.socket, count: int) -> bytes | None:
    received = bytearray()
    while len(received) < count:
        if not (part := opened.recv(min(count - len(received), 1 << 20))):
            return None
        received += part
    return bytes(received)


def answers_api_versions(server: AdminServer) -> bool:
    """Whether a new connection is served."""
    with connected(server) as opened:
        opened.sendall(framed(API_VERSIONS))
        response = receive(opened)
        return response is not None and response[:6] == bytes.fromhex("00000007 0000")
