"""Memory of a serving process while 2,000 clients announce requests of Kafka's protocol and send none."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from support.admin_sockets import API_VERSIONS, describe_every_acl, framed, receive
from support.nodes import SOON_S
from support.serving_process import admin_address, many_files, memory, serving_process

CONNECTIONS: Final = 2_000
#: `aclog.sidecar.max.request.bytes` and `aclog.sidecar.max.bytes.in.flight`, by default.
REQUEST_BYTES: Final = 4 * 1024 * 1024
BYTES_IN_FLIGHT: Final = 32 * 1024 * 1024
#: Of a connection: its task, its buffers and its transport.
CONNECTION_BYTES: Final = 30_000

pytestmark = pytest.mark.integration


class Served(NamedTuple):
    """A serving process, and its memory before the clients came."""

    process: subprocess.Popen[bytes]
    address: tuple[str, int]
    before: int

    def growth(self) -> int:
        """By how many bytes its peak has grown."""
        return memory(self.process)[1] - self.before


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A process whose memory is measured from its first answer on."""
    with (
        many_files(CONNECTIONS + 500),
        serving_process(
            tmp_path,
            ACLOG_ADMIN_LISTENERS="PLAINTEXT://127.0.0.1:0",
            ACLOG_SUPER_USERS="User:ANONYMOUS",
        ) as (process, _),
    ):
        host, _, port = admin_address(tmp_path / "stderr").rpartition(":")
        address = host, int(port)
        require_answers(address)
        yield Served(process, address, memory(process)[1])


def require_answers(address: tuple[str, int]) -> None:
    """A new client is served: its versions, and all ACLs."""
    with socket.create_connection(address, SOON_S) as opened:
        for request in (framed(API_VERSIONS), describe_every_acl()):
            opened.sendall(request)
            assert receive(opened) is not None


def announce(stack: ExitStack, address: tuple[str, int], announced: int, sent: bytes) -> bool:
    """Open a connection that stays open and send a part of a request; False: the server closed it."""
    opened = stack.enter_context(socket.create_connection(address, SOON_S))
    try:
        opened.sendall(announced.to_bytes(4, "big") + sent)
    except ConnectionError:
        return False
    return True


def test_announced_bytes_take_no_memory(served: Served) -> None:
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            assert announce(stack, served.address, REQUEST_BYTES, b"")
        require_answers(served.address)
        assert served.growth() < CONNECTIONS * CONNECTION_BYTES


@pytest.mark.parametrize("announced", [4096, pytest.param(REQUEST_BYTES, marks=pytest.mark.long)])
def test_requests_without_their_last_byte_have_bounded_memory(served: Served, announced: int) -> None:
    """Small ones are kept, because they are always received; of large ones as many as the limit allows."""
    part = bytes(announced - 1)
    with ExitStack() as stack:
        complete = sum(announce(stack, served.address, announced, part) for _ in range(CONNECTIONS))
        require_answers(served.address)
        # A buffer that grows is copied, so that a request may take twice its bytes.
        bound = CONNECTIONS * CONNECTION_BYTES + 2 * min(BYTES_IN_FLIGHT, CONNECTIONS * announced)
        assert served.growth() < bound
        if announced == 4096:
            assert complete == CONNECTIONS
        else:
            assert complete < CONNECTIONS
