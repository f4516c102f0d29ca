"""AdminConnection: reads requests of one connection and answers them in order, one at a time.

A frame is a length of four bytes, then the request. Memory grows with the bytes that arrived, not with the
length. A request that cannot be read closes the connection, as on a broker (SocketServer), with a log line;
so does one beyond the limits, because Kafka's protocol has no answer for it that all clients know.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Final

import structlog
from kio.schema.errors import ErrorCode

from authorizer.admin_server.api import PART_BYTES, answer, encode
from authorizer.admin_server.limits import AdminLimit, LimitExceededError
from authorizer.admin_server.request import (
    Session,
    UnsupportedRequestError,
    read_client_id,
    read_key,
    read_request,
)
from authorizer.admin_server.sasl.session import SaslStateError
from authorizer.api.api_keys import api_key_name
from authorizer.authentication.rate_limits import client_network
from records.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.admin_server.api import Api, StreamedAnswer
    from authorizer.admin_server.limits import AdminLimits, RequestQuota, RequestReader, RequestSlots
    from authorizer.admin_server.metrics import AdminRequestMetrics
    from authorizer.listeners.log_throttle import LogThrottle

log = structlog.get_logger(__name__)

_LENGTH_BYTES: Final = 4
_API_VERSIONS: Final = 18
#: Of a client that has not authenticated (sasl.server.max.receive.size).
_UNAUTHENTICATED_BYTES_MAX: Final = 512 * 1024
#: SaslHandshake, ApiVersions and SaslAuthenticate: clients need them before they can see a throttle time.
#: Envelope: its sender is a broker, which has quotas for the clients whose requests it forwards.
_WITHOUT_QUOTA: Final = (17, 18, 36, 58)
#: How often a muted connection is checked for its end.
_MUTED_CHECK_S: Final = 0.5


class _ClosingError(Exception):
    """The connection must be closed; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """What the connections of a node share."""

    limits: AdminLimits
    in_flight: RequestSlots
    quota: RequestQuota
    metrics: AdminRequestMetrics
    closed_lines: LogThrottle

    def log_closed(self, kind: str, address: str, **fields: str) -> None:
        """Log that a connection was closed; each kind of error at most every ten seconds for a client."""
        key = kind, client_network(address)
        if (since_last_line := self.closed_lines.count(key, time.monotonic())) is not None:
            log.info("admin_connection_closed", address=address, **fields, since_last_line=since_last_line)


