"""Decoding by column in the Spark jobs, compared with decoding one record after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from records.codecs.avro import encode
from records.entries import AccessControlEntryRecord, MetadataRecord, RemoveAccessControlEntryRecord
from records.errors import DecodeError
from records.ids import uuid_to_string
from records.log.topic.codec import decode_message
from snapshot.jobs.folding.decode import decode_rows, rows_by_log
from support.column_logs import frame_of
from support.source_rows import Row, split_batches
from support.strategies import acl_records, plain_records, strange_acl_records, transactions

Message = tuple[bytes | None, bytes | None]


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


def decoded(batches: Iterable[pa.RecordBatch], start: int = 0) -> list[tuple[int, int, object]]:
    """Offset, timestamp and record of each row of the one log."""
    return [
        (logged.offset, logged.timestamp_ms, logged.record)
        for _, rows in rows_by_log(batches)
        for logged in decode_rows(rows, start, "log")
    ]


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
    """Mixed frames, Avro and tombstones, with gaps, from any start: equal records in equal order."""
    written = [data.draw(messages(record)) for record in records]
    where = data.draw(places(len(records)))
    rows = [Row(*place, *message) for place, message in zip(where, written, strict=True)]
    start = data.draw(st.integers(0, 60))
    expected = [(*place, record) for place, record in zip(where, records, strict=True) if place[0] >= start]
    assert decoded(split_batches(rows, cuts), start) == expected


@given(data=st.data(), records=histories, kind=st.sampled_from(["frames", "avro"]), cuts=cuts)
def test_a_log_with_one_kind_of_value(
    data: st.DataObject, records: list[MetadataRecord], kind: str, cuts: list[int]
) -> None:
    """The values of a directory log, and those of a topic that aclog writes."""
    written = one_kind(records, kind)
    where = data.draw(places(len(written)))
    rows = [Row(*place, *message) for place, message in zip(where, written, strict=True)]
    assert decoded(split_batches(rows, cuts)) == decoded_one_by_one(rows)


@given(data=st.data(), first=histories, second=histories, cuts=cuts)
def test_interleaved_logs_do_not_mix(
    data: st.DataObject, first: list[MetadataRecord], second: list[MetadataRecord], cuts: list[int]
) -> None:
    """Two logs in one task, in any interleaving."""
    rows: list[Row] = []
    for cluster_id, records in (("c-1", first), ("c-2", second)):
        rows += [Row(at, 7, None, frame_of(record), cluster_id) for at, record in enumerate(records)]
    turns = data.draw(st.permutations([row.cluster_id for row in rows]))
    waiting = {
        cluster_id: iter([row for row in rows if row.cluster_id == cluster_id]) for cluster_id in set(turns)
    }
    mixed = [next(waiting[turn]) for turn in turns]
    found: dict[str, list[object]] = {"c-1": [], "c-2": []}
    for cluster_id, log_rows in rows_by_log(split_batches(mixed, cuts)):
        found[cluster_id] += [(logged.offset, logged.record) for logged in decode_rows(log_rows, 0, "log")]
    assert found == {"c-1": [*enumerate(first)], "c-2": [*enumerate(second)]}


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
    assert outcome(lambda: decoded(split_batches(rows, cuts))) == outcome(lambda: decoded_one_by_one(rows))
