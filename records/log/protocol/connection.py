"""Connection to a controller or broker: TCP or TLS, SASL, frames; one request at a time."""

from __future__ import annotations

import os
import secrets
import socket
import ssl
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from records.errors import LogError, LogUnreachableError
from records.log.protocol import requests, responses, sasl
from records.log.protocol.oauth import TokenError
from records.log.protocol.response_values import NO_ERROR
from records.log.protocol.settings import MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from records.log.protocol.cluster_errors import ClusterErrors
    from records.log.protocol.responses import ResponseDecoder
    from records.log.protocol.settings import ProtocolSettings
    from records.log.url import Address

_LENGTH_BYTES: Final = 4
#: A leader exceeds the requested size by one batch at most; a longer frame is malformed.
FRAME_BYTES_MAX: Final = 4 * requests.FETCH_BYTES_MAX
_CHUNK_BYTES: Final = 1 << 20
_OTHER_MECHANISM: Final = "unsupported_sasl_mechanism"

_T = TypeVar("_T")


class Connection:
    """Open from the start; ``abort`` may be called from any thread, the rest from one.

    ``api``: versions of each API, and the levels of metadata.version that its binary supports.
    """

    def __init__(
        self, address: Address, settings: ProtocolSettings, errors: ClusterErrors, *, is_probe: bool = False
    ) -> None:
        """Connect, authenticate, and request the API versions.

        ``is_probe``: it explains why another connection was closed.

        Raises:
            LogUnreachableError: nothing answers there, or not in Kafka's protocol.
            LogRefusedError: TLS or authentication failed.
        """
        self.address = address
        self._settings = settings
        self._errors = errors
        self._is_probe = is_probe
        # Whether a request other than those before a login was answered.
        self._is_accepted = False
        self._is_aborted = False
        self._correlation_id = 0
        self._socket = self._connected()
        try:
            if settings.mechanism is not None:
                self._authenticate(settings.mechanism)
            self.api = self._api_versions()
        except LogUnreachableError as error:
            self.abort()
            # Not after a timeout: the probe would time out, too.
            if not (settings.has_tls or isinstance(error.__cause__, TimeoutError)):
                mismatch = errors.tls_mismatch(address, has_tls=False)
                if mismatch is not None:
                    raise mismatch from error
            raise
        except BaseException:
            self.abort()
            raise

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """First and last version of each API, by API key."""
        return self.api.ranges

    def send(
        self,
        request: Any,
        decoder: ResponseDecoder[_T],
        *,
        wait_s: float = 0,
        bytes_max: int = FRAME_BYTES_MAX,
    ) -> _T:
        """Send a request, for whose response the server may wait ``wait_s``.

        A response of more than ``bytes_max`` is malformed.

        Raises:
            LogUnreachableError: no response, or a malformed one.
            LogRefusedError: the server ended TLS.
        """
        doing = decoder.name
        deadline_s = time.monotonic() + wait_s + self._settings.timeout_s
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        sent = requests.request_bytes(request, self._correlation_id)
        try:
            self._socket.settimeout(self._settings.timeout_s)
            self._socket.sendall(len(sent).to_bytes(_LENGTH_BYTES, "big") + sent)
            decoded = responses.decode_response(
                self._frame(deadline_s, bytes_max), decoder, self._correlation_id
            )
        except TimeoutError as error:
            why = f"no answer to {doing} within {wait_s + self._settings.timeout_s:g} s"
            raise self._errors.unreachable(self.address, why) from error
        except (EOFError, ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            if self._requires_login():
                raise self._errors.login_missing(self.address) from error
            raise self._errors.connection_closed(self.address, f"{doing} was pending") from error
        except ssl.SSLError as error:  # TLS 1.3 reports a rejected client certificate only now
            raise self._errors.tls_failed(self.address, error.reason or str(error)) from error
        except OSError as error:
            raise self._errors.unreachable(self.address, f"{doing}: {error.strerror or error}") from error
        except responses.MalformedResponseError as error:
            raise self._errors.malformed_response(self.address, str(error)) from error
        self._is_accepted |= decoder is not responses.API_VERSIONS
        return decoded

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.abort()

    def abort(self) -> None:
        """Close it, and end a pending request. Idempotent."""
        self._is_aborted = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self._socket.close()

    def _api_versions(self) -> responses.ApiVersions:
        error, api = self.send(requests.api_versions(), responses.API_VERSIONS)
        if error != NO_ERROR:
            raise self._errors.malformed_response(self.address, f"ApiVersions: {error.upper()}")
        return api

    def _connected(self) -> socket.socket:
        address, settings = self.address, self._settings
        try:
            unencrypted = socket.create_connection((address.host, address.port), settings.timeout_s)
        except (OSError, ValueError) as error:  # a host of a response may be no valid name (UnicodeError)
            why = getattr(error, "strerror", None) or str(error)
            raise self._errors.unreachable(address, f"cannot connect: {why}") from error
        unencrypted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not settings.has_tls:
            return unencrypted
        try:
            return _tls(settings).wrap_socket(unencrypted, server_hostname=address.host)
        except TimeoutError as error:
            unencrypted.close()
            raise self._errors.unreachable(address, "no answer to the TLS handshake") from error
        except (ssl.SSLError, OSError) as error:
            unencrypted.close()
            mismatch = self._errors.tls_mismatch(address, has_tls=True)
            why = getattr(error, "verify_message", None) or getattr(error, "reason", None) or str(error)
            raise (mismatch or self._errors.tls_failed(address, why)) from error

    def _requires_login(self) -> bool:
        """Whether the listener closed the connection because it requires SASL: others refuse a handshake."""
        if self._is_probe or self._is_accepted or self._is_aborted or self._settings.mechanism is not None:
            return False
        try:
            with Connection(self.address, self._settings, self._errors, is_probe=True) as probe:
                answer = probe.send(requests.sasl_handshake(MECHANISMS[0]), responses.SASL_HANDSHAKE)
        except LogError:
            return False
        return answer.error in (NO_ERROR, _OTHER_MECHANISM)

    def _authenticate(self, mechanism: str) -> None:
        handshake = self.send(requests.sasl_handshake(mechanism), responses.SASL_HANDSHAKE)
        if handshake.error != NO_ERROR:
            why = f"{mechanism} is not supported there, but {handshake.message}"
            raise self._errors.no_such_mechanism(self.address, why)
        try:
            exchange = self._exchange(mechanism)
            message = next(exchange)
            while True:
                answer = self.send(requests.sasl_authenticate(message), responses.SASL_AUTHENTICATE)
                if answer.error != NO_ERROR:
                    raise self._errors.not_authenticated(self.address, answer.message)
                message = exchange.send(answer.token)
        except StopIteration:
            return
        except sasl.SaslError as error:
            raise self._errors.not_authenticated(self.address, str(error)) from error

    def _exchange(self, mechanism: str) -> sasl.Exchange:
        settings = self._settings
        if settings.tokens is None:
            nonce = secrets.token_hex(16)
            return sasl.exchange(mechanism, settings.username or "", settings.password or "", nonce)
        try:
            return sasl.oauthbearer(settings.tokens())
        except TokenError as error:
            if error.is_refusal:
                raise self._errors.not_authenticated(self.address, str(error)) from error
            raise self._errors.unreachable(self.address, f"{mechanism}: {error}") from error

    def _frame(self, deadline_s: float, bytes_max: int) -> bytes:
        size_bytes = int.from_bytes(self._received(_LENGTH_BYTES, deadline_s), "big", signed=True)
        if not 0 < size_bytes <= bytes_max:
            raise responses.MalformedResponseError(f"a frame of {size_bytes} bytes")
        return self._received(size_bytes, deadline_s)

    def _received(self, size_bytes: int, deadline_s: float) -> bytes:
        """``size_bytes`` bytes; memory grows with what has arrived, not with the announced size."""
        data = bytearray()
        while len(data) < size_bytes:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._socket.settimeout(left_s)
            piece = self._socket.recv(min(size_bytes - len(data), _CHUNK_BYTES))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)


def _tls(settings: ProtocolSettings) -> ssl.SSLContext:
    """Raises OSError, of which ssl.SSLError is one."""
    context = ssl.create_default_context(cafile=settings.ca_location, cadata=settings.ca_pem)
    context.check_hostname = settings.checks_host_name and settings.checks_certificate
    if not settings.checks_certificate:
        context.verify_mode = ssl.CERT_NONE
    if settings.certificate_location is not None:
        context.load_cert_chain(
            settings.certificate_location, settings.key_location, password=settings.key_password
        )
    elif settings.certificate_pem is not None:
        _load_pem_texts(context, settings)
    return context


def _load_pem_texts(context: ssl.SSLContext, settings: ProtocolSettings) -> None:
    """Load the certificate and key from memory: ssl takes files only, and the key must not be on a disk."""
    with os.fdopen(os.memfd_create("aclog-client-key"), "wb") as file:
        file.write(f"{settings.key_pem or ''}{settings.certificate_pem}".encode("ascii"))
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=settings.key_password)