class AdminConnection:
    """One connection, until its end."""

    def __init__(
        self,
        reader: RequestReader,
        writer: asyncio.StreamWriter,
        session: Session,
        apis: Mapping[int, Api],
        controls: Controls,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._session = session
        self._apis = apis
        self._controls = controls
        self._limits = controls.limits
        self._is_answering = False
        self._is_stopping = False
        self._answer_bytes = 0

    async def serve(self) -> None:
        """Answer requests until the client closes the connection, or it must be closed."""
        try:
            while await self._is_unmuted() and (frame := await self._frame()) is not None:
                self._is_answering = True
                await self._serve_request(frame)
                self._require_no_failed_login()
                self._is_answering = False
                # Nothing above waits while pipelined requests are in the buffer: others take their turn here.
                await asyncio.sleep(0)
        except LimitExceededError as error:
            self._limits.refused[error.limit] += 1
            self._report(error)
            # What the client does not read must not stay in memory.
            self._writer.transport.abort()
            # Nor what was received: the reader keeps the error, whose traceback keeps the reader.
            error.__traceback__ = None
        except (_ClosingError, DecodeError, SaslStateError, UnsupportedRequestError) as error:
            self._controls.metrics.count_closed()
            self._report(error)
        except ConnectionError:
            pass
        except Exception:
            # The answer to a defect could not be encoded either: the client gets none.
            log.exception("admin_connection_failed", address=self._session.address)
        except asyncio.CancelledError:
            # Without TLS's shutdown, which the end of the event loop would interrupt.
            self._writer.transport.abort()
            raise
        finally:
            self._reader.close()
            await self._close()

    def stop(self) -> None:
        """Close the connection: immediately, or after the answer to a complete request."""
        self._is_stopping = True
        if not self._is_answering:
            self._reader.stop()
            if not self._writer.transport.get_write_buffer_size():
                # Without TLS's shutdown, for which the client may let the server wait.
                self._writer.transport.abort()

    @property
    def _is_login(self) -> bool:
        """Whether the client has not authenticated yet."""
        return self._session.sasl is not None and self._session.sasl.principal is None

    async def _is_unmuted(self) -> bool:
        """Wait while the principal is beyond its quota; whether a request may be read then."""
        while not (self._is_stopping or self._is_login) and not self._reader.at_eof():
            throttle_s = self._controls.quota.throttle_s(self._session.principal)
            if not throttle_s:
                break
            await asyncio.sleep(min(throttle_s, _MUTED_CHECK_S))
        return not self._is_stopping

    async def _close(self) -> None:
        self._writer.close()
        try:
            async with asyncio.timeout(self._limits.unread_s):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()

    def _report(self, error: Exception) -> None:
        kind = error.limit if isinstance(error, LimitExceededError) else type(error).__name__
        self._controls.log_closed(
            kind,
            self._session.address,
            listener=self._session.listener.name,
            principal=str(self._session.principal),
            client_id=self._session.client_id,
            software=self._session.software,
            reason=str(error),
        )

    async def _frame(self) -> bytes | None:
        """The next request; None if the client closed the connection, or was idle for too long."""
        try:
            async with asyncio.timeout(self._limits.idle_s):
                first = await self._reader.read(1)
        except TimeoutError:
            return None
        if not first:
            return None
        try:
            async with asyncio.timeout(self._limits.request_s):
                size = int.from_bytes(
                    first + await self._reader.readexactly(_LENGTH_BYTES - 1), "big", signed=True
                )
                size_max = self._limits.request_bytes
                if self._is_login:
                    size_max = min(size_max, _UNAUTHENTICATED_BYTES_MAX)
                if not 0 < size <= size_max:
                    raise LimitExceededError(
                        AdminLimit.REQUEST_BYTES, f"a request claims {size} bytes, {size_max} are allowed"
                    )
                return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError:
            return None
        except TimeoutError:
            raise LimitExceededError(
                AdminLimit.REQUEST_TIMEOUT, "a request did not arrive completely in time"
            ) from None

    async def _serve_request(self, frame: bytes) -> None:
        """Answer one request. Its bytes are held until the answer is known."""
        # Logins have limits of their own; failed ones wait, and must not take the place of others.
        async with nullcontext() if self._is_login else self._controls.in_flight.slots:
            response = await self._response(frame)
        self._reader.release(_LENGTH_BYTES + len(frame))
        del frame
        try:
            await self._send(response)
        finally:
            self._limits.release_answer(self._answer_bytes)
            self._answer_bytes = 0

    async def _response(self, frame: bytes) -> bytes | StreamedAnswer:
        sasl = self._session.sasl
        if sasl is not None and sasl.expects_raw_token:
            return await sasl.raw_token(frame)
        key, version, correlation_id = read_key(frame)
        api = self._apis.get(key)
        if api is not None and not api.is_served_to(self._session):
            api = None
        if sasl is not None:
            try:
                sasl.check_request(key, api_key_name(key))
            except SaslStateError as error:
                if api is None or version not in api.versions or not sasl.has_failed:
                    raise
                body = read_request(frame, api.schema, version, self._session).body
                values = api.error(body, ErrorCode.illegal_sasl_state, str(error))
                return encode(api, version, correlation_id, values)
        if api is None or version not in api.versions:
            if api is not None and key == _API_VERSIONS:
                # As brokers do: version 0, with the range of versions to try again.
                values = api.error(None, ErrorCode.unsupported_version, None)
                return encode(api, 0, correlation_id, values)
            self._session.client_id = read_client_id(frame)
            raise UnsupportedRequestError(f"{api_key_name(key)} version {version} is not served")
        begun_s = perf_counter()
        request = read_request(frame, api.schema, version, self._session)
        if not self._is_login and key not in _WITHOUT_QUOTA:
            request.throttle_ms = self._controls.quota.take(self._session.principal, api.cost(request.body))
        response = await answer(api, request)
        self._controls.metrics.add(key, perf_counter() - begun_s - request.remote_s, request.remote_s)
        memory = len(response) if isinstance(response, bytes) else response.memory
        self._answer_bytes = self._limits.hold_answer(memory, can_refuse=not api.is_change)
        return response

    def _require_no_failed_login(self) -> None:
        sasl = self._session.sasl
        if sasl is None:
            return
        if sasl.has_failed:
            raise _ClosingError("the client failed to authenticate")
        if sasl.principal is not None:
            self._session.principal = sasl.principal

    async def _send(self, response: bytes | StreamedAnswer) -> None:
        if isinstance(response, bytes):
            self._writer.write(len(response).to_bytes(_LENGTH_BYTES, "big"))
            await self._write(response)
            return
        self._writer.write(response.size.to_bytes(_LENGTH_BYTES, "big"))
        while (part := await asyncio.to_thread(next, response.parts, None)) is not None:
            await self._write(part)

    async def _write(self, part: bytes) -> None:
        view = memoryview(part)
        for at in range(0, len(view), PART_BYTES):
            self._writer.write(view[at : at + PART_BYTES])
            try:
                async with asyncio.timeout(self._limits.unread_s):
                    await self._writer.drain()
            except TimeoutError:
                raise LimitExceededError(
                    AdminLimit.UNREAD_TIMEOUT, "an answer was not read in time"
                ) from None
