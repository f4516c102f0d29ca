"""TLS settings of a listener: Kafka's ``ssl.*`` keys.

``listener.name.<name in lower case>.ssl.*`` is for one listener, ``ssl.*`` for all of them, as on a broker.
Keys and certificates are PEM, in a file or in the configuration itself (KIP-651); the error for another store
shows the commands that convert it. The sidecar reads the files (``listeners/tls.py``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Final

from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.names import (
    KEY_PASSWORD,
    KEYSTORE_CHAIN,
    KEYSTORE_KEY,
    KEYSTORE_LOCATION,
    KEYSTORE_TYPE,
    LISTENER_PREFIX,
    SPIFFE_REQUIRED,
    SPIFFE_RULES,
    SSL_CIPHER_SUITES,
    SSL_CLIENT_AUTH,
    SSL_PRINCIPAL_RULES,
    SSL_PROTOCOLS,
    TRUSTSTORE_CERTIFICATES,
    TRUSTSTORE_LOCATION,
    TRUSTSTORE_TYPE,
)
from authorizer.configuration.keys.table import BY_NAME
from authorizer.configuration.listeners import split_list
from authorizer.configuration.principal_rules import PrincipalRule, parse_principal_rules

#: Supported versions of TLS, the oldest first.
PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")

_PEM: Final = "PEM"
_PEM_BLOCK: Final = re.compile(r"(-----BEGIN [^-]+-----)([a-zA-Z0-9+/=\s]+)(-----END [^-]+-----)")
_PEM_LINE: Final = 64
CONVERT_KEYSTORE: Final = (
    "keytool -importkeystore -srckeystore STORE -destkeystore store.p12 -deststoretype PKCS12; "
    "openssl pkcs12 -in store.p12 -noenc -out store.pem"
)
CONVERT_TRUSTSTORE: Final = "keytool -list -rfc -keystore STORE > authorities.pem"


@dataclass(frozen=True, slots=True, kw_only=True)
class PemSource:
    """PEM in a file or in the configuration.

    Attributes:
        key: the configuration key of the source, for errors.
        file: None if ``text`` is the PEM itself.
    """

    key: str
    file: Path | None
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """TLS settings of one listener.

    Attributes:
        identity: the server's private key and its certificate chain.
        authorities: authorities of admitted clients; None only if ``client_auth`` is none.
        client_auth: ``none``, ``requested`` or ``required``.
        protocols: the versions of TLS, the oldest first.
        name_rules: map a subject to a principal's name.
        spiffe_rules: map a SPIFFE id to a principal's name; empty if SPIFFE ids are ignored.
    """

    identity: PemSource
    password_key: str
    password: str | None = field(repr=False)
    authorities: PemSource | None
    client_auth: str
    protocols: tuple[str, ...]
    name_rules: tuple[PrincipalRule, ...]
    spiffe_rules: tuple[PrincipalRule, ...]
    spiffe_required: bool


def tls_settings(properties: Mapping[str, str], listener_name: str) -> TlsSettings:
    """Return the TLS settings of a listener, from all properties."""
    of = _ListenerProperties(properties, listener_name)
    cipher_suites = of.text(SSL_CIPHER_SUITES)
    if cipher_suites:
        raise ConfigError(
            of.key(SSL_CIPHER_SUITES),
            cipher_suites,
            "aclog always uses OpenSSL's default cipher suites: leave it empty for this "
            f"listener ({LISTENER_PREFIX}{listener_name.lower()}.{SSL_CIPHER_SUITES}=) and choose by "
            f"{SSL_PROTOCOLS}",
        )
    client_auth = BY_NAME[SSL_CLIENT_AUTH].read(of.text(SSL_CLIENT_AUTH))
    authorities = _authorities(of)
    if authorities is None and client_auth != "none":
        raise ConfigError(
            of.key(SSL_CLIENT_AUTH),
            client_auth,
            f"it requires the authorities of admitted clients: name their PEM file in {TRUSTSTORE_LOCATION}",
        )
    spiffe_rules = parse_principal_rules(of.text(SPIFFE_RULES), key=of.key(SPIFFE_RULES))
    spiffe_required: bool = BY_NAME[SPIFFE_REQUIRED].read(of.text(SPIFFE_REQUIRED))
    if spiffe_required and not spiffe_rules:
        raise ConfigError(
            of.key(SPIFFE_REQUIRED),
            "true",
            f"it requires {SPIFFE_RULES}, such as DEFAULT: the principals of SPIFFE ids",
        )
    return TlsSettings(
        identity=_identity(of),
        password_key=of.key(KEY_PASSWORD),
        password=of.text(KEY_PASSWORD) or None,
        authorities=authorities,
        client_auth=client_auth,
        protocols=_protocols(of),
        name_rules=parse_principal_rules(of.text(SSL_PRINCIPAL_RULES), key=of.key(SSL_PRINCIPAL_RULES)),
        spiffe_rules=spiffe_rules,
        spiffe_required=spiffe_required,
    )


class _ListenerProperties:
    """Properties of one listener."""

    def __init__(self, properties: Mapping[str, str], listener_name: str) -> None:
        self._properties = properties
        self._prefix = f"{LISTENER_PREFIX}{listener_name.lower()}."

    def key(self, name: str) -> str:
        """Return the key that sets ``name``: the listener's own if it is set."""
        listener_key = self._prefix + name
        return listener_key if listener_key in self._properties else name

    def text(self, name: str) -> str:
        return self._properties.get(self.key(name), BY_NAME[name].default or "").strip()


