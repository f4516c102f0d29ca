"""LogRecord and LogBatch: decoded records of any kind of log, independent of formats.

Decoders create them, and the fold applies them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from records.entries import TRANSACTION_MARKERS, ControlRecord, MetadataRecord


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """One record with its ``offset`` in the log and ``timestamp_ms`` since the epoch (CreateTime)."""

    offset: int
    timestamp_ms: int
    record: MetadataRecord | ControlRecord


class LazyRecords(Sequence[LogRecord]):
    """At least one record, in offset order; objects are created on access. Immutable.

    ``has_markers``: whether one of them begins, ends or aborts a metadata transaction.
    """

    __slots__ = ("has_markers", "offsets")

    offsets: tuple[int, int]
    has_markers: bool

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, tuple | LazyRecords) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


class LogBatch(msgspec.Struct, frozen=True, gc=False):
    """One committed record batch: the unit in which state becomes visible (I2).

    Attributes:
        base_offset: offset of its first record when it was written.
        end_offset: one past the last offset that it covers (compaction may have removed records).
        timestamp_ms: greatest timestamp in the batch.
        records: in offset order; control records are only in control batches.
    """

    base_offset: int
    end_offset: int
    epoch: int
    timestamp_ms: int
    size_bytes: int
    records: tuple[LogRecord, ...] | LazyRecords

    @property
    def record_offsets(self) -> tuple[int, int] | None:
        """Offsets of its first and last record; None: it has no records."""
        records = self.records
        if isinstance(records, tuple):
            return (records[0].offset, records[-1].offset) if records else None
        return records.offsets

    @property
    def has_markers(self) -> bool:
        """Whether a metadata transaction begins, ends or is aborted in it."""
        records = self.records
        if isinstance(records, tuple):
            return any(type(logged.record) in TRANSACTION_MARKERS for logged in records)
        return records.has_markers
