"""Configuration keys with secret values, which are never printed, as Kafka hides passwords."""

from __future__ import annotations

from typing import Final

#: Shown in place of a secret: org.apache.kafka.common.config.types.Password.HIDDEN.
HIDDEN: Final = "[hidden]"

# Parts of keys of librdkafka and of Kafka's Java clients; hiding a harmless value is the smaller error.
_SECRET_WORDS: Final = (
    "password",
    "passphrase",
    "secret",
    "token",
    "credential",
    "jaas",
    "key.pem",
    "keystore.key",
    "private.key",
    "user.info",
    "oauthbearer.config",
)


def is_secret(key: str) -> bool:
    """Whether a key, or its environment variable, holds a secret value; a file name is not secret."""
    name = key.lower().replace("_", ".")
    return not name.endswith(".file") and any(word in name for word in _SECRET_WORDS)
