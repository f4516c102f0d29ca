"""``aclog log append``: appends kafka-dump-log payload lines to an aclog-managed log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.analysis.files.parsing import parse_json_object
from authorizer.cli.command import Command
from authorizer.cli.failure import WriteAttempt, write_attempt
from authorizer.cli.input import bad_line, lines_of
from authorizer.cli.options import CLUSTER_ID, config_option, json_option, log_option, progress_option
from authorizer.cli.rendering.output import Progress, Waiting, note, print_json
from authorizer.cli.workspace import Workspace, wait_until_readable
from records.codecs.json import from_json
from records.codecs.kraft import encode_frame
from records.entries import AclRecord, MetadataRecord, OtherRecord
from records.errors import DecodeError, EncodeError
from records.log.url import POLLED, QUORUM, TOPIC, kind_of
from records.transactions import MisplacedMarkerError, Transaction

if TYPE_CHECKING:
    from records.log.base import Mode

#: Records in one batch if lines have no "batch" key: some 100 kB.
_BATCH_SIZE: Final = 1000

_BAD_LINE: Final = (
    'A line is one JSON object with "type", "version" and "data", as `aclog log dump` prints it.'
)


@click.command("append", cls=Command)
@log_option
@click.argument("payloads", type=click.Path(allow_dash=True), default="-", metavar="[FILE]")
@click.option("--create", is_flag=True, help="Create the log if there is none.")
@click.option(
    "--cluster-id", type=CLUSTER_ID, help="With --create: cluster id of the new log.  [default: a random one]"
)
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=_BATCH_SIZE,
    show_default=True,
    help='Records in one atomic batch if lines have no "batch" key.',
)
@click.option(
    "--skip-others",
    is_flag=True,
    help="Skip records that only a broker can write: control records, topics and so on.",
)
@config_option
@json_option
@progress_option
def append_command(
    *, payloads: str, create: bool, cluster_id: str | None, batch_size: int, skip_others: bool, as_json: bool
) -> None:
    """Append records to a topic, or to a directory that aclog created; print the end offset.

    FILE (also gzip; default stdin) has one record on each line, as kafka-dump-log prints payloads
    ({"type","version","data"}). Other fields of `aclog log dump` are allowed. Neighbouring lines with the
    same "batch" value are one atomic batch. A directory stores the greatest "timestamp" of each batch; a
    topic stores the time of writing.

    All lines are checked before the first one is written. A topic holds only ACLs and removals of ACLs:
    --skip-others skips the other records of a dump, and makes each of its transactions one batch, or none if
    it was aborted.

    Exit code 0: appended; 2: wrong usage; 4: a line is not valid, and nothing was written.

    \b
    Examples:
      aclog log append --log DIR --create records.jsonl
      aclog log dump --log /var/kafka/__cluster_metadata-0 | aclog log append --log DIR --create --skip-others
    """
    if cluster_id is not None and not create:
        raise click.UsageError("--cluster-id needs --create: an existing log has its cluster id")
    workspace = Workspace.given()
    with write_attempt() as attempt:
        with Progress("lines checked") as checked:
            kind = kind_of(workspace.writable_log_url)
            if kind in (QUORUM, POLLED):
                raise click.UsageError(
                    "Cannot append to a cluster's metadata log: only its controllers append. Use `aclog acls "
                    "--add` and `--remove`, `aclog apply` or `aclog log copy`: they send requests to them"
                )
            to_topic = kind == TOPIC
            plan = _Plan(batch_size, skip_others=skip_others, to_topic=to_topic)
            with lines_of(payloads) as lines:
                try:
                    plan.read(lines, "stdin" if payloads == "-" else payloads, checked)
                except (DecodeError, EncodeError) as error:
                    raise bad_line(error, _BAD_LINE) from error
        if plan.skipped_count:
            note(f"{plan.skipped_count} records of other types were skipped (--skip-others)", label="")
        mode: Mode = "create" if create else "write"
        if to_topic:
            start, end = _append_to_topic(workspace, plan, mode, cluster_id, attempt)
        else:
            from records.log.directory import DirectoryLog

            with (
                DirectoryLog.open(workspace.writable_log_url, mode=mode, cluster_id=cluster_id) as log,
                Waiting("appending"),
            ):
                start = log.high_watermark()
                attempt.appends = True
                end = log.append_batches(plan.batches)
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


def _append_to_topic(
    workspace: Workspace, plan: _Plan, mode: Mode, cluster_id: str | None, attempt: WriteAttempt
) -> tuple[int, int]:
    """Write one transaction for each batch, and wait until they can be read; start and end offset."""
    if cluster_id is not None:
        raise click.UsageError(
            "--cluster-id is for a directory: a topic has the cluster id of its Kafka cluster"
        )
    with workspace.log(mode) as log, Waiting("appending"):
        start = end = log.high_watermark()
        attempt.appends = True
        for number, (records, _) in enumerate(plan.batches, 1):
            end = log.append(records)
            attempt.written = f"before that {number} of {len(plan.batches)} batches were written"
        wait_until_readable(log, end)
    return start, end


class _Plan:
    """The batches to append: every line is decoded and checked, and transactions (KIP-868) are complete.

    A directory stores the markers of transactions. A topic stores only records of ACLs: each transaction that
    ended becomes one batch.

    Attributes:
        batches: arguments of ``append_batches``: records, and timestamp (None: the time of the append).
    """

    def __init__(self, batch_size: int, *, skip_others: bool, to_topic: bool) -> None:
        self.batches: list[tuple[list[MetadataRecord], int | None]] = []
        self.record_count = 0
        self._batch_size = batch_size
        self._skip_others = skip_others
        self._to_topic = to_topic
        self._line_count = 0
        self._key: str | None = None
        self._closed_keys: set[str] = set()
        self._transaction = Transaction[MetadataRecord]()

    @property
    def skipped_count(self) -> int:
        """Lines that --skip-others skipped, including those of aborted transactions."""
        return self._line_count - self.record_count

    def read(self, lines: Iterable[bytes], name: str, progress: Progress) -> None:
        """Read all lines.

        Raises:
            DecodeError, EncodeError: a line is not a record, or readers would refuse the sequence of records.
        """
        for number, line in enumerate(lines, 1):
            progress.at(number)
            source = f"{name} line {number}"
            try:
                if line.strip():
                    self._add_line(parse_json_object(line))
            except DecodeError as error:
                raise error.located(source=source) from error
            except EncodeError as error:
                raise EncodeError(f"{error} (in {source})") from error
        if self._transaction.is_open:
            raise DecodeError("a transaction begins and does not end", source=name)

    def _add_line(self, payload: Mapping[str, Any]) -> None:
        self._line_count += 1
        record = _record(payload, skip_others=self._skip_others)
        if record is None:
            return
        key = None if payload.get("batch") is None else json.dumps(payload["batch"])
        at_ms = _timestamp_ms(payload)
        try:
            visible = self._transaction.take(record, record)
        except MisplacedMarkerError as error:
            raise DecodeError(f"a {error}") from error
        if self._to_topic:
            if self._skip_others and not isinstance(record, AclRecord):
                for each in visible:
                    if isinstance(each, AclRecord):
                        # Not JSON, so no line has this key.
                        self._add(each, None, f"transaction to line {self._line_count}")
                return
            from records.log.topic.codec import encode_messages

            encode_messages([record])
            if not visible:
                return
        self._add(record, at_ms, key)

    def _add(self, record: MetadataRecord, at_ms: int | None, key: str | None) -> None:
        if key in self._closed_keys:
            raise DecodeError(f"batch {key} occurs again: the lines of one batch must be neighbours")
        is_full = key is None and bool(self.batches) and len(self.batches[-1][0]) >= self._batch_size
        if not self.batches or key != self._key or is_full:
            if self._key is not None:
                self._closed_keys.add(self._key)
            self._key = key
            self.batches.append(([], None))
        records, timestamp_ms = self.batches[-1]
        records.append(record)
        self.record_count += 1
        if at_ms is not None:
            self.batches[-1] = (records, at_ms if timestamp_ms is None else max(at_ms, timestamp_ms))


def _record(payload: Mapping[str, Any], *, skip_others: bool) -> MetadataRecord | None:
    if "control" in payload:
        if skip_others:
            return None
        raise DecodeError("a control record cannot be copied to another log; --skip-others skips it")
    record = from_json(payload)
    if isinstance(record, OtherRecord) and skip_others:
        return None
    encode_frame(record)
    return record


def _timestamp_ms(payload: Mapping[str, Any]) -> int | None:
    timestamp_ms = payload.get("timestamp")
    if timestamp_ms is None:
        return None
    if not isinstance(timestamp_ms, int) or isinstance(timestamp_ms, bool) or not 0 <= timestamp_ms < 2**63:
        raise DecodeError(f"timestamp must be milliseconds since 1970, got `{timestamp_ms}`")
    return timestamp_ms
