"""AdminLimits: limits of connections and requests of Kafka's protocol, from the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from authorizer.configuration.load import Config


class AdminLimits:
    """The present limits.

    Attributes:
        idle_s: a connection without a request for this long is closed.
        request_s: time from the first byte of a request to its last.
        unread_s: time in which a client must read its answer.
        request_bytes: maximum size of a request.
    """

    def __init__(self, config: Config) -> None:
        self.apply(config)

    def apply(self, config: Config) -> None:
        """Set new limits."""
        self.idle_s = config.admin_connections_max_idle_ms / 1000
        self.request_s = config.sidecar_request_timeout_ms / 1000
        self.unread_s = config.sidecar_unread_timeout_ms / 1000
        self.request_bytes = config.sidecar_max_request_bytes
