"""``aclog log dump``: prints a log's records as JSON lines with the fields of kafka-dump-log."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import click

from authorizer.cli.command import Command
from authorizer.cli.options import config_option, log_option, progress_option
from authorizer.cli.rendering.output import JsonLines, Progress
from authorizer.cli.workspace import Workspace, note_trailing
from records.codecs.json import to_json
from records.control import describe_control
from records.entries import ControlRecord, OtherRecord
from records.errors import OffsetOutOfRangeError
from records.log.base import read_with_retry
from replay.errors import LogChangedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from records.log.base import MetadataLog
    from records.log_batch import LogBatch, LogRecord


@click.command("dump", cls=Command)
@log_option
@click.option(
    "--from",
    "first",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="First offset.  [default: the log's start]",
)
@click.option(
    "--to",
    "last",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="Last offset, inclusive.  [default: the last committed one]",
)
@click.option(
    "--skip-others", is_flag=True, help="Skip control records and records that aclog does not understand."
)
@config_option
@progress_option
# The output is always JSON; scripts may pass the option that other commands have.
@click.option("--json", is_flag=True, hidden=True, expose_value=False)
def dump_command(*, first: int | None, last: int | None, skip_others: bool) -> None:
    """Print the committed records of a log, one JSON line each.

    {"file","offset","timestamp","type","version","data"} for the records that aclog understands, the same
    without "data" for other records, {"file","offset","timestamp","control","value"} for control records.

    Exit code 0: printed; 3: the log was trimmed or truncated meanwhile; 4: it is damaged.

    \b
    Examples:
      aclog log dump --log /var/kafka/__cluster_metadata-0 --from 1000 --to 1999
      aclog log dump --log DIR --skip-others | aclog log append --log COPY --create
    """
    if first is not None and last is not None and first > last:
        raise click.UsageError(f"--from {first} is after --to {last}")
    workspace = Workspace.given()
    with workspace.log() as log, Progress("records") as shown_progress, JsonLines() as lines:
        trailing = log.trailing_bytes() if last is None else None
        end = log.high_watermark()
        start = log.start_offset()
        position = start if first is None else first
        if not start <= position <= end:
            raise OffsetOutOfRangeError(position, start=start, end=end)
        if last is not None:
            end = min(end, last + 1)
        # List the files after reading the high watermark: a new segment may hold offsets below it.
        file_of = _file_names(log)
        done = 0
        while position < end and (batches := _read(log, position)):
            for batch in batches:
                for logged in batch.records:
                    if position <= logged.offset < end and not (
                        skip_others and isinstance(logged.record, ControlRecord | OtherRecord)
                    ):
                        lines.write(_line(logged, file_of))
                        done += 1
            position = batches[-1].end_offset
            shown_progress.at(done)
        note_trailing(trailing)


def _read(log: MetadataLog, position: int) -> Sequence[LogBatch]:
    """The next batches, which existed when the dump began."""
    try:
        return read_with_retry(log, position)
    except OffsetOutOfRangeError as error:
        raise LogChangedError(f"{log.url} was trimmed or truncated while it was dumped: {error}") from error


def _line(logged: LogRecord, file_of: Callable[[int], str] | None) -> dict[str, Any]:
    line: dict[str, Any] = {} if file_of is None else {"file": file_of(logged.offset)}
    line |= {"offset": logged.offset, "timestamp": logged.timestamp_ms}
    if isinstance(logged.record, ControlRecord):
        name, value = describe_control(logged.record)
        return line | {"control": name, "value": value}
    return line | to_json(logged.record)


def _file_names(log: MetadataLog) -> Callable[[int], str] | None:
    """A function that returns the name of the file with an offset; None for a log without files."""
    if log.directory is None:
        return None
    from records.log.directory.files import list_directory, segment_name

    base_offsets = [segment.base_offset for segment in list_directory(log.directory).segments]
    return lambda offset: segment_name(base_offsets[max(bisect_right(base_offsets, offset) - 1, 0)])
