"""``aclog log verify``: every committed batch of a log, its state, and how other sources of it compare."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import to_builtins

from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.options import (
    config_option,
    json_option,
    log_option,
    offset_option,
    progress_option,
    snapshots_option,
)
from authorizer.cli.rendering.acls import LABEL
from authorizer.cli.rendering.output import Progress, Waiting, answer, note, print_json, shown
from authorizer.cli.sidecar import credentials_options
from authorizer.cli.workspace import Workspace, described, has_beginning, load_state
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.errors import OffsetOutOfRangeError
from records.ids import uuid_to_string
from records.log.base import read_with_retry
from replay.errors import LogChangedError

if TYPE_CHECKING:
    from records.log.base import MetadataLog, TrailingBytes
    from snapshot.image import AclsImage


#: A broker writes a batch in one call; an incomplete batch that is older is not being written.
_SETTLE_S: Final = 2.0

_TRAILING: Final = (
    "All data before them is valid. A broker removes them when it starts, and aclog when it opens the log "
    "for writing. If this is a copy, copy the log again."
)

#: Attempts to read a log that is trimmed or truncated meanwhile.
_SCANS_MAX: Final = 10


@click.command("verify", cls=Command)
@log_option
@click.option(
    "--with",
    "compared_urls",
    metavar="SET",
    multiple=True,
    help="Also compare the state with another log, LOG@OFFSET, a .checkpoint file, a store's newest "
    "snapshot, or a running node (http(s)://HOST:PORT of its sidecar, or unix:PATH), at one offset. "
    "Repeatable.",
)
@credentials_options
@offset_option(
    "The state to compare: after the record at this offset.  [default: the last offset that both have; the "
    "ends of two different logs]"
)
@click.option(
    "--per-principal",
    is_flag=True,
    help="Also print a digest of the permissions of each principal, and of all other principals.",
)
@snapshots_option
@config_option
@json_option
@progress_option
def verify_command(
    *, compared_urls: tuple[str, ...], at_offset: int | None, per_principal: bool, as_json: bool
) -> None:
    """Check every committed batch of a log, and print a summary of it.

    Checks each batch's CRC, that offsets rise, that every record that aclog must understand decodes, and that
    the state can be built. "meaning" is a digest of the effective permissions. Two logs have the same digest
    if and only if every request has the same answer, with the super users and allow.everyone.if.no.acl.found
    of --config.

    If the start of the log was trimmed, the state needs a snapshot: of --snapshots, or else of a store in
    --with. The newest snapshot of such a store is compared with a state that starts from an older one.

    Exit code 0: the log is valid and equal to each --with; 1: a --with differs; 4: the log is damaged, or a
    directory ends with an incomplete batch that is not being written.

    \b
    Examples:
      aclog log verify --log /var/kafka/__cluster_metadata-0
      aclog log verify --log DIR --with s3://bucket/snapshots
      aclog log verify --log DIR --with OTHER-DIR --json
      aclog log verify --log kafka://HOST:9092/acls --with STORE --with http://127.0.0.1:8180
    """
    if at_offset is not None and not compared_urls:
        raise click.UsageError("--at-offset needs --with")
    from authorizer.cli.log.compare import compare, stores_among

    workspace = Workspace.given()
    with workspace.log() as log:
        with Progress("offsets") as shown_progress:
            scan = _Scan.of(log, shown_progress)
        sources = workspace.sources()
        if not sources and not has_beginning(log):
            sources = stores_among(compared_urls)
        image = load_state(log, sources).image
        trailing = log.trailing_bytes(settle_s=_SETTLE_S)
        report = _report(log, scan, image, trailing) | _permissions_json(
            image, workspace, per_principal=per_principal
        )
        comparisons = [compare(log, sources, url, at_offset, workspace.config.kafka) for url in compared_urls]
    if as_json:
        rows = [comparison.to_json() for comparison in comparisons]
        if len(rows) == 1:
            report["comparison"] = rows[0]
        elif rows:
            report["comparisons"] = rows
        print_json(report)
    else:
        _print(report)
        for comparison in comparisons:
            comparison.print()
    if trailing is not None:
        if not trailing.is_being_written:
            raise Failure(described(trailing), ExitCode.BAD_DATA, _TRAILING)
        note(described(trailing))
    if not all(comparison.is_equal for comparison in comparisons):
        raise click.exceptions.Exit(ExitCode.NO)


@dataclass(slots=True)
class _Scan:
    """Counts of a log's batches and records from its start to its high watermark."""

    start: int
    end: int
    batches: int = 0
    size_bytes: int = 0
    types: Counter[type] = field(default_factory=Counter)
    epochs: set[int] = field(default_factory=set)
    missing: int = 0

    @classmethod
    def of(cls, log: MetadataLog, progress: Progress) -> _Scan:
        """Read the log; start again if it is trimmed, truncated or replaced meanwhile."""
        for _ in range(_SCANS_MAX):
            with suppress(OffsetOutOfRangeError):
                identity, scan = log.identity, cls._once(log, progress)
                if log.identity == identity:
                    return scan
        raise LogChangedError(f"{log.url} was changed each time it was read: {_SCANS_MAX} times")

    @classmethod
    def _once(cls, log: MetadataLog, progress: Progress) -> _Scan:
        scan = cls(log.start_offset(), log.high_watermark())
        position = scan.start
        while position < scan.end and (batches := read_with_retry(log, position)):
            for batch in batches:
                # No error: transaction markers and compaction leave gaps (I6).
                scan.missing += max(batch.base_offset - position, 0)
                scan.missing += batch.end_offset - batch.base_offset - len(batch.records)
                scan.batches += 1
                scan.size_bytes += batch.size_bytes
                scan.epochs.add(batch.epoch)
                scan.types.update(type(logged.record) for logged in batch.records)
                position = batch.end_offset
            progress.at(position - scan.start, scan.end - scan.start)
        if (end := log.high_watermark()) < scan.end:
            raise OffsetOutOfRangeError(scan.end, start=scan.start, end=end)
        return scan


