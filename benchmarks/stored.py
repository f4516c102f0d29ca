"""A workload as a node finds it: a directory log with its ACLs, and a snapshot of them. Made once, kept."""

from __future__ import annotations

import base64
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path

import msgspec
from msgspec.structs import replace

from benchmarks.history import ChurnRecord, churn
from records.acl import CLUSTER_NAME, WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from records.log.directory import DirectoryLog
from records.log_batch import LogRecord
from replay.load_image import load_image
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage
from snapshot.store.snapshot_store import SnapshotStore

#: Records in a batch: what a controller writes for `kafka-acls --add` with a few operations ...
FEW_RECORDS = 5
#: ... and in an import.
MANY_RECORDS = 500
_RECORDS_PER_ACL = 10
# Lets callers on an open listener read all ACLs of a node.
_MAY_SEE = AccessControlEntryRecord(
    Uuid(bytes(15) + b"\1"),
    ResourceType.CLUSTER,
    CLUSTER_NAME,
    PatternType.LITERAL,
    "User:ANONYMOUS",
    WILDCARD,
    AclOperation.DESCRIBE,
    AclPermissionType.ALLOW,
)
#: Of the second one of two snapshots.
EDITS = 10


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


def log_with_past(workload: Path, *, moments: int) -> Path:
    """The ACLs of the workload, then so many small batches that change some. Everyone may see all of it."""
    directory = workload / f"log-with-past-{moments}"
    if not directory.is_dir():
        acls = list(read_acls(workload / "acls.jsonl"))
        records = churn(acls)
        many, few = islice(records, len(acls)), islice(records, moments * FEW_RECORDS)
        _write_log(directory, chain([_MAY_SEE], many), MANY_RECORDS, few)
    return directory


def _write_log(
    directory: Path,
    records: Iterator[ChurnRecord],
    batch_records: int,
    in_small_batches: Iterable[ChurnRecord] = (),
) -> None:
    unfinished = directory.with_name(f"{directory.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    with DirectoryLog.open(unfinished, mode="create") as log:
        log.append_batches(_batches(records, batch_records))
        log.append_batches(_batches(iter(in_small_batches), FEW_RECORDS))
    unfinished.rename(directory)


@contextmanager
def writable_log(workload: Path, log: Path | None = None) -> Iterator[Path]:
    """A copy of the log, or of another one, to be appended to; deleted in the end."""
    with tempfile.TemporaryDirectory(dir=workload, prefix="log-writable-") as scratch:
        yield shutil.copytree(log or log_directory(workload), Path(scratch) / "log")


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


def edited_snapshots(workload: Path) -> tuple[str, str]:
    """Two snapshots of one store, as commands name them: between them are edits.

    Half of these take an ACL away, half narrow one to a host.
    """
    directory = workload / f"snapshots-edited-{EDITS}"
    if not directory.is_dir():
        unfinished = workload / f"{directory.name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        with DirectoryLog.open(log_directory(workload)) as log:
            image, identity = load_image(log).image, log.identity
        store = SnapshotStore(unfinished)
        for each in (image, _edited(image)):
            store.write(each, identity, log_end_time_ms=each.provenance.timestamp_ms)
        unfinished.rename(directory)
    store = SnapshotStore(directory)
    before, after = store.survey(store.clusters()[0])
    return f"{directory}@{before.ref.end_offset}", f"{directory}@{after.ref.end_offset}"


def _edited(image: AclsImage) -> AclsImage:
    columns, place = image.merged().columns, image.provenance
    delta = AclsDelta(image)
    for edit in range(EDITS):
        record = columns.acl(len(columns) // EDITS * edit).record
        narrowed = replace(record, host="10.255.255.1")
        changed = narrowed if edit % 2 else RemoveAccessControlEntryRecord(record.id)
        delta.replay(LogRecord(place.end_offset + edit, place.timestamp_ms, changed))
    return delta.apply(replace(place, end_offset=place.end_offset + EDITS))
