"""The directory of a quickstart: which one it is, the example log in it, and its configuration."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from importlib.util import find_spec
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from authorizer.cli.rendering.output import say
from authorizer.configuration.keys.names import (
    ACLOG_LISTENERS,
    CONSOLE_LISTENERS,
    DESCRIBE_PRINCIPALS,
    LOG_MODE,
    LOG_URL,
    SNAPSHOT_STORE,
)
from records.entries import ControlRecord, OtherRecord
from records.principal import ANONYMOUS
from records.properties import escape_property

if TYPE_CHECKING:
    from authorizer.configuration.load import Config
    from records.entries import MetadataRecord

#: A real broker's ``__cluster_metadata-0`` (Kafka 4.3.1), as in tests/data/oracle/logs/kraft-small.
EXAMPLE_LOG: Final = Path(__file__).with_name("example_log")
DEFAULT_DIRECTORY: Final = "aclog-quickstart"

#: What a quickstart's directory has; CHANGES is the history.
PROPERTIES: Final = "quickstart.properties"
LOG: Final = "log"
SNAPSHOTS: Final = "snapshots"
COUNTS: Final = "counts"
CHANGES: Final = "changes"


def free_directory() -> Path:
    """The default directory, or the next one whose log no running quickstart writes."""
    from records.log.directory.writer import has_writer

    names = chain([DEFAULT_DIRECTORY], (f"{DEFAULT_DIRECTORY}-{number}" for number in count(2)))
    directory = next(path for path in map(Path, names) if not has_writer(path / LOG))
    if directory.name != DEFAULT_DIRECTORY:
        say(f"A quickstart is running in {DEFAULT_DIRECTORY}, so this one is in {directory}.")
    return directory


def delete_files(directory: Path) -> None:
    """Delete only files of a quickstart, so that a mistyped --directory does no harm."""
    from records.log.directory.writer import has_writer

    if not directory.exists():
        return
    if not (directory / PROPERTIES).is_file():
        raise click.UsageError(f"--fresh: {directory} was not made by a quickstart; delete it by hand")
    if has_writer(directory / LOG):
        raise click.UsageError(f"--fresh: a quickstart is running in {directory}; stop it first, with Ctrl-C")
    for made in (LOG, SNAPSHOTS, COUNTS, CHANGES):
        if (directory / made).exists():
            shutil.rmtree(directory / made)
    (directory / PROPERTIES).unlink()


def import_example(directory: Path) -> None:
    """Copy the records that aclog understands, batch by batch, with the original times."""
    from records.log.directory import DirectoryLog

    if directory.exists():
        say(f"{directory} is there from an earlier run (--fresh begins anew).")
        return
    began_s = time.perf_counter()
    kinds: Counter[str] = Counter()
    batches: list[tuple[list[MetadataRecord], int | None]] = []
    with DirectoryLog.open(EXAMPLE_LOG) as example:
        position, end = example.start_offset(), example.high_watermark()
        while position < end:
            for batch in example.read(position):
                records: list[MetadataRecord] = [
                    logged.record
                    for logged in batch.records
                    # Without records that only a broker can write.
                    if not isinstance(logged.record, ControlRecord | OtherRecord)
                ]
                kinds.update(type(record).__name__ for record in records)
                if records:
                    batches.append((records, batch.timestamp_ms))
                position = batch.end_offset
    with DirectoryLog.open(directory, mode="create") as log:
        log.append_batches(batches)
    added, removed = kinds["AccessControlEntryRecord"], kinds["RemoveAccessControlEntryRecord"]
    say(
        f"A real broker's metadata log (Kafka 4.3, {end} records) goes into an embedded one: {directory}",
        f"{kinds.total()} records in {len(batches)} atomic batches: {added} ACLs added, {removed} removed, "
        f"{kinds.total() - added - removed} others; {(time.perf_counter() - began_s) * 1000:.0f} ms.",
    )


def write_settings(directory: Path, port: int) -> Config:
    """Write a file that other commands can use; its values override the environment here."""
    from authorizer.configuration.load import load_config

    # A plaintext listener does not authenticate its callers.
    values = {
        DESCRIBE_PRINCIPALS: str(ANONYMOUS),
        LOG_URL: f"file:{(directory / 'log').absolute()}",
        ACLOG_LISTENERS: f"PLAINTEXT://127.0.0.1:{port}",
        CONSOLE_LISTENERS: "*",
    }
    if find_spec("pyarrow") is not None:
        values[SNAPSHOT_STORE] = str((directory / SNAPSHOTS).absolute())
    path = directory / PROPERTIES
    path.write_text(
        "# Made by `aclog quickstart`; other commands take it with --config.\n"
        "# Every caller of the sidecar on this machine may ask about everyone. The console is at `/`.\n"
        + "".join(f"{key}={escape_property(value)}\n" for key, value in values.items()),
        encoding="latin-1",
    )
    return load_config(path, flags={**values, LOG_MODE: "write"})
