"""Kafka's snapshot files: ``<end offset, 20 digits>-<epoch, 10 digits>.checkpoint`` next to a metadata log.

Source: KIP-630, org.apache.kafka.snapshot.{Snapshots, RecordsSnapshotWriter, RecordsSnapshotReader},
org.apache.kafka.image.MetadataImage.write. The rules:

- The file consists of record batches whose offsets count from 0. The first record is the control record
  SnapshotHeader (time of the last log record in the snapshot), the last one SnapshotFooter; without it the
  file is unfinished. Only the file's name has the position in the log.
- Feature levels come first, metadata.version before the others; ACLs are unordered.
- Only records of other types are skipped. A missing batch, a removal or a transaction marker makes the file
  corrupt.
- ACLs have no log offsets, and the time of the record in the file instead of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from records.batch import MAGIC, MAGIC_AT, decode_batch, encode_batch
from records.codecs.kraft import encode_frame
from records.columns.acl_table import AclTable, AppliedAcl
from records.columns.batches import to_log_batches
from records.control import (
    ControlType,
    encode_control_key,
    snapshot_footer_value,
    snapshot_header_timestamp_ms,
    snapshot_header_value,
)
from records.entries import (
    METADATA_VERSION_FEATURE,
    AccessControlEntryRecord,
    ControlRecord,
    FeatureLevelRecord,
    OtherRecord,
)
from records.errors import DecodeError, UnsupportedVersionError
from records.log.base import CheckpointId
from snapshot.errors import (
    SnapshotCorruptError,
    SnapshotError,
    SnapshotMissingError,
    SnapshotUnsupportedError,
)
from snapshot.files.atomic_file import atomic_write, make_directories
from snapshot.image import AclsImage, Provenance, restore_image
from snapshot.metadata_image import MetadataImage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from records.columns.record_table import TableRecords
    from records.log.base import MetadataLog
    from records.log_batch import LazyRecords, LogRecord


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


#: The first records of a new cluster, in a formatted directory: the same format without a position in a log.
BOOTSTRAP_NAME: Final = "bootstrap.checkpoint"


def is_checkpoint(path: Path) -> bool:
    """Whether a file is a checkpoint, by its name and the start of its first batch; it may be damaged."""
    try:
        with path.open("rb") as file:
            beginning = file.read(MAGIC_AT + 1)
    except OSError as error:
        raise SnapshotError(f"cannot read {path}: {error.strerror or error}") from error
    # Offset 0, and the only version of record batches since Kafka has snapshots.
    is_batch = beginning[:8] == bytes(8) and beginning[MAGIC_AT:] == bytes([MAGIC])
    return is_batch and CheckpointId.parse(path.name) is not None


def read_checkpoint(path: str | Path) -> AclsImage:
    """Read a checkpoint file, or a ``bootstrap.checkpoint``.

    Raises:
        SnapshotMissingError: no such file.
        SnapshotCorruptError: not a checkpoint's name, unfinished, or damaged.
        SnapshotUnsupportedError: an ACL record in a version that this build does not know.
        SnapshotError: the file cannot be read.
    """
    path = Path(path)
    checkpoint = CheckpointId(0, 0) if path.name == BOOTSTRAP_NAME else CheckpointId.parse(path.name)
    if checkpoint is None:
        raise SnapshotCorruptError(
            f"{path} has no checkpoint's name; it must be like {CheckpointId(0, 0).name}, END_OFFSET-EPOCH"
        )
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise SnapshotMissingError(f"there is no file {path}") from error
    except OSError as error:
        raise SnapshotError(f"cannot read {path}: {error.strerror or error}") from error
    return decode_checkpoint(data, end_offset=checkpoint.end_offset, epoch=checkpoint.epoch, source=str(path))


def decode_checkpoint(data: bytes, *, end_offset: int, epoch: int, source: str) -> AclsImage:
    """The same for the bytes of a file; ``source`` names it in errors, as those of ``read_checkpoint``."""
    try:
        return _decode(data, end_offset, epoch)
    except UnsupportedVersionError as error:
        raise SnapshotUnsupportedError(str(error.located(source=source))) from error
    except DecodeError as error:
        raise SnapshotCorruptError(str(error.located(source=source))) from error


def checkpoint_of(log: MetadataLog, checkpoint: CheckpointId) -> AclsImage:
    """Read one of ``log.checkpoints()``; raises as ``read_checkpoint``.

    LogError, OSError: it cannot be read any more; there may be a newer one.
    """
    return decode_checkpoint(
        log.checkpoint_bytes(checkpoint),
        end_offset=checkpoint.end_offset,
        epoch=checkpoint.epoch,
        source=str(checkpoint.path or f"{log.url} {checkpoint.name}"),
    )


def write_checkpoint(image: AclsImage, directory: str | Path) -> Path:
    """Write the image as Kafka would, into ``directory``, atomically; equal images give equal files.

    EncodeError: an ACL that the format cannot hold: a text of more than 32,767 bytes, say. SnapshotError: the
    file, which is returned, cannot be written.
    """
    provenance = image.provenance
    path = Path(directory) / CheckpointId(provenance.end_offset, provenance.epoch).name
    try:
        make_directories(path.parent)
        with atomic_write(path) as file:
            file.writelines(_batches(image))
    except OSError as error:
        raise SnapshotError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _decode(data: bytes, end_offset: int, epoch: int) -> AclsImage:
    content = _Content()
    position = offset = 0
    while position < len(data):
        if content.has_footer:
            raise DecodeError("something follows the snapshot's footer", position=position)
        batch = decode_batch(data, position)
        if batch.base_offset != offset or batch.record_count != batch.end_offset - offset:
            raise DecodeError("records are missing", offset=offset, position=position)
        decoded, error = to_log_batches([batch])
        if error is not None:
            raise error
        content.add(decoded[0].records, position)
        offset = batch.end_offset
        position += batch.size_bytes
    if content.timestamp_ms is None or not content.has_footer:
        raise DecodeError("the snapshot is unfinished: it has no footer", position=position)
    return restore_image(
        content.tables,
        provenance=Provenance(end_offset, epoch, content.timestamp_ms),
        metadata=content.metadata,
    )


class _Content:
    def __init__(self) -> None:
        self.tables: list[AclTable] = []
        self.metadata = MetadataImage.EMPTY
        self.timestamp_ms: int | None = None
        self.has_footer = False

    def add(self, records: tuple[LogRecord, ...] | LazyRecords, position: int) -> None:
        """Add the records of the batch at ``position``. Raises DecodeError."""
        if not isinstance(records, tuple):
            found = cast("TableRecords", records).acls_and_others()  # the only kind of lazy records
            if found is not None:
                table, records = found
                self.tables.append(table.without_offsets())
        acls: list[AppliedAcl] = []
        for logged in records:
            match logged.record:
                case AccessControlEntryRecord() as acl:
                    acls.append(AppliedAcl(acl, None, logged.timestamp_ms))
                case FeatureLevelRecord() | OtherRecord() as other:
                    self.metadata = self.metadata.with_record(other)
                case ControlRecord(type=ControlType.SNAPSHOT_HEADER) as header if logged.offset == 0:
                    self.timestamp_ms = snapshot_header_timestamp_ms(header)
                case ControlRecord(type=ControlType.SNAPSHOT_FOOTER):
                    self.has_footer = True
                case ControlRecord():
                    pass  # of the quorum: kraft.version, voters
                case other:
                    raise DecodeError(
                        f"{type(other).__name__} is not allowed in a snapshot",
                        offset=logged.offset,
                        position=position,
                    )
        if self.timestamp_ms is None:
            raise DecodeError("the file does not begin with a snapshot's header", position=position)
        if acls:
            self.tables.append(AclTable.of(acls))


def _batches(image: AclsImage) -> Iterator[bytes]:
    batches = SnapshotBatches(epoch=image.provenance.epoch, timestamp_ms=image.provenance.timestamp_ms)
    yield batches.header()
    yield from batches.records([*feature_records(image.metadata.features), *acl_records(image)])
    yield batches.footer()


def acl_records(image: AclsImage) -> list[AccessControlEntryRecord]:
    """By id: equal images give equal files."""
    return sorted((acl.record for acl in image), key=lambda record: record.id)
