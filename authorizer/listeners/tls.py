"""TLS context of a listener, which reloads its certificate files.

Each new connection uses the newest context, which has its own keys for session tickets. So a client cannot
resume an old session after its authority was removed from the truststore.
"""

from __future__ import annotations

import os
import re
import ssl
from binascii import a2b_base64
from collections.abc import Iterator, Sequence
from typing import Any, Final, Self

import structlog
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from authorizer.api.errors import ConfigError
from authorizer.configuration.file_version import FileVersion
from authorizer.configuration.tls import CONVERT_KEYSTORE, CONVERT_TRUSTSTORE, PemSource, TlsSettings
from authorizer.listeners.connection_peer import certificate_expiry_s

log = structlog.get_logger(__name__)

_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_CERTIFICATE: Final = re.compile(r"-----BEGIN (?:X509 )?CERTIFICATE-----([^-]+)-----END")
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class _ServerConnection(ssl.SSLObject):
    """One connection; it counts a failed handshake."""

    listener: ListenerContext

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self.listener.count_failed_handshake(error)
            raise


class ListenerContext(ssl.SSLContext):
    """The context for the event loop; it delegates each new connection to the newest context.

    Attributes:
        is_failing: whether the current files are unusable.
        failed_handshakes: clients without a valid certificate, or without TLS.
        expires_s: first expiry in the current chain, in seconds since the epoch; None if unknown.
    """

    def __new__(cls, *_: object) -> Self:
        """The base class needs a protocol, which is not used."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, settings: TlsSettings, listener_name: str) -> None:
        """Load the files. Raises ConfigError."""
        self.listener_name = listener_name
        self.reloads = 0
        self.failed_reloads = 0
        self.is_failing = False
        self.failed_handshakes = 0
        self._settings = settings
        sources = (settings.identity, settings.authorities)
        self._files = [source.file for source in sources if source is not None and source.file is not None]
        self._loaded_versions = [*map(FileVersion.of_existing, self._files)]
        self._current, self.expires_s = _context(settings)

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        made = self._current.wrap_bio(*args, **kwargs)
        if isinstance(made, _ServerConnection):
            made.listener = self
        return made

    def count_failed_handshake(self, error: ssl.SSLError) -> None:
        """Count and log it, as a broker does; without data from the client."""
        self.failed_handshakes += 1
        log.info("tls_handshake_failed", listener=self.listener_name, reason=_reason(error))

    def reload(self) -> None:
        """Reload changed files; if they are unusable, keep the current context."""
        versions = [*map(FileVersion.of_existing, self._files)]
        has_changed, self._loaded_versions = versions != self._loaded_versions, versions
        if not has_changed and not self.is_failing:
            return
        try:
            self._current, self.expires_s = _context(self._settings)
        except (ConfigError, OSError) as error:
            self.is_failing = True
            if has_changed:
                self.failed_reloads += 1
                log.warning(
                    "certificates_not_reloaded",
                    listener=self.listener_name,
                    reason=str(error),
                    way_out="correct the file; it is reloaded. The previous certificates stay in use",
                )
        else:
            self.reloads += 1
            self.is_failing = False
            log.info(
                "certificates_reloaded", listener=self.listener_name, files=[str(f) for f in self._files]
            )


class TlsCollector(Collector):
    """Metrics of the listeners' certificates."""

    def __init__(self, contexts: Sequence[ListenerContext]) -> None:
        self._contexts = contexts

    def collect(self) -> Iterator[Metric]:
        reloads = CounterMetricFamily(
            "aclog_tls_reloads",
            "Changed certificate files that were taken up, and that could not be used.",
            labels=("listener", "result"),
        )
        failing = GaugeMetricFamily(
            "aclog_tls_reload_failed",
            "1 while a listener's certificate files cannot be used and those from before are in use.",
            labels=("listener",),
        )
        handshakes = CounterMetricFamily(
            "aclog_tls_handshake_failures",
            "Clients that got no connection: without a good certificate, or without TLS.",
            labels=("listener",),
        )
        expiry = GaugeMetricFamily(
            "aclog_tls_certificate_expiry_timestamp_seconds",
            "When the first certificate of the chain in use expires.",
            labels=("listener",),
        )
        for context in self._contexts:
            name = context.listener_name
            reloads.add_metric((name, "done"), context.reloads)
            reloads.add_metric((name, "failed"), context.failed_reloads)
            failing.add_metric((name,), context.is_failing)
            handshakes.add_metric((name,), context.failed_handshakes)
            if context.expires_s is not None:
                expiry.add_metric((name,), context.expires_s)
        yield from (reloads, failing, handshakes, expiry)


def _context(settings: TlsSettings) -> tuple[ssl.SSLContext, int | None]:
    """Return the context, and when its own chain expires. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = _ServerConnection
    context.minimum_version = _VERSIONS[settings.protocols[0]]
    context.maximum_version = _VERSIONS[settings.protocols[-1]]
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    # As in Java, every certificate of the truststore is trusted, also an intermediate authority.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols(["http/1.1"])
    chain = _load_identity(context, settings)
    if settings.authorities is not None:
        try:
            # Remarks of keytool and openssl in the file may have any encoding.
            context.load_verify_locations(cadata=_read(settings.authorities).decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                settings.authorities.key,
                settings.authorities.file or "",
                f"certificates in PEM ({error}). To make PEM of a JKS or PKCS12 store: {CONVERT_TRUSTSTORE}",
            ) from error
    return context, _expiry_s(chain)


def _expiry_s(chain: str) -> int | None:
    """The first expiry in a chain; None if one is invalid, which only clients check."""
    try:
        return min(certificate_expiry_s(a2b_base64(each)) for each in _CERTIFICATE.findall(chain))
    except ValueError:
        return None


def _load_identity(context: ssl.SSLContext, settings: TlsSettings) -> str:
    """Load the private key and its chain; return their text."""
    source = settings.identity
    identity = _read(source)

    def password() -> str:
        if settings.password is None:
            raise ConfigError(settings.password_key, "", "the private key is encrypted: set its password")
        return settings.password

    # OpenSSL reads only files. A file in memory keeps the key off the disk and is read only once.
    descriptor = os.memfd_create("aclog-identity")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(identity)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=password)
    except ssl.SSLError as error:
        wrong_password = "" if settings.password is None else f", or {settings.password_key} is another's"
        raise ConfigError(
            source.key,
            source.file or "",
            f"a private key and the certificate that belongs to it, in PEM ({error.reason or error}"
            f"{wrong_password}). To make PEM of a JKS or PKCS12 store: {CONVERT_KEYSTORE}",
        ) from error
    finally:
        os.close(descriptor)
    return identity.decode("ascii", "ignore")


def _reason(error: ssl.SSLError) -> str:
    """The reason for logs; for a certificate, the result of its verification."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return error.reason or str(error)


def _read(source: PemSource) -> bytes:
    if source.file is None:
        return source.text.encode()
    try:
        return source.file.read_bytes()
    except OSError as error:
        raise ConfigError(source.key, source.file, f"a file to be read: {error.strerror}") from error
