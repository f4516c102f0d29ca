"""Encoder of the record batches of Kafka's snapshot files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from records.batch import encode_batch
from records.codecs.kraft import encode_frame
from records.control import ControlType, encode_control_key, snapshot_footer_value, snapshot_header_value
from records.entries import METADATA_VERSION_FEATURE, AccessControlEntryRecord, FeatureLevelRecord

#: Bytes of records in one batch: readers hold one batch in memory. Kafka writes and reads up to 8 MiB.
BATCH_BYTES_MAX: Final = 1024 * 1024


class SnapshotBatches:
    """Encodes one file's batches with consecutive offsets.

    All records have the timestamp of the snapshot's last log record.
    """

    def __init__(self, *, epoch: int, timestamp_ms: int, offset: int = 0) -> None:
        self._offset = offset
        self._epoch = epoch
        self._timestamp_ms = timestamp_ms

    def header(self) -> bytes:
        value = snapshot_header_value(self._timestamp_ms)
        return self._encoded([value], ControlType.SNAPSHOT_HEADER)

    def footer(self) -> bytes:
        """The file's last batch; without it the file is unfinished."""
        return self._encoded([snapshot_footer_value()], ControlType.SNAPSHOT_FOOTER)

    def records(self, records: Iterable[FeatureLevelRecord | AccessControlEntryRecord]) -> Iterator[bytes]:
        """The batches of these records. Raises EncodeError: a record that the format cannot hold."""
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
    """In Kafka's order (FeaturesImage.write): metadata.version comes first, as it affects later records."""
    names = sorted(features, key=lambda name: (name != METADATA_VERSION_FEATURE, name))
    return [FeatureLevelRecord(name, features[name]) for name in names]
