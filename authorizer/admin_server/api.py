"""Api: a request that the server answers: its key, its versions and its handler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from kio.schema.errors import ErrorCode

    from authorizer.admin_server.request import AdminRequest, Session
    from authorizer.admin_server.values_encoder import Values


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """A response after its header, in parts that are encoded when the client has read those before.

    Attributes:
        memory: what the parts that are not encoded yet hold, in bytes.
        parts: encoded by a thread, one at a time.
    """

    size: int
    memory: int
    parts: Iterator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One request of Kafka's protocol.

    Attributes:
        answer: returns the values of the response, or the response in parts.
        error: values of the response that has an error for everything that was requested.
        is_change: it changes something, so its answer is sent also when many others wait to be read.
        is_of_controllers: only controllers answer it, so only their listeners do.
        cost: how many requests it counts as for the quota of its principal.
    """

    key: int
    schema: str
    versions: range
    answer: Callable[[AdminRequest], Awaitable[Values | StreamedAnswer]]
    error: Callable[[Any, ErrorCode, str | None], Values]
    is_change: bool = False
    is_of_controllers: bool = False
    cost: Callable[[Any], int] = lambda _body: 1

    def is_served_to(self, session: Session) -> bool:
        """Whether the listener of a connection has this request."""
        return session.is_of_controllers or not self.is_of_controllers
