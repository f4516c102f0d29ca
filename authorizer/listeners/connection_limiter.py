"""ConnectionLimiter: limits the connections of a process, in total and for each address."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Hashable
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import structlog

from authorizer.configuration.keys.names import MAX_CONNECTIONS

if TYPE_CHECKING:
    from authorizer.configuration.load import Config
    from authorizer.listeners.listener import Listener


class FairShare:
    """Limits a shared resource so that no single holder can take all of it.

    A holder gets one more place while it has fewer places than are free. So one holder gets at most half of
    the places; n holders that take all they can get 1 / (n + 1) each, and as many places remain free.

    Attributes:
        taken: places that all holders have.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._counts: dict[Hashable, int] = {}

    def take(self, holder: Hashable, places: int) -> bool:
        """Take one of ``places`` for a holder, until ``release``; False: the holder gets none now."""
        count = self._counts.get(holder, 0)
        if count >= places - self.taken:
            return False
        self._counts[holder] = count + 1
        self.taken += 1
        return True

    def release(self, holder: Hashable) -> None:
        self.taken -= 1
        self._counts[holder] -= 1
        if not self._counts[holder]:
            del self._counts[holder]


log = structlog.get_logger(__name__)

#: Connections beyond the limits for health requests, shared by addresses; others are closed immediately.
EXTRA_CONNECTIONS: Final = 64
#: Files in addition to clients' connections: of the log, the store, the Kafka client, other workers, the
#: console and the interpreter; and those of each further cluster of a fleet.
_RESERVED: Final = 512
_RESERVED_PER_CLUSTER: Final = 64


def allow_connections(
    wanted: int, extra: int, clusters: int = 1, servers: int = 1, *, warns: bool = True
) -> int:
    """Raise this process's limit of open files, as far as permitted.

    Each server is to admit ``wanted`` connections, and ``extra`` ones for health requests. Returned is how
    many each can admit, with a reserve for other files: ``wanted``, or fewer; at least one. ``servers``:
    those of the process that accept connections: of HTTP, and of Kafka's protocol.
    """
    reserved = _RESERVED + _RESERVED_PER_CLUSTER * (clusters - 1) + servers * extra
    needed = servers * wanted + reserved
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    if limit == needed:
        return wanted
    # If the reserve alone exceeds the limit, connections get half of the limit.
    admitted = max((limit - reserved) // servers, limit // 2 // servers - extra, 1)
    if not warns:
        return admitted
    log.warning(
        "few_open_files",
        limit=limit,
        needed=needed,
        connections=admitted,
        way_out=f"raise the limit of open files to {needed} (LimitNOFILE of systemd, ulimit -n), or set "
        f"{MAX_CONNECTIONS} to {admitted}: more connections are not admitted",
    )
    return admitted


class ConnectionLimit(StrEnum):
    """The limit that caused a rejection, as a label of the metrics."""

    CONNECTIONS = "connections"
    CONNECTIONS_PER_IP = "connections_per_ip"
    HANDSHAKE_TIMEOUT = "handshake_timeout"


class Admission:
    """One connection, counted from its acceptance until ``release``.

    Attributes:
        is_extra: it is beyond the limits, and may send health requests only.
        is_connected: its protocol releases it; before that, the acceptor does.
    """

    __slots__ = ("_address", "_is_open", "_limiter", "_listener", "is_connected", "is_extra")

    def __init__(
        self, limiter: ConnectionLimiter, listener: Listener, address: str | None, *, is_extra: bool
    ) -> None:
        self.is_extra = is_extra
        self.is_connected = False
        self._limiter = limiter
        self._listener = listener
        self._address = address
        self._is_open = True

    def release(self) -> None:
        """Stop counting a closed connection. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._limiter.release(self._listener, self._address, is_extra=self.is_extra)


class ConnectionLimiter:
    """Counts and limits the connections of all listeners of a process, on its event loop.

    Attributes:
        refused: number of rejections by limit.
        by_listener: open connections by listener name, including those in their TLS handshake.
    """

    def __init__(self, config: Config, *, warns_of_few_files: bool = True) -> None:
        self._warns_of_few_files = warns_of_few_files
        self.refused = Counter(dict.fromkeys(ConnectionLimit, 0))
        self.by_listener: dict[str, int] = {}
        self._config = config
        self._connections = 0
        self._by_address: dict[str, int] = {}
        self._extra = FairShare()
        # Connections within the limit of open files, computed for a number of clusters.
        self._files_max: int | None = None
        self._clusters = 0

    def apply(self, config: Config) -> None:
        """Set new limits; existing connections stay open."""
        self._config = config
        if self._clusters:
            self.reserve_files(self._clusters)

    def reserve_files(self, clusters: int = 1) -> None:
        """Limit connections by the open files that this process may have, minus a reserve.

        ``clusters``: number of clusters; each needs some files.
        """
        self._clusters = clusters
        self._files_max = allow_connections(
            self._config.sidecar_max_connections,
            EXTRA_CONNECTIONS,
            clusters=clusters,
            servers=2 if self._config.process_admin_listeners else 1,
            warns=self._warns_of_few_files,
        )

    def admit(self, listener: Listener, address: str | None) -> Admission | None:
        """Count an accepted connection; None: it is beyond the limits and must be closed.

        ``address``: the IP address of the peer, if it has one.
        """
        limit = None if listener.is_local else self._exceeded_limit(address)
        if limit is not None:
            self.refused[limit] += 1
            if not self._extra.take(address, EXTRA_CONNECTIONS):
                return None
        elif not listener.is_local:
            self._connections += 1
            if address is not None:
                self._by_address[address] = self._by_address.get(address, 0) + 1
        self.by_listener[listener.name] = self.by_listener.get(listener.name, 0) + 1
        return Admission(self, listener, address, is_extra=limit is not None)

    def release(self, listener: Listener, address: str | None, *, is_extra: bool) -> None:
        """Stop counting a connection (``Admission.release``)."""
        self.by_listener[listener.name] -= 1
        if is_extra:
            self._extra.release(address)
        elif not listener.is_local:
            self._connections -= 1
            if address is not None:
                self._by_address[address] -= 1
                if not self._by_address[address]:
                    del self._by_address[address]

    def count_handshake_timeout(self) -> None:
        """Count a client that did not complete its TLS handshake in time."""
        self.refused[ConnectionLimit.HANDSHAKE_TIMEOUT] += 1

    def _exceeded_limit(self, address: str | None) -> ConnectionLimit | None:
        """Return the limit that one more connection of an address would exceed."""
        most, most_per_address = (
            self._config.sidecar_max_connections,
            self._config.sidecar_max_connections_per_ip,
        )
        if self._files_max is not None and self._files_max < most:
            # The share of an address stays the same.
            most, most_per_address = self._files_max, max(most_per_address * self._files_max // most, 1)
        if address is not None and self._by_address.get(address, 0) >= most_per_address:
            return ConnectionLimit.CONNECTIONS_PER_IP
        return ConnectionLimit.CONNECTIONS if self._connections >= most else None
