"""Record batches of Kafka's snapshot files, as they are written: offsets count on from batch to batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from records.batch import encode_batch
from records.codecs.kraft import encode_frame
from records.control import ControlType, encode_control_key, snapshot_footer_value, snapshot_header_value
from records.entries import METADATA_VERSION_FEATURE, FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from records.entries import AccessControlEntryRecord

#: Bytes of records in one batch: a reader holds one batch at a time. Kafka writes, and reads, up to 8 MiB.
BATCH_BYTES_MAX: Final = 1024 * 1024


class SnapshotBatches:
    """Encodes one file's batches, each where the one before ended.

    Args:
        offset: of the first record.
        epoch: in the header of every batch.
        timestamp_ms: of every record, and of the last log record that is contained.
    """

    def __init__(self, *, epoch: int, timestamp_ms: int, offset: int = 0) -> None:
        self._offset = offset
        self._epoch = epoch
        self._timestamp_ms = timestamp_ms

    def header(self) -> bytes:
        """What the file begins with."""
        value = snapshot_header_value(self._timestamp_ms)
        return self._encoded([value], ControlType.SNAPSHOT_HEADER)

    def footer(self) -> bytes:
        """What it ends with: without it the file is unfinished."""
        return self._encoded([snapshot_footer_value()], ControlType.SNAPSHOT_FOOTER)

    def records(self, records: Iterable[FeatureLevelRecord | AccessControlEntryRecord]) -> Iterator[bytes]:
        """As many batches as these need.

        Raises:
            EncodeError: a record that the format cannot hold.
        """
        values: list[bytes] = []
        values_bytes = 0
        for record in records:
            value = encode_frame(record)
            if values_bytes + len(value) > BATCH_BYTES_MAX:
                yield self._encoded(values)
                values = []
                values_bytes = 0
            values.append(value)
            values_bytes += len(value)
        if values:
            yield self._encoded(values)

    def _encoded(self, values: list[bytes], control_type: ControlType | None = None) -> bytes:
        batch = encode_batch(
            values,
            base_offset=self._offset,
            epoch=self._epoch,
            timestamp_ms=self._timestamp_ms,
            keys=None if control_type is None else [encode_control_key(control_type)],
            is_control=control_type is not None,
        )
        self._offset += len(values)
        return batch


def feature_records(features: Mapping[str, int]) -> list[FeatureLevelRecord]:
    """In Kafka's order (FeaturesImage.write): metadata.version may decide how what comes after it is read."""
    names = sorted(features, key=lambda name: (name != METADATA_VERSION_FEATURE, name))
    return [FeatureLevelRecord(name, features[name]) for name in names]
