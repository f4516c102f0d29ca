"""KafkaPrincipal: a type and a name, written ``Type:name``.

Source: org.apache.kafka.common.security.auth.KafkaPrincipal, SecurityUtils.parseKafkaPrincipal.
"""

from __future__ import annotations

from typing import Final

import msgspec


class KafkaPrincipal(msgspec.Struct, frozen=True, gc=False):
    """A caller of Kafka. Types are case-sensitive; names may have colons and commas."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS: Final = KafkaPrincipal("User", "ANONYMOUS")
#: The only wildcard principal; in an ACL it matches every principal of every type.
EVERYONE: Final = KafkaPrincipal("User", "*")
WILDCARD_PRINCIPAL: Final = str(EVERYONE)


def parse_kafka_principal(text: str) -> KafkaPrincipal:
    """Split at the first colon, as Kafka does. Raises ValueError: no colon; the message is Kafka's."""
    principal_type, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return KafkaPrincipal(principal_type, name)
