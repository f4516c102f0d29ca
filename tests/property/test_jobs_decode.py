"""Decoding of messages by column, compared with decoding one record after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from records.codecs.avro import encode
from records.entries import AccessControlEntryRecord, MetadataRecord, RemoveAccessControlEntryRecord
from records.errors import DecodeError
from records.ids import uuid_to_string
from records.log.topic.codec import decode_message, decode_messages
from support.column_logs import frame_of
from support.strategies import acl_records, plain_records, strange_acl_records, transactions

Message = tuple[bytes | None, bytes | None]


class Row(NamedTuple):
    """One message of a topic."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@st.composite
def messages(draw: st.DrawFn, record: MetadataRecord) -> Message:
    """One of the ways to write a record: a frame or Avro, with and without a key; a tombstone."""
    if not isinstance(record, AccessControlEntryRecord | RemoveAccessControlEntryRecord):
        return draw(st.sampled_from([None, b"any key"])), frame_of(record)
    text, raw = uuid_to_string(record.id).encode(), bytes(record.id)
    if isinstance(record, RemoveAccessControlEntryRecord) and draw(st.booleans()):
        return draw(st.sampled_from([text, raw])), None
    key = draw(st.sampled_from([None, text, text, raw]))
    value = draw(st.sampled_from([frame_of, encode]))(record)
    return key, value


def one_kind(records: Sequence[MetadataRecord], kind: str) -> list[Message]:
    """A directory's frames, or what aclog writes to a topic."""
    if kind == "frames":
        return [(None, frame_of(record)) for record in records]
    return [
        (uuid_to_string(record.id).encode(), encode(record))
        for record in records
        if isinstance(record, AccessControlEntryRecord | RemoveAccessControlEntryRecord)
    ]


single = st.one_of(acl_records(), plain_records(), strange_acl_records()).map(lambda record: [record])
histories = st.lists(single | single | transactions(), max_size=30).map(
    lambda pieces: [record for piece in pieces for record in piece]
)
cuts = st.lists(st.integers(0, 40), max_size=5)


@st.composite
def places(draw: st.DrawFn, count: int) -> list[tuple[int, int]]:
    """Offsets with gaps, and timestamps, which may decrease and may be before 1970."""
    steps = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    times = draw(st.lists(st.integers(-(10**13), 10**13), min_size=count, max_size=count))
    offsets = [sum(steps[: at + 1]) for at in range(count)]
    return list(zip(offsets, times, strict=True))


def decoded(rows: Sequence[Row], cuts: Iterable[int]) -> list[tuple[int, int, object]]:
    """Offset, timestamp and record of each message, decoded in batches that end at these positions."""
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut <= len(rows))})
    found: list[tuple[int, int, object]] = []
    for start, end in pairwise(bounds):
        offsets, timestamps_ms, keys, values = zip(*rows[start:end], strict=True)
        records, problem = decode_messages(keys, values, offsets, timestamps_ms, columns_from=1)
        if problem is not None:
            raise problem
        found += [(logged.offset, logged.timestamp_ms, logged.record) for logged in records]
    return found


def decoded_one_by_one(rows: Iterable[Row]) -> list[tuple[int, int, MetadataRecord]]:
    """Raises DecodeError with the offset."""
    records = []
    for row in rows:
        try:
            records.append((row.offset, row.timestamp_ms, decode_message(row.key, row.value)))
        except DecodeError as error:
            raise error.located(offset=row.offset) from error
    return records


@given(data=st.data(), records=histories, cuts=cuts)
def test_any_history_is_decoded_alike_in_any_split(
    data: st.DataObject, records: list[MetadataRecord], cuts: list[int]
) -> None:
    """Mixed frames, Avro and tombstones, with gaps, equal records in equal order."""
    written = [data.draw(messages(record)) for record in records]
    where = data.draw(places(len(records)))
    rows = [Row(*place, *message) for place, message in zip(where, written, strict=True)]
    assert decoded(rows, cuts) == [(*place, record) for place, record in zip(where, records, strict=True)]


@given(data=st.data(), records=histories, kind=st.sampled_from(["frames", "avro"]), cuts=cuts)
def test_a_log_with_one_kind_of_value(
    data: st.DataObject, records: list[MetadataRecord], kind: str, cuts: list[int]
) -> None:
    """The values of a directory log, and those of a topic that aclog writes."""
    written = one_kind(records, kind)
    where = data.draw(places(len(written)))
    rows = [Row(*place, *message) for place, message in zip(where, written, strict=True)]
    assert decoded(rows, cuts) == decoded_one_by_one(rows)


@st.composite
def damaged(draw: st.DrawFn, message: Message) -> Message:
    """A message with one byte changed, removed or added, or an undamaged one."""
    key, value = message
    which = draw(st.sampled_from(["nothing", "key", "value", "value"]))
    raw = bytearray((key if which == "key" else value) or b"")
    if which == "nothing" or not raw:
        return message
    at = draw(st.integers(0, len(raw) - 1))
    edit = draw(st.sampled_from(["set", "cut", "add"]))
    if edit == "set":
        raw[at] = draw(st.integers(0, 255))
    elif edit == "cut":
        del raw[at:]
    else:
        raw.insert(at, draw(st.integers(0, 255)))
    return (bytes(raw), value) if which == "key" else (key, bytes(raw))


def outcome(decoding: Callable[[], object]) -> object:
    """The result, or the error with its offset."""
    try:
        return decoding()
    except DecodeError as error:
        return type(error), error.reason, error.offset


@given(data=st.data(), records=st.lists(acl_records() | strange_acl_records(), max_size=8), cuts=cuts)
def test_damaged_messages_give_the_same_records_or_the_same_error(
    data: st.DataObject, records: list[MetadataRecord], cuts: list[int]
) -> None:
    """I7: the error has the offset of the first damaged message."""
    written = [data.draw(damaged(data.draw(messages(record)))) for record in records]
    rows = [Row(5 + at, 7, *message) for at, message in enumerate(written)]
    assert outcome(lambda: decoded(rows, cuts)) == outcome(lambda: decoded_one_by_one(rows))
