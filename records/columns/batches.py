"""Decodes batches of a log: by column if there are many records, else record by record."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from records.content import to_log_batch
from records.errors import DecodeError
from records.log_batch import LogBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from records.batch import RecordBatch
    from records.columns.record_table import TableRecords

#: From this number of records on, a read is decoded by column. That loads Arrow, which takes 0.1 s. It comes
#: with the extra `snapshots`; without it each record is decoded by itself.
COLUMNS_FROM: Final = 2000 if find_spec("pyarrow") is not None else sys.maxsize


def to_log_batches(
    batches: Sequence[RecordBatch], *, columns_from: int = COLUMNS_FROM
) -> tuple[list[LogBatch], DecodeError | None]:
    """Decode batches up to the first that cannot be decoded; returns them and its error."""
    found: list[TableRecords | None] = [None] * len(batches)
    if sum([batch.record_count for batch in batches]) >= columns_from:
        from records.columns.record_spans import table_records  # noqa: PLC0415 - loads Arrow

        found = table_records(batches)
    decoded: list[LogBatch] = []
    for batch, records in zip(batches, found, strict=True):
        if records is None:
            try:
                decoded.append(to_log_batch(batch))
            except DecodeError as error:
                return decoded, error
        else:
            decoded.append(
                LogBatch(
                    batch.base_offset,
                    batch.last_offset + 1,
                    batch.epoch,
                    batch.max_timestamp_ms,
                    batch.size_bytes,
                    records,
                )
            )
    return decoded, None