def _report(
    log: MetadataLog, scan: _Scan, image: AclsImage, trailing: TrailingBytes | None
) -> dict[str, Any]:
    from authorizer.node.cluster_metadata_report import metadata_report
    from snapshot.digest import digest_to_string

    return {
        "log": log.url,
        "clusterId": log.identity.cluster_id,
        "topicId": uuid_to_string(log.identity.topic_id),
        "startOffset": scan.start,
        "highWatermark": scan.end,
        "highWatermarkIsGuess": log.uncommitted_from is not None,
        "uncommittedFrom": log.uncommitted_from,
        "batches": scan.batches,
        "bytes": scan.size_bytes,
        "epochs": sorted(scan.epochs),
        "records": scan.types.total(),
        "aclsAdded": scan.types[AccessControlEntryRecord],
        "aclsRemoved": scan.types[RemoveAccessControlEntryRecord],
        "missingOffsets": scan.missing,
        "trailing": None if trailing is None else _trailing_json(trailing),
        "aclCount": len(image),
        "digest": digest_to_string(image.digest),
        "metadata": to_builtins(metadata_report(image.metadata)),
    }


def _permissions_json(image: AclsImage, workspace: Workspace, *, per_principal: bool) -> dict[str, Any]:
    """Digests of the effective permissions, which are equal if every request has the same answer."""
    from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
    from authorizer.engine.decisions.state import AuthorizerSettings

    settings = AuthorizerSettings.from_configs(workspace.config.properties).with_version_of(image)
    with Waiting("computing the effective permissions"):
        found = EffectivePermissions.digest_of(image.merged().columns, settings)
    report: dict[str, Any] = {"meaning": found.combined.hex()}
    if per_principal:
        principals = {each: found.principals[each].hex() for each in sorted(found.principals)}
        report["meanings"] = {"everybody": found.wildcard.hex(), "principals": principals}
    return report


def _trailing_json(trailing: TrailingBytes) -> dict[str, Any]:
    return {
        "file": trailing.path.name,
        "position": trailing.position,
        "bytes": trailing.size_bytes,
        "offset": trailing.offset,
        "beingWritten": trailing.is_being_written,
    }


def _print(report: dict[str, Any]) -> None:
    answer(f"log         {shown(report['log'])}, cluster {shown(report['clusterId'])}", LABEL)
    guess = ""
    if report["highWatermarkIsGuess"]:
        guess = f" (a guess: the last complete batch; certain up to {report['uncommittedFrom']})"
    answer(
        f"offsets     {report['startOffset']} up to the high watermark {report['highWatermark']}{guess}",
        LABEL,
    )
    epochs = ", ".join(map(str, report["epochs"])) or "none"
    answer(
        f"batches     {report['batches']}, all complete; {report['bytes']:,} bytes; epochs {epochs}", LABEL
    )
    added, removed = report["aclsAdded"], report["aclsRemoved"]
    other_count = report["records"] - added - removed
    answer(
        f"records     {report['records']}: {added} ACLs added, {removed} removed, {other_count} others", LABEL
    )
    if report["missingOffsets"]:
        answer(
            f"missing     {report['missingOffsets']} offsets, as compaction and transactions leave them",
            LABEL,
        )
    answer(f"state       {report['aclCount']} ACLs, digest {report['digest']}", LABEL)
    _print_metadata(report["metadata"])
    answer(f"meaning     digest {report['meaning']}", LABEL)
    if (meanings := report.get("meanings")) is not None:
        for principal, digest in (
            ("all other principals", meanings["everybody"]),
            *meanings["principals"].items(),
        ):
            answer(f"{'':{LABEL}}{digest}  {shown(principal)}", LABEL)


def _print_metadata(metadata: dict[str, Any]) -> None:
    """The log's other metadata; an aclog-managed log has none."""
    known = [
        *(f"{name} {level}" for name, level in metadata["features"].items()),
        *(f"brokers of {release}: {count}" for release, count in metadata["brokers"].items()),
        *(
            f"{kind.replace('_', ' ')}: {metadata[kind]}"
            for kind in ("topics", "scram_users", "delegation_tokens")
            if metadata[kind]
        ),
    ]
    if known:
        partly = "" if metadata["is_whole"] else "; continued from a snapshot without these"
        answer(f"besides     {', '.join(known)}{partly}", LABEL)
    for each in metadata["unread"]:
        answer(
            f"unread      {each['records']} of {each['type']} version {each['version']}: newer than this "
            "build, or damaged; not about ACLs",
            LABEL,
        )
    if metadata["warning"] is not None:
        note(f"warning: {metadata['warning']}", label="")
