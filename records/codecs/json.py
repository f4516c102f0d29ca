"""kafka-dump-log's JSON: ``{"type": "ACCESS_CONTROL_ENTRY_RECORD", "version": 0, "data": {...}}``.

Source: DumpLogSegments.ClusterMetadataLogMessageParser and the JSON converters that Kafka generates from its
schemas: camelCase names, ids as 22 characters, codes as numbers, null texts left out.

The reader is strict: a missing, unknown or ill-typed field of ``data``, a code beyond int8 or text that UTF-8
cannot hold is a DecodeError, as a guess could lose a DENY. Keys other than ``type``, ``version`` and ``data``
tell where a record was found (``offset``, ``file``, ``batch``) and are ignored. Records other than ACLs,
features and transactions are written without ``data``. Of them the same fields are read as of their frames
(records.codecs.kraft_cluster_records), with the same leniency.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from records.codecs.kraft import RECORD_TYPE_NAMES, RECORD_VERSION, UNKNOWN_TYPE_PREFIX, record_type_name
from records.entries import (
    ABORT_TRANSACTION_API_KEY,
    ACCESS_CONTROL_ENTRY_API_KEY,
    BEGIN_TRANSACTION_API_KEY,
    DELEGATION_TOKEN_API_KEY,
    END_TRANSACTION_API_KEY,
    FEATURE_LEVEL_API_KEY,
    METADATA_VERSION_FEATURE,
    REGISTER_BROKER_API_KEY,
    REMOVE_ACCESS_CONTROL_ENTRY_API_KEY,
    REMOVE_DELEGATION_TOKEN_API_KEY,
    REMOVE_TOPIC_API_KEY,
    REMOVE_USER_SCRAM_CREDENTIAL_API_KEY,
    TOPIC_API_KEY,
    UNREGISTER_BROKER_API_KEY,
    USER_SCRAM_CREDENTIAL_API_KEY,
    AbortTransactionRecord,
    AccessControlEntryRecord,
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
from records.errors import DecodeError, UnsupportedVersionError
from records.ids import Uuid, uuid_from_string, uuid_to_string

_API_KEYS: Final = {name: api_key for api_key, name in RECORD_TYPE_NAMES.items()}
_VERSION_MAX: Final = 0x7FFF
_SHOWN_MAX: Final = 10**20


def to_json(record: MetadataRecord) -> dict[str, Any]:
    """The payload as an object; OtherRecord, known by its header only, has no ``data``."""
    match record:
        case AccessControlEntryRecord():
            return _payload(
                ACCESS_CONTROL_ENTRY_API_KEY,
                {
                    "id": uuid_to_string(record.id),
                    "resourceType": record.resource_type,
                    "resourceName": record.resource_name,
                    "patternType": record.pattern_type,
                    "principal": record.principal,
                    "host": record.host,
                    "operation": record.operation,
                    "permissionType": record.permission_type,
                },
            )
        case RemoveAccessControlEntryRecord():
            return _payload(REMOVE_ACCESS_CONTROL_ENTRY_API_KEY, {"id": uuid_to_string(record.id)})
        case FeatureLevelRecord():
            return _payload(FEATURE_LEVEL_API_KEY, {"name": record.name, "featureLevel": record.level})
        case BeginTransactionRecord():
            return _payload(BEGIN_TRANSACTION_API_KEY, _optional("name", record.name))
        case EndTransactionRecord():
            return _payload(END_TRANSACTION_API_KEY, {})
        case AbortTransactionRecord():
            return _payload(ABORT_TRANSACTION_API_KEY, _optional("reason", record.reason))
        case BrokerRecord(version=0, broker_id=broker_id, levels=levels):
            data: dict[str, Any] = {"brokerId": broker_id}
            if levels is not None:
                feature = {
                    "name": METADATA_VERSION_FEATURE,
                    "minSupportedVersion": levels.lowest,
                    "maxSupportedVersion": levels.highest,
                }
                data["features"] = [feature]
            return _payload(record.api_key, data)
        case OtherRecord():
            return {"type": record_type_name(record.api_key), "version": record.version}


def _payload(api_key: int, data: dict[str, Any]) -> dict[str, Any]:
    return {"type": record_type_name(api_key), "version": RECORD_VERSION, "data": data}


def _optional(name: str, text: str | None) -> dict[str, Any]:
    return {} if text is None else {name: text}


def dumps(record: MetadataRecord) -> str:
    """`to_json` as one line."""
    return msgspec.json.encode(to_json(record)).decode("utf-8")


def loads(line: str | bytes) -> MetadataRecord:
    """Parse one line; raises as `from_json`."""
    try:
        payload = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from error
    if not isinstance(payload, dict):
        raise DecodeError(f"expected a JSON object, found {_shown(payload)}")
    return from_json(payload)


def from_json(payload: Mapping[str, Any]) -> MetadataRecord:
    """Parse a payload.

    UnsupportedVersionError: an ACL or transaction record in a version other than 0. A DecodeError names the
    invalid field.
    """
    api_key = _api_key(_required(payload, "type"))
    version = _integer(_required(payload, "version"), "version", 0, _VERSION_MAX)
    reader = _READERS.get(api_key)
    if reader is None or (api_key == FEATURE_LEVEL_API_KEY and version != RECORD_VERSION):
        return _read_other(payload, api_key, version)
    if version != RECORD_VERSION:
        raise UnsupportedVersionError(
            f"{record_type_name(api_key)} version {version}, only {RECORD_VERSION} is known"
        )
    data = _required(payload, "data")
    if not isinstance(data, Mapping):
        raise DecodeError(f"data must be an object, not {_shown(data)}")
    known, read = reader
    unknown = [name for name in data if name not in known]
    if unknown:
        raise DecodeError(f"{record_type_name(api_key)} has no field {_shown(unknown[0])}")
    return read(data)


def _api_key(name: Any) -> int:
    if isinstance(name, str):
        if name in _API_KEYS:
            return _API_KEYS[name]
        number = name.removeprefix(UNKNOWN_TYPE_PREFIX)
        if number != name and number.isascii() and number.isdecimal() and int(number) <= _VERSION_MAX:
            return int(number)
    raise DecodeError(f"type {_shown(name)} is not one of Kafka's metadata records")


def _required(fields: Mapping[str, Any], name: str) -> Any:
    try:
        return fields[name]
    except KeyError:
        raise DecodeError(f"{name} is missing") from None


def _integer(value: Any, name: str, lowest: int, highest: int) -> int:
    # In Python a bool is an int.
    if type(value) is not int or not lowest <= value <= highest:
        raise DecodeError(f"{name} must be an integer from {lowest} to {highest}, not {_shown(value)}")
    return value


def _int8(data: Mapping[str, Any], name: str) -> int:
    return _integer(_required(data, name), name, -128, 127)


def _text(data: Mapping[str, Any], name: str) -> str:
    value = _required(data, name)
    if not isinstance(value, str):
        raise DecodeError(f"{name} must be text, not {_shown(value)}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DecodeError(f"{name} holds half of a surrogate pair at character {error.start}") from error
    return value


def _optional_text(data: Mapping[str, Any], name: str) -> str | None:
    return None if data.get(name) is None else _text(data, name)


def _id(data: Mapping[str, Any]) -> Uuid:
    return uuid_from_string(_text(data, "id"))


def _shown(value: Any) -> str:
    """``value`` for a message, shortened."""
    if isinstance(value, int) and not -_SHOWN_MAX < value < _SHOWN_MAX:
        return "a huge number"
    if isinstance(value, str | int | float | None):
        text = repr(value)
        return text if len(text) <= 80 else f"{text[:77]}..."
    return "an object" if isinstance(value, Mapping) else "a list"


def _read_acl(data: Mapping[str, Any]) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        _id(data),
        _int8(data, "resourceType"),
        _text(data, "resourceName"),
        _int8(data, "patternType"),
        _text(data, "principal"),
        _text(data, "host"),
        _int8(data, "operation"),
        _int8(data, "permissionType"),
    )


def _read_remove(data: Mapping[str, Any]) -> RemoveAccessControlEntryRecord:
    return RemoveAccessControlEntryRecord(_id(data))


def _read_other(payload: Mapping[str, Any], api_key: int, version: int) -> OtherRecord:
    """As of a frame: only type and version if the rest cannot be read."""
    read, data = _OTHERS.get(api_key), payload.get("data")
    if read is not None and isinstance(data, Mapping):
        with suppress(msgspec.ValidationError, DecodeError):
            return read(data, api_key, version)
    return OtherRecord(api_key, version)


def _read_topic(data: Mapping[str, Any], api_key: int, version: int) -> OtherRecord:
    name = _text(data, "name") if api_key == TOPIC_API_KEY else None
    return TopicRecord(api_key, version, uuid_from_string(_text(data, "topicId")), name)


def _read_broker(data: Mapping[str, Any], api_key: int, version: int) -> OtherRecord:
    broker = msgspec.convert(data, _Broker)
    if api_key == UNREGISTER_BROKER_API_KEY:
        return BrokerRecord(api_key, version, broker.broker_id, None)
    for feature in broker.features:
        if feature.name == METADATA_VERSION_FEATURE:
            levels = SupportedLevels(feature.min_supported_version, feature.max_supported_version)
            return BrokerRecord(api_key, version, broker.broker_id, levels)
    return OtherRecord(api_key, version)


class _Feature(msgspec.Struct, rename="camel"):
    name: str
    min_supported_version: int
    max_supported_version: int


class _Broker(msgspec.Struct, rename="camel"):
    broker_id: int
    features: list[_Feature] = []


def _read_scram_credential(data: Mapping[str, Any], api_key: int, version: int) -> OtherRecord:
    return ScramCredentialRecord(api_key, version, _text(data, "name"), _int8(data, "mechanism"))


def _read_delegation_token(data: Mapping[str, Any], api_key: int, version: int) -> OtherRecord:
    owner = _text(data, "owner") if api_key == DELEGATION_TOKEN_API_KEY else None
    return DelegationTokenRecord(api_key, version, _text(data, "tokenId"), owner)


def _read_feature_level(data: Mapping[str, Any]) -> FeatureLevelRecord:
    level = _integer(_required(data, "featureLevel"), "featureLevel", -0x8000, 0x7FFF)
    return FeatureLevelRecord(_text(data, "name"), level)


def _read_begin(data: Mapping[str, Any]) -> BeginTransactionRecord:
    return BeginTransactionRecord(_optional_text(data, "name"))


def _read_end(_data: Mapping[str, Any]) -> EndTransactionRecord:
    return EndTransactionRecord()


def _read_abort(data: Mapping[str, Any]) -> AbortTransactionRecord:
    return AbortTransactionRecord(_optional_text(data, "reason"))


_ACL_FIELDS: Final = frozenset(
    (
        "id",
        "resourceType",
        "resourceName",
        "patternType",
        "principal",
        "host",
        "operation",
        "permissionType",
    )
)
_Reader = Callable[[Mapping[str, Any]], MetadataRecord]

# Allowed keys of a record's data, and the reader.
_READERS: Final[dict[int, tuple[frozenset[str], _Reader]]] = {
    ACCESS_CONTROL_ENTRY_API_KEY: (_ACL_FIELDS, _read_acl),
    REMOVE_ACCESS_CONTROL_ENTRY_API_KEY: (frozenset({"id"}), _read_remove),
    FEATURE_LEVEL_API_KEY: (frozenset({"name", "featureLevel"}), _read_feature_level),
    BEGIN_TRANSACTION_API_KEY: (frozenset({"name"}), _read_begin),
    END_TRANSACTION_API_KEY: (frozenset(), _read_end),
    ABORT_TRANSACTION_API_KEY: (frozenset({"reason"}), _read_abort),
}

# Readers of ignored records.
_OTHERS: Final[dict[int, Callable[[Mapping[str, Any], int, int], OtherRecord]]] = {
    REGISTER_BROKER_API_KEY: _read_broker,
    UNREGISTER_BROKER_API_KEY: _read_broker,
    TOPIC_API_KEY: _read_topic,
    REMOVE_TOPIC_API_KEY: _read_topic,
    DELEGATION_TOKEN_API_KEY: _read_delegation_token,
    REMOVE_DELEGATION_TOKEN_API_KEY: _read_delegation_token,
    USER_SCRAM_CREDENTIAL_API_KEY: _read_scram_credential,
    REMOVE_USER_SCRAM_CREDENTIAL_API_KEY: _read_scram_credential,
}
