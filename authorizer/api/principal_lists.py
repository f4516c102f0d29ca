"""Parsing of ``super.users``, of similar lists of principals, and of ``allow.everyone.if.no.acl.found``.

- A list is split on ``;`` only, because distinguished names contain commas. Parts are trimmed as in Java,
  empty parts are skipped, there is no wildcard, and a part without a colon stops the start.
- ``allow.everyone`` is true for "true" in any case, and false for everything else, also for "yes" and "1".

Source: StandardAuthorizer.getConfiguredSuperUsers and getDefaultResult, compared with Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Final

from authorizer.api.errors import ConfigError
from records.principal import parse_kafka_principal

SUPER_USERS_CONFIG: Final = "super.users"
ALLOW_EVERYONE_CONFIG: Final = "allow.everyone.if.no.acl.found"
PRINCIPALS_ALLOWED: Final = (
    "principals as `Type:name`, separated by semicolons, such as User:admin;User:CN=a,O=b"
)

# java.lang.String.trim removes the characters up to and including the space.
_JAVA_WHITESPACE: Final = "".join(map(chr, range(0x21)))


def parse_super_users(value: object) -> frozenset[str]:
    """The super users as ``Type:name`` texts; none for None and for an empty text.

    Raises:
        ConfigError: a part without a colon.
    """
    return parse_principals(value, key=SUPER_USERS_CONFIG)


def parse_principals(value: object, *, key: str) -> frozenset[str]:
    """The principals of a key in the format of ``super.users``. Raises as ``parse_super_users``."""
    if value is None:
        return frozenset()
    parts = (part.strip(_JAVA_WHITESPACE) for part in str(value).split(";"))
    principals = frozenset(part for part in parts if part)
    for principal in principals:
        try:
            parse_kafka_principal(principal)
        except ValueError as error:
            raise ConfigError(key, value, f"{PRINCIPALS_ALLOWED} ({error})") from error
    return principals


def parse_allow_everyone(value: object) -> bool:
    """Whether every principal may use a resource without ACLs; False for None."""
    return value is not None and str(value).strip(_JAVA_WHITESPACE).lower() == "true"
