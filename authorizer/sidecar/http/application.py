"""Application: what the protocol and the tracer need of the applications that answer requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from authorizer.listeners.listener import Listener
    from authorizer.sidecar.http.request_metrics import RequestMetrics, Requests
    from authorizer.sidecar.http.request_origin import Origin
    from records.principal import KafkaPrincipal


class CallerCache(Protocol):
    """Remembers the callers of verified tokens (``Authenticator``)."""

    def cached_caller(
        self, authorization: bytes | None, connection: KafkaPrincipal, listener: Listener
    ) -> KafkaPrincipal | None:
        """Return the caller if that needs no verification, else None."""
        ...


@dataclass(frozen=True, slots=True)
class InlineEndpoint:
    """An endpoint that the protocol answers without ASGI.

    Attributes:
        answer: returns the JSON of a 200 for the body of a POST; None if the request must wait and needs
            ASGI. ``app`` makes a response of what it raises.
        path: of the endpoint in ``app``.
    """

    app: Application
    answer: Callable[[str, bytes, Origin], bytes | None]
    path: str
    counted: Requests


class Application(ABC):
    """ASGI 3 application of a sidecar; ``inline_endpoints``: by the path as a request line has it."""

    authenticator: CallerCache
    requests: RequestMetrics
    inline_endpoints: Mapping[bytes, InlineEndpoint]

    @abstractmethod
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

    @abstractmethod
    def endpoint(self, path: str) -> str:
        """Return the path of the matching route, as a label of metrics and traces."""

    @abstractmethod
    def error_response_for(self, error: Exception, path: str, method: str) -> Response:
        """Return the response for an exception: an error, never a decision."""
