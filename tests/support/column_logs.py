"""Raw batches, decoded by column (for long reads) and record by record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from records.batch import RecordBatch, decode_batch, encode_batch
from records.codecs.kraft import encode_frame
from records.columns.batches import to_log_batches
from records.content import to_log_batch
from records.entries import MetadataRecord, OtherRecord
from records.errors import DecodeError
from records.log_batch import LogBatch
from support.other_frames import other_frame


def frame_of(record: MetadataRecord) -> bytes:
    """The frame that a broker writes."""
    return other_frame(record) if isinstance(record, OtherRecord) else encode_frame(record)


def raw_batches(lists: Iterable[Sequence[MetadataRecord]], *, start: int = 0) -> list[RecordBatch]:
    """One batch for each list of records, from this offset on; batches are one hour apart."""
    batches: list[RecordBatch] = []
    for records in lists:
        frames = [frame_of(record) for record in records]
        batches.append(
            decode_batch(
                encode_batch(frames, base_offset=start, epoch=1, timestamp_ms=3_600_000 * len(batches))
            )
        )
        start += len(frames)
    return batches


def by_column(batches: Sequence[RecordBatch]) -> tuple[list[LogBatch], DecodeError | None]:
    """Decode by column, as for a read of many records."""
    return to_log_batches(batches, columns_from=0)


def one_by_one(batches: Sequence[RecordBatch]) -> tuple[list[LogBatch], DecodeError | None]:
    """Decode record by record, as for a read of few records."""
    decoded: list[LogBatch] = []
    for batch in batches:
        try:
            decoded.append(to_log_batch(batch))
        except DecodeError as error:
            return decoded, error
    return decoded, None
