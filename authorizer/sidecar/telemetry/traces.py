"""A span for each request, in the trace that its ``traceparent`` names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import propagate
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer

from authorizer.sidecar.http.limits import is_health
from authorizer.sidecar.http.request_metrics import OTHER, method_label

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from authorizer.listeners.connection_peer import Peer
    from authorizer.sidecar.http.application import Application


class TracedApp:
    """The sidecar's application, traced. Names of attributes are OpenTelemetry's for HTTP, or ``aclog.``."""

    def __init__(self, app: Application, tracer: Tracer) -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_health(scope["path"]):  # every few seconds, and no trace is about it
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        endpoint, method = self._app.endpoint(scope["path"]), method_label(scope["method"])
        peer: Peer = scope["state"]["peer"]
        attributes = {
            "http.request.method": method,
            "url.path": scope["path"],
            "url.scheme": scope["scheme"],
            "aclog.listener": peer.listener.name,
        }
        if endpoint != OTHER:
            attributes["http.route"] = endpoint
        if scope["client"] is not None:
            attributes["client.address"] = scope["client"][0]
        with self._tracer.start_as_current_span(
            method if endpoint == OTHER else f"{method} {endpoint}",
            propagate.extract(headers),
            SpanKind.SERVER,
            attributes,
        ) as span:

            async def send_with_status(message: Message) -> None:
                if message["type"] == "http.response.start":
                    status = message["status"]
                    span.set_attribute("http.response.status_code", status)
                    if status >= 500:
                        span.set_status(Status(StatusCode.ERROR))
                        span.set_attribute("error.type", str(status))
                await send(message)

            await self._app(scope, receive, send_with_status)
