"""A workload as a node finds it: a directory log with its ACLs, and a snapshot of them. Made once, kept."""

from __future__ import annotations

import base64
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import msgspec

from benchmarks.history import ChurnRecord, churn
from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from records.log.directory import DirectoryLog
from replay.load import load_image
from snapshot.store.snapshot_store import SnapshotStore

#: Records in a batch: what a controller writes for `kafka-acls --add` with a few operations ...
FEW_RECORDS = 5
#: ... and in an import.
MANY_RECORDS = 500
_RECORDS_PER_ACL = 10


class _Data(msgspec.Struct):
    id: str
    resourceType: int  # noqa: N815 - Kafka's name
    resourceName: str  # noqa: N815
    patternType: int  # noqa: N815
    principal: str
    host: str
    operation: int
    permissionType: int  # noqa: N815


class _Line(msgspec.Struct):
    data: _Data


def read_acls(file: Path) -> Iterator[AccessControlEntryRecord]:
    """The records of an ``acls.jsonl``."""
    decode = msgspec.json.Decoder(_Line).decode
    with file.open("rb") as lines:
        for line in lines:
            data = decode(line).data
            yield AccessControlEntryRecord(
                Uuid(base64.urlsafe_b64decode(data.id + "==")),
                data.resourceType,
                data.resourceName,
                data.patternType,
                data.principal,
                data.host,
                data.operation,
                data.permissionType,
            )


def log_directory(workload: Path, *, batch_records: int = MANY_RECORDS, limit: int | None = None) -> Path:
    """The log with the ACLs of the workload, or the first ``limit`` of them."""
    directory = workload / f"log-{batch_records}-{limit or 'all'}"
    if not directory.is_dir():
        _write_log(directory, islice(read_acls(workload / "acls.jsonl"), limit), batch_records)
    return directory


def log_with_history(workload: Path, *, records: int) -> tuple[Path, int]:
    """A log ten times as long as it has ACLs in force, and how many these are in the end."""
    acls = list(islice(read_acls(workload / "acls.jsonl"), records // _RECORDS_PER_ACL))
    in_force: set[Uuid] = set()
    for record in islice(churn(acls), records):
        if isinstance(record, AccessControlEntryRecord):
            in_force.add(record.id)
        else:
            in_force.remove(record.id)
    directory = workload / f"log-with-history-{records}"
    if not directory.is_dir():
        _write_log(directory, islice(churn(acls), records), MANY_RECORDS)
    return directory, len(in_force)


def _write_log(directory: Path, records: Iterator[ChurnRecord], batch_records: int) -> None:
    unfinished = directory.with_name(f"{directory.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    with DirectoryLog.open(unfinished, mode="create") as log:
        log.append_batches(_batches(records, batch_records))
    unfinished.rename(directory)


@contextmanager
def writable_log(workload: Path) -> Iterator[Path]:
    """A copy of the log to be appended to, the snapshots' own log still; deleted in the end."""
    with tempfile.TemporaryDirectory(dir=workload, prefix="log-writable-") as scratch:
        yield shutil.copytree(log_directory(workload), Path(scratch) / "log")


def _batches(records: Iterator[ChurnRecord], size: int) -> Iterator[tuple[list[ChurnRecord], None]]:
    while batch := list(islice(records, size)):
        yield batch, None


def snapshot_directory(workload: Path) -> Path:
    """A snapshot store with one snapshot: at the end of the log."""
    directory = workload / "snapshots-2"  # since the digest is of frames
    if not directory.is_dir():
        unfinished = workload / f"{directory.name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        with DirectoryLog.open(log_directory(workload)) as log:
            image = load_image(log).image
            SnapshotStore(unfinished).write(image, log.identity, log_end_time_ms=int(time.time() * 1000))
        unfinished.rename(directory)
    return directory
