"""Keys of the sidecar's limits: what clients may take of it, each for one process."""

from __future__ import annotations

from typing import Final

from authorizer.configuration.keys.key import ConfigKey
from authorizer.configuration.keys.names import (
    BYTES_IN_FLIGHT,
    DRAIN_MS,
    HEAD_BYTES,
    HEADERS,
    IDLE_MS,
    LATE_MS,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    QUESTIONS,
    REQUEST_BYTES,
    REQUEST_MS,
    REQUESTS_IN_FLIGHT,
    UNREAD_MS,
)
from authorizer.configuration.keys.values import MEGABYTE, integer

_HOUR_MS: Final = 60 * 60 * 1000


def _count(name: str, default: int, doc: str) -> ConfigKey:
    return ConfigKey(
        name=name,
        type="int",
        default=str(default),
        allowed="a whole number, 1 or more",
        doc=doc,
        parse=integer(1, 2**31 - 1),
        dynamic=True,
    )


def _time(name: str, default_ms: int, doc: str, *, dynamic: bool = True) -> ConfigKey:
    return ConfigKey(
        name=name,
        type="long",
        default=str(default_ms),
        allowed=f"a whole number of milliseconds, 1 to {_HOUR_MS}",
        doc=doc,
        parse=integer(1, _HOUR_MS),
        dynamic=dynamic,
    )


LIMIT_KEYS: Final = (
    _count(
        MAX_CONNECTIONS,
        4096,
        "Connections that are open at a time, on all listeners; Kafka's max.connections. On one more, "
        "health and metrics are answered, and anything else is 503 `TOO_MANY_CONNECTIONS` and its end. The "
        "socket in the log's directory is not counted; a connection whose TLS handshake is not done is. "
        "`aclog serve` raises its limit of open files for them, as far as it may, and admits fewer where "
        "that is too low: it keeps 512 files for its log, its store and its Kafka client.",
    ),
    _count(
        MAX_CONNECTIONS_PER_IP,
        2048,
        "The same of one IP address, so that none has them all; Kafka's max.connections.per.ip. Behind a "
        "proxy all have the proxy's.",
    ),
    _count(
        REQUESTS_IN_FLIGHT,
        1000,
        "Requests of a listener that are being answered at a time, those that wait for an offset and the "
        "streams of changes among them. One more is 503 `OVERLOADED`. Half of them may wait for an offset. "
        "Ten times as many may wait on their connections for those before them; a connection with one "
        "more is closed.",
    ),
    _count(
        REQUEST_BYTES,
        4 * MEGABYTE,
        "Bytes of a request's body. A larger one is 413 before it is read to its end.",
    ),
    _count(
        BYTES_IN_FLIGHT,
        32 * MEGABYTE,
        "Bytes of all bodies that are held at a time. One that has no room is 503 `OVERLOADED`. As many "
        "again of answers that wait to be read, of more than 64 KiB each: one more is 503, too, but not what "
        "says that something was changed. Of a listing of ACLs that counts what it takes while it is sent.",
    ),
    _count(
        QUESTIONS,
        10_000,
        "Evaluations, or names, of one request. More are 413; so is a body of more than 64 KiB with more "
        "than twenty commas for each of them, before it is decoded.",
    ),
    _count(
        HEAD_BYTES,
        32 * 1024,
        "Bytes of a request's first line and headers. A larger one is 431, and the connection's end. So are "
        "as many bytes of trailers, blank lines or chunk framing, beyond 8 for each byte of the body.",
    ),
    _count(HEADERS, 100, "Headers of a request. More are 431, and the connection's end."),
    _time(
        IDLE_MS,
        5000,
        "A connection on which no request begins for so long is closed, as by Kafka's "
        "connections.max.idle.ms. Connections that are open already keep what they began with.",
    ),
    _time(
        REQUEST_MS,
        30_000,
        "A request that is not whole so long after its first byte is answered with 408, and its connection "
        "closed.",
    ),
    _time(
        UNREAD_MS,
        30_000,
        "A client that does not read its answers is not read from either once 64 KiB of them wait. If it "
        "does not read as much within this time its connection is cut.",
    ),
    _time(
        LATE_MS,
        1000,
        "Requests are refused with 503 `OVERLOADED` while the event loop comes later than this to what is "
        "due, twice in a row; health and metrics are answered.",
    ),
    _time(
        DRAIN_MS,
        5000,
        "How long requests under way have to end once the sidecar is to stop, in whole seconds. It accepts "
        "no new ones meanwhile, and cuts what is left afterwards.",
        dynamic=False,
    ),
)
