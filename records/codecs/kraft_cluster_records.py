"""Decoders of metadata records that are neither ACLs nor markers of transactions.

They decide nothing, so none of them stops a replay: an unreadable one is ignored and counted, as are unknown
types (I7 concerns ACLs). The names of topics, features, brokers, SCRAM credentials and delegation tokens are
read. Secrets are not.

Source: the schemas inside kafka-metadata-4.4.0.jar.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from records.entries import (
    DELEGATION_TOKEN_API_KEY,
    FEATURE_LEVEL_API_KEY,
    METADATA_VERSION_FEATURE,
    REGISTER_BROKER_API_KEY,
    REMOVE_DELEGATION_TOKEN_API_KEY,
    REMOVE_TOPIC_API_KEY,
    REMOVE_USER_SCRAM_CREDENTIAL_API_KEY,
    TOPIC_API_KEY,
    UNREGISTER_BROKER_API_KEY,
    USER_SCRAM_CREDENTIAL_API_KEY,
    BrokerRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    OtherRecord,
    ScramCredentialRecord,
    SupportedLevels,
    TopicRecord,
)
from records.errors import DecodeError
from records.flexible import MessageReader

#: Records of Kafka 4.4 that are ignored, by API key: the newest version of each.
IGNORED_VERSIONS: Final = {
    3: 2,  # PartitionRecord
    4: 0,  # ConfigRecord
    5: 2,  # PartitionChangeRecord
    7: 0,  # FenceBrokerRecord
    8: 0,  # UnfenceBrokerRecord
    14: 0,  # ClientQuotaRecord
    15: 0,  # ProducerIdsRecord
    17: 3,  # BrokerRegistrationChangeRecord
    20: 0,  # NoOpRecord
    21: 0,  # ZkMigrationStateRecord
    27: 0,  # RegisterControllerRecord
    28: 0,  # ClearElrRecord
    29: 0,  # UnregisterControllerRecord
}
# Of RegisterBrokerRecord; from version 2 on it has a field `isMigratingZkBroker`.
_REGISTER_BROKER_VERSION_MAX: Final = 4
_WITH_MIGRATION: Final = 2


def is_unread(record: OtherRecord) -> bool:
    """Whether it may contain unknown information: its type or version is new, or it is damaged."""
    return type(record) is OtherRecord and record.version > IGNORED_VERSIONS.get(record.api_key, -1)


def read_other(reader: MessageReader, api_key: int, version: int) -> OtherRecord | FeatureLevelRecord:
    """Decode the record after its header; known by its header only if the rest cannot be read."""
    read, version_max = _READERS.get(api_key, (None, -1))
    if read is not None and version <= version_max:
        with suppress(DecodeError):
            return read(reader, api_key, version)
    return OtherRecord(api_key, version)


def _topic(reader: MessageReader, api_key: int, version: int) -> TopicRecord:
    name = reader.string("topic name") if api_key == TOPIC_API_KEY else None
    record = TopicRecord(api_key, version, reader.uuid("topic id"), name)
    return _finished(reader, record)


def _feature_level(reader: MessageReader, _api_key: int, _version: int) -> FeatureLevelRecord:
    record = FeatureLevelRecord(reader.string("feature name"), reader.signed(2, "feature level"))
    return _finished(reader, record)


def _registration(reader: MessageReader, api_key: int, version: int) -> OtherRecord:
    broker_id = reader.signed(4, "broker id")
    if version >= _WITH_MIGRATION:
        reader.take(1, "is migrating")
    reader.uuid("incarnation id")
    reader.signed(8, "broker epoch")
    for _ in reader.array("end points"):
        reader.string("name")
        reader.string("host")
        reader.uint16("port")
        reader.signed(2, "security protocol")
        reader.skip_tagged_fields()
    levels = None
    for _ in reader.array("features"):
        name = reader.string("name")
        supported = SupportedLevels(reader.signed(2, "lowest level"), reader.signed(2, "highest level"))
        reader.skip_tagged_fields()
        if name == METADATA_VERSION_FEATURE:
            levels = supported
    if levels is None:
        raise DecodeError("the broker does not say which metadata.version it supports")
    return BrokerRecord(api_key, version, broker_id, levels)


def _unregistration(reader: MessageReader, api_key: int, version: int) -> BrokerRecord:
    return BrokerRecord(api_key, version, reader.signed(4, "broker id"), None)


def _scram_credential(reader: MessageReader, api_key: int, version: int) -> ScramCredentialRecord:
    user = reader.string("user name")
    return ScramCredentialRecord(api_key, version, user, reader.signed(1, "mechanism"))


def _delegation_token(reader: MessageReader, api_key: int, version: int) -> DelegationTokenRecord:
    owner = reader.string("owner")
    reader.string("requester")
    for _ in reader.array("renewers"):
        reader.string("renewer")
    for time in ("issue timestamp", "max timestamp", "expiration timestamp"):
        reader.signed(8, time)
    return _finished(reader, DelegationTokenRecord(api_key, version, reader.string("token id"), owner))


def _delegation_token_removal(reader: MessageReader, api_key: int, version: int) -> DelegationTokenRecord:
    return _finished(reader, DelegationTokenRecord(api_key, version, reader.string("token id"), None))


_Other = TypeVar("_Other", bound=OtherRecord | FeatureLevelRecord)


def _finished(reader: MessageReader, record: _Other) -> _Other:
    """Check that nothing but tagged fields follows."""
    reader.skip_tagged_fields()
    reader.finish()
    return record


_Reader = Callable[[MessageReader, int, int], OtherRecord | FeatureLevelRecord]

# By API key: the reader and its highest version.
_READERS: Final[dict[int, tuple[_Reader, int]]] = {
    REGISTER_BROKER_API_KEY: (_registration, _REGISTER_BROKER_VERSION_MAX),
    UNREGISTER_BROKER_API_KEY: (_unregistration, 0),
    TOPIC_API_KEY: (_topic, 0),
    REMOVE_TOPIC_API_KEY: (_topic, 0),
    DELEGATION_TOKEN_API_KEY: (_delegation_token, 0),
    REMOVE_DELEGATION_TOKEN_API_KEY: (_delegation_token_removal, 0),
    USER_SCRAM_CREDENTIAL_API_KEY: (_scram_credential, 0),
    REMOVE_USER_SCRAM_CREDENTIAL_API_KEY: (_scram_credential, 0),
    FEATURE_LEVEL_API_KEY: (_feature_level, 0),
}
