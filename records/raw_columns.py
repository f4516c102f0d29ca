"""The records of many batches as columns of bytes, whatever their keys and values say. Pure.

Batches as KRaft's leader writes them are walked together (records.plain_batches); the records of others are
taken one after another.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from records.batch_content import raw_records
from records.plain_batches import may_be_plain, walk
from records.plain_frames import pieces

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from records.batch import RecordBatch


@dataclass(frozen=True, slots=True)
class RawColumns:
    """Consecutive records, in offset order.

    Attributes:
        offsets, timestamps_ms: of each record.
        keys, values: Arrow arrays of bytes.
    """

    offsets: npt.NDArray[np.int64]
    timestamps_ms: npt.NDArray[np.int64]
    keys: Any
    values: Any


def raw_columns(batches: Iterable[RecordBatch]) -> list[RawColumns]:
    """All records of the batches, in pieces.

    Raises:
        DecodeError: what is inside of a batch is not what its header says.
    """
    columns: list[RawColumns] = []
    for is_candidate, group in groupby(batches, may_be_plain):
        alike = list(group)
        plain = _plain_columns(alike) if is_candidate else None
        columns.append(plain or _other_columns(alike))
    return columns


def _plain_columns(batches: list[RecordBatch]) -> RawColumns | None:
    """None if one of them is not plain."""
    walked, _ = walk(batches)
    if walked is None or walked.is_wrong.any():
        return None
    count = len(walked.frame_starts)
    (values,) = pieces(walked.data, (walked.frame_starts, walked.frame_ends))
    return RawColumns(
        np.arange(count) + np.repeat(walked.offset_shifts, walked.counts),
        np.repeat(walked.timestamps_ms, walked.counts),
        pa.nulls(count, pa.binary()),
        values,
    )


def _other_columns(batches: list[RecordBatch]) -> RawColumns:
    records = [record for batch in batches for record in raw_records(batch)]
    return RawColumns(
        np.array([record.offset for record in records], np.int64),
        np.array([record.timestamp_ms for record in records], np.int64),
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
    )