def _identity(of: _ListenerProperties) -> PemSource:
    _require_pem(of, KEYSTORE_TYPE, KEYSTORE_LOCATION, CONVERT_KEYSTORE)
    chain, key, location = of.text(KEYSTORE_CHAIN), of.text(KEYSTORE_KEY), of.text(KEYSTORE_LOCATION)
    if bool(chain) != bool(key):
        missing, given = (KEYSTORE_KEY, KEYSTORE_CHAIN) if chain else (KEYSTORE_CHAIN, KEYSTORE_KEY)
        raise ConfigError(of.key(missing), "", f"it is needed with {given}")
    if bool(chain) == bool(location):
        raise ConfigError(
            of.key(KEYSTORE_LOCATION),
            location,
            "a listener with TLS needs a private key and a certificate: a PEM file with both, or "
            f"{KEYSTORE_KEY} and {KEYSTORE_CHAIN}, but not both",
        )
    if location:
        return PemSource(key=of.key(KEYSTORE_LOCATION), file=Path(location), text="")
    return PemSource(key=of.key(KEYSTORE_CHAIN), file=None, text=_in_lines(key + chain))


def _authorities(of: _ListenerProperties) -> PemSource | None:
    certificates, location = of.text(TRUSTSTORE_CERTIFICATES), of.text(TRUSTSTORE_LOCATION)
    if not certificates and not location:
        return None
    _require_pem(of, TRUSTSTORE_TYPE, TRUSTSTORE_LOCATION, CONVERT_TRUSTSTORE)
    if certificates and location:
        raise ConfigError(
            of.key(TRUSTSTORE_LOCATION),
            location,
            f"{of.key(TRUSTSTORE_CERTIFICATES)} is set as well: set one",
        )
    if location:
        return PemSource(key=of.key(TRUSTSTORE_LOCATION), file=Path(location), text="")
    return PemSource(key=of.key(TRUSTSTORE_CERTIFICATES), file=None, text=_in_lines(certificates))


def _in_lines(pem: str) -> str:
    """Restore the line breaks of PEM, which a properties file may have lost: OpenSSL requires them."""
    return _PEM_BLOCK.sub(
        lambda block: "\n".join((block[1], *wrap("".join(block[2].split()), _PEM_LINE), block[3], "")), pem
    )


def _require_pem(of: _ListenerProperties, type_key: str, location_key: str, commands: str) -> None:
    kind = of.text(type_key)
    if kind.upper() != _PEM:
        raise ConfigError(
            of.key(type_key),
            kind,
            f"PEM. To make PEM of another store: {commands}; and name it in {location_key}",
        )


def _protocols(of: _ListenerProperties) -> tuple[str, ...]:
    text = of.text(SSL_PROTOCOLS)
    protocols = split_list(text)
    if not protocols or not set(protocols) <= set(PROTOCOLS):
        raise ConfigError(of.key(SSL_PROTOCOLS), text, BY_NAME[SSL_PROTOCOLS].allowed)
    return tuple(protocol for protocol in PROTOCOLS if protocol in protocols)
