"""``aclog log append``: kafka-dump-log payload lines into a log that aclog writes."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import click

from authorizer.cli.options import config_option, json_option, log_option, progress_option
from authorizer.cli.output import Progress, note, print_json
from authorizer.cli.place import Place
from records.codecs.json import from_json
from records.codecs.kraft import encode_frame
from records.entries import AccessControlEntryRecord, MetadataRecord, RemoveAccessControlEntryRecord
from records.errors import DecodeError, EncodeError

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Records in one batch where no "batch" key says otherwise: some 100 kB.
_BATCH_SIZE = 1000


@click.command("append")
@log_option
@click.argument("payloads", type=click.File("rb"), default="-", metavar="[FILE]")
@click.option("--create", is_flag=True, help="Make the log if there is none.")
@click.option("--cluster-id", metavar="ID", help="With --create: cluster id of the new log.  [default: a random one]")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=_BATCH_SIZE,
    show_default=True,
    help="Records in one atomic batch, where lines have no \"batch\" key.",
)
@click.option(
    "--acls-only",
    is_flag=True,
    help="Pass by all but ACL records: what `log dump` prints of a broker's log holds others.",
)
@config_option
@json_option
@progress_option
def append_command(
    *,
    log_url: str | None,
    payloads: IO[bytes],
    create: bool,
    cluster_id: str | None,
    batch_size: int,
    acls_only: bool,
    config_file: str | None,
    as_json: bool,
    progress: bool | None,
) -> None:
    """Append records to a log that aclog made; print its end offset.

    FILE holds one record a line, as kafka-dump-log prints payloads ({"type","version","data"}); the other
    fields of `aclog log dump` may be there. Default: stdin. Neighbouring lines with the same "batch" value
    are one atomic batch.

    Every line is checked before the first one is written.

    \b
    Examples:
      aclog log append --log DIR --create records.jsonl
      aclog log dump --log /var/kafka/__cluster_metadata-0 | aclog log append --log DIR --create --acls-only
    """
    if cluster_id is not None and not create:
        raise click.UsageError("--cluster-id goes with --create: a log keeps the id that it was made with")
    place = Place.named(config_file=config_file, log_url=log_url)
    with Progress("lines checked", wanted=progress) as checked:
        plan = _Plan.of(payloads, batch_size, checked, acls_only=acls_only)
    if plan.passed_by:
        note(f"{plan.passed_by} records that are not ACLs were passed by (--acls-only)")
    with place.log(mode="create" if create else "write", cluster_id=cluster_id) as log:
        start = end = log.high_watermark()
        with Progress("records appended", wanted=progress) as appended:
            for batch in plan.batches:
                end = log.append(batch)
                appended.at(end - start, plan.record_count)
    if as_json:
        print_json(
            {
                "startOffset": start,
                "endOffset": end,
                "records": plan.record_count,
                "batches": len(plan.batches),
            }
        )
    else:
        click.echo(f"end offset {end}: {plan.record_count} records in {len(plan.batches)} batches")


@dataclass(slots=True)
class _Plan:
    """What to append: every record decoded, and known to fit the format."""

    batches: list[list[MetadataRecord]] = field(default_factory=list)
    passed_by: int = 0

    @property
    def record_count(self) -> int:
        return sum(map(len, self.batches))

    @classmethod
    def of(cls, lines: IO[bytes], batch_size: int, progress: Progress, *, acls_only: bool) -> _Plan:
        plan = cls()
        current: list[MetadataRecord] = []
        key: Any = None
        closed: set[str] = set()
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            source = f"{getattr(lines, 'name', 'stdin')} line {number}"
            payload = _object(line, source)
            if acls_only and not str(payload.get("type", "")).endswith(_ACL_TYPE_END):
                plan.passed_by += 1
                continue
            record = _record(payload, source)
            line_key = payload.get("batch")
            ...
        return plan
