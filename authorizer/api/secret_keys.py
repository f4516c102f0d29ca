"""Which configuration keys hold secrets: their values are never printed, as Kafka hides its passwords."""

from __future__ import annotations

from typing import Final

#: What is shown instead: org.apache.kafka.common.config.types.Password.HIDDEN.
HIDDEN: Final = "[hidden]"

# Words in the keys of librdkafka and of Kafka's Java clients, with dots; rather one too many than too few.
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
    """Whether a key, or the variable that sets it, holds something that must not be seen: no file's name."""
    name = key.lower().replace("_", ".")
    return not name.endswith(".file") and any(word in name for word in _SECRET_WORDS)
