"""Connection settings of controllers and brokers, by librdkafka's names.

Unknown keys are errors, so that no user relies on a setting that has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from records.errors import LogError
from records.log.client_keys import SECURITY_PROTOCOL, ClientKeys, keys_of
from records.log.protocol.oauth import GrantedTokens, endpoint_problem, read_token, token_file

PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"

_REQUEST_TIMEOUT_MS: Final = 3_000
_TIMEOUT_MS_MAX: Final = 300_000
_REFRESH_MS: Final = 10_000
_REFRESH_MS_MIN: Final = 100
_REFRESH_MS_MAX: Final = 86_400_000

KEYS: Final = (
    "cluster.id",
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    _ENDPOINT,
    "https.ca.location",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
    "socket.timeout.ms",
    "acls.refresh.interval.ms",
)


#: Prefixes of the settings that decide whether a connection is secure.
_SECURITY_KEYS: Final = ("security.", "sasl.", "ssl.", "https.", "enable.ssl.")
_BESIDE_TIMEOUT_S: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolSettings:
    """Attributes have the names of their keys; ``password`` and ``key_*`` are never shown.

    ``tokens`` provides a token for each connection with OAUTHBEARER; ``keys`` names the keys as written.
    """

    cluster_id: str | None
    protocol: str
    mechanism: str | None
    username: str | None
    password: str | None
    tokens: Callable[[], str] | None
    ca_location: str | None
    ca_pem: str | None
    certificate_location: str | None
    certificate_pem: str | None
    key_location: str | None
    key_pem: str | None
    key_password: str | None
    checks_host_name: bool
    checks_certificate: bool
    timeout_s: float
    refresh_s: float
    keys: ClientKeys

    def __repr__(self) -> str:
        return f"ProtocolSettings({self.protocol})"

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in ("ssl", "sasl_ssl")

    @property
    def principal(self) -> str:
        """The principal in the cluster's ACLs, as far as the settings determine it."""
        if self.username is not None:
            return f"User:{self.username}"
        if self.tokens is not None:
            return "User:<the subject of the token>"
        return "User:ANONYMOUS" if not self.has_tls else "User:<the subject of the client's certificate>"


def settings_beside_client(client: Mapping[str, str]) -> ProtocolSettings:
    """The settings of connections beside those of librdkafka, whose other settings are ignored.

    A request times out within seconds, as librdkafka has just reached the cluster.

    Raises:
        LogError: a setting of security that only librdkafka supports.
    """
    settings = protocol_settings(
        {key: client[key] for key in client if key in KEYS or key.startswith(_SECURITY_KEYS)}
    )
    return replace(settings, timeout_s=min(settings.timeout_s, _BESIDE_TIMEOUT_S))


def protocol_settings(client: Mapping[str, str]) -> ProtocolSettings:
    """Parse and check the settings.

    Raises:
        LogError: an unknown key or an invalid value; the text has what is allowed.
    """
    for key in client:
        if key not in KEYS:
            raise LogError(
                f"{keys_of(client).named(key)} is not supported by kraft:// and describe://. Supported: "
                f"{', '.join(KEYS)}"
            )
    protocol = _one_of(client, SECURITY_PROTOCOL, "plaintext", PROTOCOLS, str.lower)
    timeout_s = _ms(client, "socket.timeout.ms", _REQUEST_TIMEOUT_MS, 1, _TIMEOUT_MS_MAX) / 1000
    mechanism = username = tokens = None
    if protocol.startswith("sasl_"):
        key = "sasl.mechanism" if "sasl.mechanism" in client else "sasl.mechanisms"
        mechanism = _one_of(client, key, None, MECHANISMS, str.upper)
        if mechanism == "OAUTHBEARER":
            tokens = _tokens(client, timeout_s)
        else:
            _need(client, mechanism, "sasl.username", "sasl.password")
            username = client["sasl.username"]
    return ProtocolSettings(
        cluster_id=client.get("cluster.id"),
        protocol=protocol,
        mechanism=mechanism,
        username=username,
        password=client.get("sasl.password"),
        tokens=tokens,
        ca_location=client.get("ssl.ca.location"),
        ca_pem=client.get("ssl.ca.pem"),
        certificate_location=client.get("ssl.certificate.location"),
        certificate_pem=client.get("ssl.certificate.pem"),
        key_location=client.get("ssl.key.location"),
        key_pem=client.get("ssl.key.pem"),
        key_password=client.get("ssl.key.password"),
        checks_host_name=_one_of(
            client, "ssl.endpoint.identification.algorithm", "https", ("https", "none"), str.lower
        )
        == "https",
        checks_certificate=_one_of(
            client, "enable.ssl.certificate.verification", "true", ("true", "false"), str.lower
        )
        == "true",
        timeout_s=timeout_s,
        refresh_s=_ms(client, "acls.refresh.interval.ms", _REFRESH_MS, _REFRESH_MS_MIN, _REFRESH_MS_MAX)
        / 1000,
        keys=keys_of(client),
    )


def _tokens(client: Mapping[str, str], timeout_s: float) -> Callable[[], str]:
    _one_of(client, "sasl.oauthbearer.method", "oidc", ("oidc",), str.lower)
    _need(client, "OAUTHBEARER", _ENDPOINT)
    url = client[_ENDPOINT]
    path = token_file(url)
    if path is not None:
        return partial(read_token, path)
    problem = endpoint_problem(url)
    if problem is not None:
        raise LogError(f"{keys_of(client).named(_ENDPOINT)}: {url}: {problem}")
    _need(client, "OAUTHBEARER", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
    return GrantedTokens(
        url,
        client["sasl.oauthbearer.client.id"],
        client["sasl.oauthbearer.client.secret"],
        scope=client.get("sasl.oauthbearer.scope"),
        ca=client.get("https.ca.location"),
        timeout_s=timeout_s,
    )


def _need(client: Mapping[str, str], mechanism: str, *keys: str) -> None:
    for key in keys:
        if not client.get(key):
            raise LogError(f"{keys_of(client).named(key)} is required by {mechanism}")


def _one_of(
    client: Mapping[str, str],
    key: str,
    default: str | None,
    allowed: tuple[str, ...],
    normal: Callable[[str], str],
) -> str:
    value = client.get(key, default)
    if value is None:
        raise LogError(f"{keys_of(client).named(key)} is required: {', '.join(allowed)}")
    if normal(value) not in allowed:
        named = keys_of(client).named(key)
        raise LogError(f"{named}: `{value}`: kraft:// and describe:// support {', '.join(allowed)}")
    return normal(value)


def _ms(client: Mapping[str, str], key: str, default: int, least: int, most: int) -> int:
    text = client.get(key, str(default))
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise LogError(f"{keys_of(client).named(key)}: `{text}` is not a number from {least} to {most}")
    return int(text)
