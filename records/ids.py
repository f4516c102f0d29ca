"""Kafka's Uuid: 16 bytes, written as 22 characters of URL-safe base64 without padding.

Source: org.apache.kafka.common.Uuid. An id is plain ``bytes`` at run time, because a log of a million
ACLs holds a million of them.
"""

from __future__ import annotations

import base64
import re
import uuid
from typing import TYPE_CHECKING, Final, NewType

from records.errors import DecodeError

if TYPE_CHECKING:
    from records.acl import AclBinding

Uuid = NewType("Uuid", bytes)

UUID_BYTES: Final = 16
_TEXT_LENGTH: Final = 22
_TEXT: Final = re.compile(rf"[A-Za-z0-9_-]{{{_TEXT_LENGTH}}}")

_CLUSTER_ID_LENGTH_MAX: Final = 128
_CLUSTER_ID: Final = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{_CLUSTER_ID_LENGTH_MAX - 1}}}")

#: Topic id of ``__cluster_metadata`` (Uuid.METADATA_TOPIC_ID).
METADATA_TOPIC_ID: Final = Uuid(bytes(UUID_BYTES - 1) + b"\x01")

# An arbitrary namespace, the same for all writers and releases.
_BINDING_NAMESPACE: Final = uuid.UUID("6f3d3c1e-5f0a-5c0b-9a43-0d7c4ac10601")


def uuid_to_string(value: bytes) -> str:
    """22 characters, as Kafka prints ids."""
    return base64.urlsafe_b64encode(value)[:_TEXT_LENGTH].decode("ascii")


def uuid_from_string(text: str) -> Uuid:
    """Parse Kafka's 22 characters. Raises DecodeError: not 22 characters of URL-safe base64."""
    if not _TEXT.fullmatch(text):
        raise DecodeError(f"`{text[:80]}` is not a Kafka id: expected 22 characters of URL-safe base64")
    return Uuid(base64.urlsafe_b64decode(text + "=="))


def parse_cluster_id(text: str) -> str:
    """Check a cluster id given by a user: Kafka's 22 characters, or a short name.

    Ids that a broker or a cluster reports are not checked.

    Raises:
        ValueError: it is not safe in a path, a label or a command line.
    """
    if not _CLUSTER_ID.fullmatch(text):
        raise ValueError(
            f"`{text[:80]}` is not a cluster id: 1 to {_CLUSTER_ID_LENGTH_MAX} letters, digits, dots, dashes "
            "and underscores, and no dot in front"
        )
    return text


def binding_uuid(binding: AclBinding) -> Uuid:
    """The id that every aclog writer gives this binding: UUIDv5 of its content.

    So two writers that add the same ACL write the same record, and the second one has no effect (I8).
    """
    pattern, entry = binding.pattern, binding.entry
    return content_uuid(
        (
            pattern.resource_type,
            pattern.name,
            pattern.pattern_type,
            entry.principal,
            entry.host,
            entry.operation,
            entry.permission_type,
        )
    )


def content_uuid(content: tuple[int, str, int, str, str, int, int]) -> Uuid:
    """As ``binding_uuid``, for a record's content, whose codes may be unknown."""
    parts = [part if isinstance(part, str) else str(int(part)) for part in content]
    # Each part has its length, as a name may contain any separator.
    return Uuid(uuid.uuid5(_BINDING_NAMESPACE, "".join(f"{len(part)}:{part}" for part in parts)).bytes)
