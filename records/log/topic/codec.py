"""One record as a message: key, value, headers. Pure.

    key       the ACL's id as Kafka prints it, 22 characters (16 bytes and null are accepted too)
    value     Avro (records.codecs.avro); a KRaft frame (records.codecs.kraft) is accepted too;
              null: the ACL with the key's id is removed
    header    aclog.tx: id of the transaction, index and number of its records (transaction_assembler.py)

A removal is two messages: the record, for readers of the topic, and a null value, so that compaction finally
deletes both.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Final

from records.codecs.avro import decode, encode
from records.codecs.avro_header import MAGIC
from records.codecs.kraft import FRAME_VERSION, decode_frame
from records.columns.batches import COLUMNS_FROM
from records.entries import AccessControlEntryRecord, MetadataRecord, RemoveAccessControlEntryRecord
from records.errors import DecodeError, EncodeError
from records.ids import UUID_BYTES, Uuid, uuid_from_string, uuid_to_string
from records.log_batch import LogRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from records.columns.record_table import TableRecords
    from records.columns.values import Ints, Values

_KEY_CHARACTERS: Final = 22
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_AVRO: Final = MAGIC[0]

Message = tuple[bytes, bytes | None]


def encode_messages(records: Sequence[MetadataRecord]) -> list[Message]:
    """Encode records as keys and values, in order.

    Raises:
        EncodeError: not an ACL or its removal, or a field that the format cannot hold.
    """
    messages: list[Message] = []
    for record in records:
        match record:
            case AccessControlEntryRecord():
                messages.append((_key(record.id), encode(record)))
            case RemoveAccessControlEntryRecord():
                key = _key(record.id)
                messages += [(key, encode(record)), (key, None)]
            case _:
                raise EncodeError(
                    f"a topic log holds ACLs and their removals, not {type(record).__name__}: "
                    "compaction would retain at most one of each kind"
                )
    return messages


def decode_message(key: bytes | None, value: bytes | None) -> MetadataRecord:
    """Decode a message.

    Raises:
        DecodeError: a null value without a key, a key of another ACL, or an invalid value. The caller adds
            the offset.
    """
    if value is None:
        if key is None:
            raise DecodeError("neither key nor value: it is unknown which ACL is removed")
        return RemoveAccessControlEntryRecord(_id(key))
    first = value[0] if value else None
    record: MetadataRecord
    if first == _AVRO:
        record = decode(value)
    elif first == FRAME_VERSION:
        record = decode_frame(value)
    else:
        raise DecodeError("the value is neither Avro nor a KRaft frame", position=0)
    if (
        key is not None
        and isinstance(record, AccessControlEntryRecord | RemoveAccessControlEntryRecord)
        and key != _key(record.id)
        and _id(key) != record.id
    ):
        raise DecodeError(
            f"the key is {uuid_to_string(_id(key))}, but the value is about {uuid_to_string(record.id)}"
        )
    return record


def decode_messages(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    offsets: Sequence[int],
    timestamps_ms: Sequence[int],
    *,
    columns_from: int = COLUMNS_FROM,
) -> tuple[tuple[LogRecord, ...] | TableRecords, DecodeError | None]:
    """Decode messages up to the first that cannot be decoded; returns them and its error."""
    if len(values) < max(columns_from, 1):
        records: list[LogRecord] = []
        for key, value, offset, timestamp_ms in zip(keys, values, offsets, timestamps_ms, strict=True):
            try:
                records.append(LogRecord(offset, timestamp_ms, decode_message(key, value)))
            except DecodeError as error:
                return tuple(records), error.located(offset=offset)
        return tuple(records), None
    # Loads Arrow.
    import numpy as np  # noqa: PLC0415

    from records.columns.values import Values  # noqa: PLC0415

    return decode_columns(Values.of(keys), Values.of(values), np.array(offsets), np.array(timestamps_ms))


def decode_columns(
    keys: Values, values: Values, offsets: Ints, timestamps_ms: Ints
) -> tuple[tuple[()] | TableRecords, DecodeError | None]:
    """As ``decode_messages``, of columns."""
    from records.columns.record_table import RecordTable, TableRecords  # noqa: PLC0415

    table = RecordTable(values, offsets, timestamps_ms, keys=keys)
    other_records: dict[int, MetadataRecord] = {}
    end, problem = len(values), None
    for row in table.unread.tolist():
        try:
            other_records[row] = decode_message(keys.value(row), values.value(row))
        except DecodeError as error:
            end, problem = row, error.located(offset=offsets.item(row))
            break
    table.set_other_records(other_records)
    return TableRecords((table, 0, end)) if end else (), problem


def _key(acl_id: bytes) -> bytes:
    return binascii.b2a_base64(acl_id, newline=False)[:_KEY_CHARACTERS].translate(_URL_SAFE)


def _id(key: bytes) -> Uuid:
    if len(key) == UUID_BYTES:
        return Uuid(key)
    return uuid_from_string(key.decode("latin-1"))
