"""``aclog log verify``: every committed batch of a log, its state, and how another source of it compares."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.cli.compare import Differences
from authorizer.cli.failure import ExitCode
from authorizer.cli.options import config_option, json_option, log_option, progress_option, snapshots_option
from authorizer.cli.output import Progress, note, print_json, shown
from authorizer.cli.place import Place, is_guess, is_log, load_state, note_skipped
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import uuid_to_string
from records.log.open import open_log
from snapshot.digest import digest_to_string
from snapshot.errors import SnapshotMissingError
from snapshot.image import AclsImage
from snapshot.store import SnapshotStore

if TYPE_CHECKING:
    from records.log.base import MetadataLog

#: Differences of each kind that are printed.
_SHOWN: Final = 10


@click.command("verify")
@log_option
@click.option(
    "--with",
    "other",
    metavar="URL|STORE",
    help="Also compare the state with that of another log, or of a store's newest snapshot, at one offset.",
)
@click.option(
    "--at-offset",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="Where to compare: the state after this record.  [default: the last offset that both have; the "
    "ends of two different logs]",
)
@snapshots_option
@config_option
@json_option
@progress_option
def verify_command(
    *,
    log_url: str | None,
    other: str | None,
    at_offset: int | None,
    snapshots_url: str | None,
    config_file: str | None,
    as_json: bool,
    progress: bool | None,
) -> None:
    """Read every committed batch of a log, and say what it holds.

    Checks each batch's CRC, that offsets rise, that every record that aclog must understand decodes, and that
    the state can be built. Exit code 4 when the log is damaged, 1 when --with differs.

    \b
    Examples:
      aclog log verify --log /var/kafka/__cluster_metadata-0
      aclog log verify --log DIR --with s3://bucket/snapshots
      aclog log verify --log DIR --with OTHER-DIR --json
    """
    if at_offset is not None and other is None:
        raise click.UsageError("--at-offset says where to compare: it goes with --with")
    place = Place.named(config_file=config_file, log_url=log_url, snapshots_url=snapshots_url)
    with place.log() as log:
        with Progress("offsets", wanted=progress) as shown_progress:
            walk = _Walk.through(log, shown_progress)
        image = place.state(log).image
        report = _report(log, walk, image)
        comparison = None if other is None else _compare(place, log, other, at_offset)
    if as_json:
        print_json(report if comparison is None else report | {"comparison": comparison.to_json()})
    else:
        _print(report)
        if comparison is not None:
            comparison.print()
    if comparison is not None and comparison.differences:
        raise click.exceptions.Exit(ExitCode.NO)


@dataclass(slots=True)
class _Walk:
    """What was met on the way from the log's start to its high watermark."""

    start: int
    end: int
    batches: int = 0
    size_bytes: int = 0
    types: Counter[str] = field(default_factory=Counter)
    epochs: set[int] = field(default_factory=set)
    missing: int = 0

    @classmethod
    def through(cls, log: MetadataLog, progress: Progress) -> _Walk:
        """Read it all. Raises DecodeError or LogCorruptError at the first damage."""
        walk = cls(log.start_offset(), log.high_watermark())
        position = walk.start
        while position < walk.end and (batches := log.read(position)):
            for batch in batches:
                # Not an error by itself: a transaction marker or compaction leaves holes (I6).
                walk.missing += max(batch.base_offset - position, 0)
                walk.missing += batch.end_offset - batch.base_offset - len(batch.records)
                walk.batches += 1
                walk.size_bytes += batch.size_bytes
                walk.epochs.add(batch.epoch)
                walk.types.update(map(_type_name, (logged.record for logged in batch.records)))
                position = batch.end_offset
            progress.at(position - walk.start, walk.end - walk.start)
        return walk


