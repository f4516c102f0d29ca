"""The undecoded records of a batch."""

from __future__ import annotations

from typing import NamedTuple

from records.batch import RecordBatch
from records.content import _content, _spans


class RawRecord(NamedTuple):
    """One record as bytes, without its headers."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def raw_records(batch: RecordBatch) -> list[RawRecord]:
    """All records as bytes, in offset order; raises as `metadata_records`."""
    content = _content(batch)
    data = content.data
    return [
        RawRecord(
            offset,
            timestamp_ms,
            None if key_start < 0 else data[key_start:key_end],
            None if value_start < 0 else data[value_start:value_end],
        )
        for offset, timestamp_ms, key_start, key_end, value_start, value_end in _spans(batch, content)
    ]
