"""Metadata records that aclog understands.

Source: KIP-801; AccessControlEntryRecord.json and the other schemas inside kafka-metadata-4.3.1.jar. Codes
are ints, as a newer Kafka may write codes without a name in this build; these decide and are listed by number
(docs/compatibility.md, difference 4). A node holds a million records: ``msgspec.Struct`` with ``gc=False`` is
cheap to create and skipped by the garbage collector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from records.acl import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from records.ids import Uuid

ACCESS_CONTROL_ENTRY_API_KEY: Final = 18
REMOVE_ACCESS_CONTROL_ENTRY_API_KEY: Final = 19
REGISTER_BROKER_API_KEY: Final = 0
UNREGISTER_BROKER_API_KEY: Final = 1
TOPIC_API_KEY: Final = 2
REMOVE_TOPIC_API_KEY: Final = 9
DELEGATION_TOKEN_API_KEY: Final = 10
USER_SCRAM_CREDENTIAL_API_KEY: Final = 11
FEATURE_LEVEL_API_KEY: Final = 12
REMOVE_USER_SCRAM_CREDENTIAL_API_KEY: Final = 22
REMOVE_DELEGATION_TOKEN_API_KEY: Final = 26
BEGIN_TRANSACTION_API_KEY: Final = 23
END_TRANSACTION_API_KEY: Final = 24
ABORT_TRANSACTION_API_KEY: Final = 25

#: Key of the metadata.version feature in a FeatureLevelRecord.
METADATA_VERSION_FEATURE: Final = "metadata.version"

# Names by code, looked up once: most lines of the audit log print an ACL.
_RESOURCE_TYPES: Final = tuple(each.name for each in ResourceType.by_code())
_PATTERN_TYPES: Final = tuple(each.name for each in PatternType.by_code())
_OPERATIONS: Final = tuple(each.name for each in AclOperation.by_code())
_PERMISSION_TYPES: Final = tuple(each.name for each in AclPermissionType.by_code())


#: An ACL without its id, in the order of its record's fields.
AclContent = tuple[int, str, int, str, str, int, int]


class AccessControlEntryRecord(msgspec.Struct, frozen=True, gc=False):
    """An ACL: added or replaced (in a log), or in force (in a snapshot)."""

    id: Uuid
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    @classmethod
    def from_binding(cls, id: Uuid, binding: AclBinding) -> AccessControlEntryRecord:  # noqa: A002 - Kafka's field
        """The record that adds ``binding`` under this id."""
        pattern, entry = binding.pattern, binding.entry
        return cls(
            id,
            int(pattern.resource_type),
            pattern.name,
            int(pattern.pattern_type),
            entry.principal,
            entry.host,
            int(entry.operation),
            int(entry.permission_type),
        )

    @property
    def content(self) -> AclContent:
        """All fields but the id: two records with equal content are one ACL under two ids (I8)."""
        return (
            self.resource_type,
            self.resource_name,
            self.pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission_type,
        )

    def binding(self) -> AclBinding:
        """The ACL as Kafka's API has it; codes without a name become UNKNOWN."""
        return AclBinding(
            ResourcePattern(
                ResourceType.from_code(self.resource_type),
                self.resource_name,
                PatternType.from_code(self.pattern_type),
            ),
            AccessControlEntry(
                self.principal,
                self.host,
                AclOperation.from_code(self.operation),
                AclPermissionType.from_code(self.permission_type),
            ),
        )

    def standard_acl(self) -> str:
        """``StandardAcl[resourceType=TOPIC, ...]``, as Kafka 4.3's record class prints itself."""
        return (
            f"StandardAcl[resourceType={_RESOURCE_TYPES[self.resource_type]}, "
            f"resourceName={self.resource_name}, "
            f"patternType={_PATTERN_TYPES[self.pattern_type]}, "
            f"principal={self.principal}, host={self.host}, "
            f"operation={_OPERATIONS[self.operation]}, "
            f"permissionType={_PERMISSION_TYPES[self.permission_type]}]"
        )


class RemoveAccessControlEntryRecord(msgspec.Struct, frozen=True, gc=False):
    """Removes the ACL with this id."""

    id: Uuid


class FeatureLevelRecord(msgspec.Struct, frozen=True, gc=False):
    """Sets the level of a feature (``metadata.version``); 0 removes it."""

    name: str
    level: int


class SupportedLevels(NamedTuple):
    """Levels of metadata.version that a broker's binary supports."""

    lowest: int
    highest: int


class BeginTransactionRecord(msgspec.Struct, frozen=True, gc=False):
    """KIP-868: the records after it become visible at the matching EndTransactionRecord."""

    name: str | None = None


class EndTransactionRecord(msgspec.Struct, frozen=True, gc=False):
    """KIP-868: all records of the transaction become visible."""


class AbortTransactionRecord(msgspec.Struct, frozen=True, gc=False):
    """KIP-868: the records of the transaction are dropped."""

    reason: str | None = None


#: A loop over many records tests ``type(record) in TRANSACTION_MARKERS`` for each (KIP-868).
TRANSACTION_MARKERS: Final = frozenset({BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord})


class OtherRecord(msgspec.Struct, frozen=True, gc=False):
    """Any other metadata record: ignored, known only by its header."""

    api_key: int
    version: int


class BrokerRecord(OtherRecord, frozen=True, gc=False):
    """A broker registered, which shows its release, or unregistered. Its other fields are not read.

    ``levels``: of its binary; None: unregistered.
    """

    broker_id: int
    levels: SupportedLevels | None


class TopicRecord(OtherRecord, frozen=True, gc=False):
    """A topic was created; ``name`` None: removed."""

    topic_id: Uuid
    name: str | None


#: ScramMechanism by code.
SCRAM_MECHANISMS: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


class ScramCredentialRecord(OtherRecord, frozen=True, gc=False):
    """A SCRAM credential of a user was created or removed, by the API key. The secret is not read.

    ``mechanism``: Kafka's code: 1 for SCRAM-SHA-256, 2 for SCRAM-SHA-512.
    """

    user: str
    mechanism: int

    @property
    def is_removal(self) -> bool:
        return self.api_key == REMOVE_USER_SCRAM_CREDENTIAL_API_KEY


class DelegationTokenRecord(OtherRecord, frozen=True, gc=False):
    """A delegation token was created; ``owner`` None: removed.

    Its HMAC is not in the log: controllers compute it from the token's id and their secret key.
    """

    token_id: str
    owner: str | None


class ControlRecord(msgspec.Struct, frozen=True, gc=False):
    """A record of a control batch: about the log itself, never about ACLs."""

    type: int
    version: int
    value: bytes


AclRecord = AccessControlEntryRecord | RemoveAccessControlEntryRecord
MetadataRecord = (
    AclRecord
    | FeatureLevelRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | OtherRecord
)
