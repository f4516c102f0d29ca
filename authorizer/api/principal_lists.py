"""How Kafka reads ``super.users``, and lists of principals like it, and ``allow.everyone.if.no.acl.found``.

Shared by ``StandardAuthorizer.configure`` and the configuration file.

Source: StandardAuthorizer.getConfiguredSuperUsers and getDefaultResult; the rules as run against 4.3.1 are
in kafka-facts.md H12: split on ``;`` only (distinguished names hold commas), Java's trim, empty parts
skipped, no wildcard, a part without a colon stops the start. ``allow.everyone`` is true for "true" in any
case and false for everything else, "yes" and "1" too.
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

# java.lang.String.trim: everything up to and including the space, and nothing else.
_JAVA_WHITESPACE: Final = "".join(map(chr, range(0x21)))


def parse_super_users(value: object) -> frozenset[str]:
    """The super users as ``Type:name`` texts; None and empty texts give none.

    Raises:
        ConfigError: a part without a colon.
    """
    return parse_principals(value, key=SUPER_USERS_CONFIG)


def parse_principals(value: object, *, key: str) -> frozenset[str]:
    """The same for another key that is written as super users are."""
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
    """Whether a resource without any ACL is open to everyone; None means no."""
    return value is not None and str(value).strip(_JAVA_WHITESPACE).lower() == "true"
