"""Keys of client settings as the user wrote them, and what to change after a failed connection.

Settings have librdkafka's names. Users write them as ``aclog.kafka.KEY``, or by Java's names in a
client.properties. An error names the key that its reader has to change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

#: What users write before each setting.
PREFIX: Final = "aclog.kafka."

SECURITY_PROTOCOL: Final = "security.protocol"
_NO_KEYS: Final[Mapping[str, str]] = MappingProxyType({})
_CA: Final = "ssl.ca.location"
_HOST_NAMES: Final = "ssl.endpoint.identification.algorithm"
#: What OpenSSL reports, and the settings to change: the first that the reason contains, in any case.
_TLS_ADVICE: Final = (
    (
        ("broker certificate could not be verified",),  # librdkafka does not tell which
        "the certificate is not of an authority that is trusted here ({}), or is for other names ({})",
        (_CA, _HOST_NAMES),
    ),
    (
        ("hostname mismatch", "ip address mismatch"),
        "the certificate is for other names than this address: use a name that it has, or change {}",
        (_HOST_NAMES,),
    ),
    (("certificate has expired",), "the certificate has expired: the broker needs a new one", ()),
    (
        ("verify failed", "verify_failed", "unable to get local issuer", "self-signed", "self signed"),
        "no authority that is trusted here has issued the certificate: name the authority by {}",
        (_CA,),
    ),
    (
        ("alert certificate", "alert_certificate", "certificate required", "alert bad", "alert_bad"),
        "the broker refuses the client's certificate, or the lack of one: name it by {}",
        ("ssl.certificate.location",),
    ),
)
_TOKEN_KEYS: Final = (
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
)


class ClientKeys:
    """Names keys as they are in the user's files: ``java_keys`` by setting; others are ``aclog.kafka.*``."""

    def __init__(self, file: str = "", java_keys: Mapping[str, str] = _NO_KEYS) -> None:
        self._file = file
        self._java_keys = dict(java_keys)

    def named(self, *settings: str) -> str:
        """``aclog.kafka.KEY``, or Java's key and its file; several as a list."""
        java = dict.fromkeys(self._java_keys[name] for name in settings if name in self._java_keys)
        prefixed = [f"{PREFIX}{name}" for name in settings if name not in self._java_keys]
        return _list([*([f"{_list([*java])} of {self._file}"] if java else []), *prefixed])

    def security(self) -> str:
        """Where to look if the connection's security may be wrong."""
        return f"see {self.named(SECURITY_PROTOCOL, 'sasl.*', 'ssl.*')}"

    def tls_advice(self, reason: str) -> str:
        """What to change if TLS failed for OpenSSL's ``reason``."""
        for texts, advice, settings in _TLS_ADVICE:
            if any(text in reason.lower() for text in texts):
                return advice.format(*(self.named(name) for name in settings))
        return self.security()

    def login_advice(self, mechanism: str | None) -> str:
        """What to change if a login was refused."""
        if mechanism == "OAUTHBEARER":
            return f"check {self.named(*_TOKEN_KEYS)}"
        return f"check the user and password in {self.named('sasl.username', 'sasl.password')}"


class NamedSettings(Mapping[str, str]):
    """Client settings that know their keys as written. Not shown: they may hold secrets."""

    def __init__(self, settings: Mapping[str, str], keys: ClientKeys) -> None:
        self._settings = dict(settings)
        self.written: Final = keys

    def __getitem__(self, name: str) -> str:
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)


def keys_of(client: Mapping[str, str]) -> ClientKeys:
    """The keys of client settings as written."""
    return client.written if isinstance(client, NamedSettings) else ClientKeys()


def only(client: Mapping[str, str], is_kept: Callable[[str], bool]) -> Mapping[str, str]:
    """Some of the settings, with their keys as written."""
    return NamedSettings({name: client[name] for name in client if is_kept(name)}, keys_of(client))


def _list(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
