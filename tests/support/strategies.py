"""Hypothesis strategies for ACLs and metadata records, for tests of every layer.

Values are drawn from tiny sets, so that they collide: names over the alphabet `ab*` (prefixes cover one
another, and a literal `*` is the wildcard), a handful of principals, hosts and ids (ids are added twice and
removed again).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from records.acl import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from records.entries import (
    METADATA_VERSION_FEATURE,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    AclRecord,
    BeginTransactionRecord,
    BrokerRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
    ScramCredentialRecord,
    SupportedLevels,
    TopicRecord,
)
from records.ids import Uuid

NAME_ALPHABET = "ab*"
TOPIC_IDS = (Uuid(bytes(15) + b"a"), Uuid(bytes(15) + b"b"))
OTHER_RECORDS: Sequence[OtherRecord] = (
    OtherRecord(3, 2),
    OtherRecord(20, 0),
    OtherRecord(3, 3),  # a version of a later Kafka
    OtherRecord(99, 1),  # a type of a later Kafka
    OtherRecord(2, 0),  # a damaged topic
    BrokerRecord(0, 4, 1, SupportedLevels(7, 31)),
    BrokerRecord(1, 0, 1, None),
    *[TopicRecord(2, 0, topic_id, name) for topic_id in TOPIC_IDS for name in ("t", "u")],
    *[TopicRecord(9, 0, topic_id, None) for topic_id in TOPIC_IDS],
    *[ScramCredentialRecord(api_key, 0, "u", code) for api_key in (11, 22) for code in (1, 2)],
    DelegationTokenRecord(10, 0, "token", "User:owner"),
    DelegationTokenRecord(26, 0, "token", None),
)
HOSTS = ("*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
PRINCIPALS = ("User:a", "User:b", "User:*", "Group:a", "Group:*", "User:a*")
IDS = tuple(Uuid(uuid.UUID(int=number).bytes) for number in range(1, 9))

INT8 = st.integers(-128, 127)


def resource_names(max_size: int = 3) -> SearchStrategy[str]:
    """Short names that are often prefixes of one another; `*` among them."""
    return st.text(NAME_ALPHABET, min_size=1, max_size=max_size)


def uuids() -> SearchStrategy[Uuid]:
    """One of eight ids."""
    return st.sampled_from(IDS)


def resource_types() -> SearchStrategy[ResourceType]:
    """The types that a broker accepts; topics most often."""
    return st.just(ResourceType.TOPIC) | st.sampled_from(
        [kind for kind in ResourceType if kind > ResourceType.ANY]
    )


def operations() -> SearchStrategy[AclOperation]:
    """The operations that a broker accepts, ALL included."""
    return st.sampled_from([operation for operation in AclOperation if operation > AclOperation.ANY])


@st.composite
def resource_patterns(draw: st.DrawFn) -> ResourcePattern:
    """Patterns that a broker accepts."""
    resource_type = draw(resource_types())
    if resource_type is ResourceType.CLUSTER:
        return ResourcePattern(resource_type, CLUSTER_NAME, PatternType.LITERAL)
    return ResourcePattern(
        resource_type,
        draw(resource_names()),
        draw(st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED])),
    )


def acl_bindings() -> SearchStrategy[AclBinding]:
    """ACLs that a broker accepts."""
    return st.builds(
        AclBinding,
        resource_patterns(),
        st.builds(
            AccessControlEntry,
            st.sampled_from(PRINCIPALS),
            st.sampled_from(HOSTS),
            operations(),
            st.sampled_from([AclPermissionType.DENY, AclPermissionType.ALLOW]),
        ),
    )


def access_control_entry_records() -> SearchStrategy[AccessControlEntryRecord]:
    """Added ACLs under one of eight ids."""
    return st.builds(AccessControlEntryRecord.from_binding, uuids(), acl_bindings())


def remove_access_control_entry_records() -> SearchStrategy[RemoveAccessControlEntryRecord]:
    """Removals of one of eight ids, there or not."""
    return st.builds(RemoveAccessControlEntryRecord, uuids())


def acl_records() -> SearchStrategy[AclRecord]:
    """Additions, replacements and removals; about one removal in three."""
    return (
        access_control_entry_records()
        | access_control_entry_records()
        | remove_access_control_entry_records()
    )


def strange_acl_records() -> SearchStrategy[AclRecord]:
    """All that the format allows: any codes, any text, any id."""
    text = st.text(max_size=40)
    ids = st.binary(min_size=16, max_size=16).map(Uuid)
    return st.builds(AccessControlEntryRecord, ids, INT8, text, INT8, text, text, INT8, INT8) | st.builds(
        RemoveAccessControlEntryRecord, ids
    )


def feature_level_records() -> SearchStrategy[FeatureLevelRecord]:
    """Two features; level 0 removes one."""
    return st.builds(
        FeatureLevelRecord, st.sampled_from([METADATA_VERSION_FEATURE, "group.version"]), st.integers(0, 30)
    )


def other_records() -> SearchStrategy[OtherRecord]:
    """Ignored records: with names that are stored, without names, of a later Kafka, damaged."""
    return st.sampled_from(OTHER_RECORDS)


def plain_records() -> SearchStrategy[MetadataRecord]:
    """Records outside of any transaction; ACL records most often."""
    return acl_records() | acl_records() | feature_level_records() | other_records()


@st.composite
def transactions(draw: st.DrawFn) -> list[MetadataRecord]:
    """KIP-868: a begin, a few records and an end or an abort."""
    begin: MetadataRecord = BeginTransactionRecord(draw(st.sampled_from([None, "", "Bootstrap records"])))
    ends: list[MetadataRecord] = [
        EndTransactionRecord(),
        AbortTransactionRecord(),
        AbortTransactionRecord("why"),
    ]
    return [begin, *draw(st.lists(plain_records(), max_size=4)), draw(st.sampled_from(ends))]


def record_lists(
    max_size: int = 12, *, with_transactions: bool = False
) -> SearchStrategy[list[MetadataRecord]]:
    """Records that a log may contain, in order; transactions, if any, are well formed and never nested."""
    if not with_transactions:
        return st.lists(plain_records(), max_size=max_size)
    pieces = plain_records().map(lambda record: [record]) | transactions()
    return st.lists(pieces, max_size=max_size).map(
        lambda found: [record for piece in found for record in piece]
    )
