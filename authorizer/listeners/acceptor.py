"""Acceptor: accepts the connections of a socket, and counts them from then on, also during TLS handshakes.

The servers of asyncio and uvloop call a protocol only after the handshake, so they would not count a client
that never completes one.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from authorizer.api.ip_address import host_address

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable

    from authorizer.listeners.connection_limiter import Admission, ConnectionLimiter
    from authorizer.listeners.listener import Listener


log = structlog.get_logger(__name__)

#: Seconds that a client has for its TLS handshake.
HANDSHAKE_TIMEOUT_S: Final = 5.0
#: Connections that are accepted in one iteration of the event loop.
_PER_TURN_MAX: Final = 64
#: Seconds until the next attempt after accept() failed, mostly for lack of file descriptors.
_PAUSE_S: Final = 0.1
#: The client disconnected, or another process of the same sidecar accepted the connection.
_NOTHING_TO_ACCEPT: Final = (BlockingIOError, InterruptedError, ConnectionAbortedError)


class Acceptor:
    """Accepts on one socket until ``close``; on the event loop only."""

    def __init__(
        self,
        listening: socket.socket,
        listener: Listener,
        limiter: ConnectionLimiter,
        make_protocol: Callable[[Admission], asyncio.Protocol],
        tls: ssl.SSLContext | None,
    ) -> None:
        """Start to accept."""
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._listener = listener
        self._limiter = limiter
        self._make_protocol = make_protocol
        self._tls: dict[str, Any] = (
            {} if tls is None else {"ssl": tls, "ssl_handshake_timeout": HANDSHAKE_TIMEOUT_S}
        )
        self._opening: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._is_failing = False
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        """Stop accepting, and close the connections in their handshake."""
        self._loop.remove_reader(self._listening)
        if self._pause is not None:
            self._pause.cancel()
        for task in self._opening:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until they are closed."""
        if self._opening:
            await asyncio.wait(self._opening)

    def _accept(self) -> None:
        for _ in range(_PER_TURN_MAX):
            try:
                accepted, address = self._listening.accept()
            except _NOTHING_TO_ACCEPT:
                return
            except OSError as error:
                self._pause_accepting(error)
                return
            self._is_failing = False
            self._admit(accepted, address)

    def _admit(self, accepted: socket.socket, address: Any) -> None:
        # A dual-stack socket reports an IPv4 peer with an IPv6 address; a Unix socket's peer has none.
        host = host_address(address[0]) if isinstance(address, tuple) else None
        admission = self._limiter.admit(self._listener, host)
        if admission is None:
            accepted.close()
            return
        task = self._loop.create_task(self._open(accepted, admission))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket, admission: Admission) -> None:
        """Hand the connection to the event loop, with TLS after its handshake."""
        accepted.setblocking(False)
        make_protocol = partial(self._make_protocol, admission)
        try:
            await self._loop.connect_accepted_socket(make_protocol, accepted, **self._tls)
        except ConnectionAbortedError:
            self._limiter.count_handshake_timeout()
        except OSError:
            pass  # the client disconnected, or its handshake failed, which the TLS context counts
        finally:
            # A protocol that was never connected is not notified of the end.
            if not admission.is_connected:
                admission.release()

    def _pause_accepting(self, error: OSError) -> None:
        """Wait before the next attempt: a busy loop would not create file descriptors."""
        if not self._is_failing:
            log.warning(
                "connections_not_accepted",
                listener=self._listener.name,
                reason=error.strerror or str(error),
                way_out="the sidecar retries ten times a second. If file descriptors are short, raise the "
                "limit of open files (LimitNOFILE of systemd, ulimit -n)",
            )
        self._is_failing = True
        self._loop.remove_reader(self._listening)
        self._pause = self._loop.call_later(_PAUSE_S, self._resume_accepting)

    def _resume_accepting(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listening, self._accept)
