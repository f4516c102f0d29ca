"""Keys of the sidecar's limits; each limit holds for one process."""

from __future__ import annotations

from typing import Final

from authorizer.configuration.keys.key import ConfigKey, KeyGroup, integer_key
from authorizer.configuration.keys.names import (
    BYTES_IN_FLIGHT,
    HEADERS,
    MAX_CONNECTIONS,
    QUESTIONS,
    REQUEST_BYTES,
    REQUESTS_IN_FLIGHT,
)
from authorizer.configuration.keys.values import MEGABYTE

_HOUR_MS: Final = 60 * 60 * 1000


def _count(name: str, default: int, doc: str) -> ConfigKey[int]:
    return integer_key(name, default, doc, minimum=1, maximum=2**31 - 1, is_dynamic=True)


def _time(name: str, default_ms: int, doc: str, *, is_dynamic: bool = True) -> ConfigKey[int]:
    return integer_key(
        name, default_ms, doc, minimum=1, maximum=_HOUR_MS, unit="milliseconds", is_dynamic=is_dynamic
    )


class LimitKeys(KeyGroup):
    """Keys of the sidecar's limits."""

    sidecar_max_connections = _count(
        MAX_CONNECTIONS,
        4096,
        "Maximum number of open connections on all listeners, as Kafka's max.connections. On further "
        "connections only health and metrics are answered; other requests get 503 `TOO_MANY_CONNECTIONS`, "
        "and the connection is closed. A connection counts from its TLS handshake on; connections to the "
        "socket in the log's directory do not count. `aclog serve` raises its limit of open files "
        "accordingly. Where the system does not allow that, it admits fewer connections: it reserves 512 "
        "files for its log, its store and its Kafka client.",
    )
    sidecar_max_connections_per_ip = _count(
        "aclog.sidecar.max.connections.per.ip",
        2048,
        "Maximum number of open connections from one IP address, as Kafka's max.connections.per.ip. Behind a "
        "proxy all connections have the proxy's address.",
    )
    sidecar_max_requests_in_flight = _count(
        REQUESTS_IN_FLIGHT,
        1000,
        "Maximum number of concurrent requests of a listener, including requests that wait for an offset and "
        "streams of changes. Further requests get 503 `OVERLOADED`. Half of them may wait for an offset. "
        "Ten times as many may be pipelined behind other requests of their connection; a connection that "
        "exceeds that is closed. Requests of Kafka's protocol are counted by themselves: further ones wait, "
        "and their connections are not read.",
    )
    sidecar_max_request_bytes = _count(
        REQUEST_BYTES,
        4 * MEGABYTE,
        "Maximum size of a request's body, in bytes. A larger one gets 413 before it is read completely. A "
        "larger request of Kafka's protocol closes its connection.",
    )
    sidecar_max_bytes_in_flight = _count(
        BYTES_IN_FLIGHT,
        32 * MEGABYTE,
        "Maximum size of all request bodies in memory, in bytes. A body that exceeds it gets 503 "
        "`OVERLOADED`. The same limit holds for all unsent answers of more than 64 KiB each: an answer that "
        "exceeds it is replaced by 503, except one that reports a change. A listing of ACLs counts with the "
        "part that is being sent. Requests and unsent answers of Kafka's protocol are counted by themselves: "
        "beyond the limit the connection is closed, except one of a small request or of a change.",
    )
    sidecar_max_questions = _count(
        QUESTIONS,
        10_000,
        "Maximum number of evaluations or names in one request. More get 413. A body of more than 64 KiB "
        "with more than twenty commas for each of them gets 413 before it is decoded.",
    )
    sidecar_max_head_bytes = _count(
        "aclog.sidecar.max.head.bytes",
        32 * 1024,
        "Maximum size of a request's first line and headers, in bytes. A larger head gets 431, and the "
        "connection is closed. The same holds for that many bytes of trailers, blank lines or chunk framing "
        "beyond 8 for each byte of the body.",
    )
    sidecar_max_headers = _count(
        HEADERS,
        100,
        "Maximum number of a request's headers. More get 431, and the connection is closed.",
    )
    sidecar_connections_max_idle_ms = _time(
        "aclog.sidecar.connections.max.idle.ms",
        5000,
        "Idle time after which a connection is closed, as Kafka's connections.max.idle.ms. A new value "
        "applies to new connections only.",
    )
    sidecar_request_timeout_ms = _time(
        "aclog.sidecar.request.timeout.ms",
        30_000,
        "Maximum time from the first byte to the last of a request. A slower one gets 408, and the "
        "connection is closed.",
    )
    sidecar_unread_timeout_ms = _time(
        "aclog.sidecar.unread.timeout.ms",
        30_000,
        "Once 64 KiB of answers wait for a client that does not read them, its requests are not read either. "
        "If the client does not read that much within this time, its connection is cut.",
    )
    sidecar_overload_late_ms = _time(
        "aclog.sidecar.overload.late.ms",
        1000,
        "Lateness of the event loop above which requests get 503 `OVERLOADED`, if it occurs twice in a row. "
        "Health and metrics are answered.",
    )
    sidecar_drain_timeout_ms = _time(
        "aclog.sidecar.drain.timeout.ms",
        5000,
        "Time for requests in flight to end at shutdown, rounded up to seconds. The sidecar accepts no new "
        "requests meanwhile, and cuts the remaining connections afterwards.",
        is_dynamic=False,
    )