def _type_name(record: object) -> str:
    match record:
        case AccessControlEntryRecord():
            return "added"
        case RemoveAccessControlEntryRecord():
            return "removed"
        case _:
            return "other"


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Two states: at one offset of one log, or at the ends of two logs."""

    other: str
    end_offset: int
    other_end_offset: int
    digest_here: str
    digest_there: str
    differences: Differences

    @classmethod
    def of(cls, other: str, here: AclsImage, there: AclsImage) -> _Comparison:
        return cls(
            other,
            here.provenance.end_offset,
            there.provenance.end_offset,
            digest_to_string(here.digest),
            digest_to_string(there.digest),
            Differences.between(here, there),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "with": self.other,
            "endOffset": self.end_offset,
            "otherEndOffset": self.other_end_offset,
            "equal": not self.differences,
            "digest": self.digest_here,
            "otherDigest": self.digest_there,
            **self.differences.to_json(_SHOWN),
        }

    def print(self) -> None:
        where = f"{shown(self.other)} at end offset {self.other_end_offset}"
        if not self.differences:
            click.echo(f"compared    equal to {where}, digest {self.digest_here}")
            return
        click.echo(f"compared    DIFFERENT from {where}")
        click.echo(f"            digest {self.digest_here} here, {self.digest_there} there")
        self.differences.print(_SHOWN)


def _compare(place: Place, log: MetadataLog, other: str, at_offset: int | None) -> _Comparison:
    if not is_log(other):
        there = _stored(SnapshotStore(other), log, at_offset)
        # No store takes part in this, or it might vouch for itself.
        return _Comparison.of(other, _below(log, None, there.provenance.end_offset), there)
    with closing(open_log(other, mode="read")) as other_log:
        here_end, there_end = log.high_watermark(), other_log.high_watermark()
        if at_offset is not None:
            here_end = there_end = at_offset + 1
        elif other_log.identity == log.identity:
            here_end = there_end = min(here_end, there_end)
        else:
            note(f"note: {other} is another log, of cluster {shown(other_log.identity.cluster_id)}")
        store = place.store() if place.has_store else None
        return _Comparison.of(other, _below(log, store, here_end), _below(other_log, store, there_end))


def _below(log: MetadataLog, store: SnapshotStore | None, end_offset: int) -> AclsImage:
    return load_state(log, store, at_offset=end_offset - 1).image if end_offset else AclsImage.EMPTY


def _stored(store: SnapshotStore, log: MetadataLog, at_offset: int | None) -> AclsImage:
    if at_offset is not None:
        for ref in store.list(log.identity):
            if ref.end_offset == at_offset + 1:
                return store.read(ref, log.identity).image
        raise SnapshotMissingError(f"{store.url} has no snapshot that ends with offset {at_offset}")
    found = store.latest(log.identity, max_end_offset=log.high_watermark(), on_skipped=note_skipped)
    if found is None:
        raise SnapshotMissingError(f"{store.url} has no usable snapshot of cluster {log.identity.cluster_id}")
    return found.image


def _report(log: MetadataLog, walk: _Walk, image: AclsImage) -> dict[str, Any]:
    return {
        "log": log.url,
        "clusterId": log.identity.cluster_id,
        "topicId": uuid_to_string(log.identity.topic_id),
        "startOffset": walk.start,
        "highWatermark": walk.end,
        "highWatermarkIsGuess": is_guess(log),
        "batches": walk.batches,
        "bytes": walk.size_bytes,
        "epochs": sorted(walk.epochs),
        "records": walk.types.total(),
        "aclsAdded": walk.types["added"],
        "aclsRemoved": walk.types["removed"],
        "missingOffsets": walk.missing,
        "aclCount": len(image),
        "digest": digest_to_string(image.digest),
    }


def _print(report: dict[str, Any]) -> None:
    click.echo(f"log         {shown(report['log'])}, cluster {shown(report['clusterId'])}")
    guess = " (a guess: the last whole batch)" if report["highWatermarkIsGuess"] else ""
    click.echo(
        f"offsets     {report['startOffset']} up to the high watermark {report['highWatermark']}{guess}"
    )
    epochs = ", ".join(map(str, report["epochs"])) or "none"
    click.echo(f"batches     {report['batches']}, all whole; {report['bytes']:,} bytes; epochs {epochs}")
    added, removed = report["aclsAdded"], report["aclsRemoved"]
    others = report["records"] - added - removed
    click.echo(f"records     {report['records']}: {added} ACLs added, {removed} removed, {others} others")
    if report["missingOffsets"]:
        click.echo(
            f"missing     {report['missingOffsets']} offsets, as compaction and transactions leave them"
        )
    click.echo(f"state       {report['aclCount']} ACLs, digest {report['digest']}")
