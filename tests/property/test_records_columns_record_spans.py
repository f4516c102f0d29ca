"""Records decoded by column, compared with records decoded one after another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from records.batch import RecordBatch, decode_batch, encode_batch
from records.columns.record_spans import find_records, may_be_plain
from records.compression import Compression
from support.raw_records import RawRecord, raw_records

some_bytes = st.none() | st.binary(max_size=200) | st.binary(min_size=9000, max_size=9001)
small_bytes = st.binary(max_size=40)
compressions = st.just(Compression.NONE) | st.sampled_from([Compression.ZSTD, Compression.GZIP])


@st.composite
def batches(draw: st.DrawFn) -> list[RecordBatch]:
    """Mostly batches of a KRaft leader; others with keys, nulls, large values, compression."""
    found: list[RecordBatch] = []
    offset = 0
    for is_plain in draw(st.lists(st.sampled_from([True, True, False]), max_size=6)):
        offset += draw(st.integers(0, 2))
        if is_plain:
            values: list[bytes | None] = list(draw(st.lists(small_bytes, min_size=1, max_size=6)))
            keys, compression = None, Compression.NONE
        else:
            values = draw(st.lists(some_bytes, min_size=1, max_size=4))
            keys = draw(st.lists(some_bytes, min_size=len(values), max_size=len(values)))
            compression = draw(compressions)
        timestamp_ms = draw(st.integers(-(10**13), 10**13))
        data = encode_batch(
            values,
            keys=keys,
            base_offset=offset,
            epoch=1,
            timestamp_ms=timestamp_ms,
            compression=compression,
        )
        found.append(decode_batch(data))
        offset = found[-1].end_offset
    return found


@given(batches=batches())
def test_columns_hold_the_records_in_order(batches: list[RecordBatch]) -> None:
    """Offsets, times and values agree for all records that the batch reports as plain."""
    candidates = [batch for batch in batches if may_be_plain(batch)]
    spans = find_records(candidates)[0] if candidates else None
    if spans is None:
        return
    places = zip(
        spans.offsets().tolist(),
        spans.record_timestamps_ms().tolist(),
        spans.value_starts.tolist(),
        spans.value_ends.tolist(),
        strict=True,
    )
    found = [RawRecord(offset, time, None, spans.data[start:end]) for offset, time, start, end in places]
    records = [record for batch in candidates for record in raw_records(batch)]
    for record, one, is_wrong in zip(records, found, spans.is_wrong.tolist(), strict=True):
        assert is_wrong or one == record
