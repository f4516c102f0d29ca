"""How an own log comes to be.

``aclog.properties`` is written first and in one step: from then on the directory is ours, and an opening for
writing completes what a crash left out. The high-watermark file comes before the first segment, so a log with
segments and without that file has lost it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from records.errors import LogCorruptError, LogError, LogNotFoundError, LogReadOnlyError
from records.ids import parse_cluster_id, uuid_to_string
from records.log.base import LogIdentity
from records.log.directory.files import (
    HIGH_WATERMARK_FILE,
    LOCK_FILE,
    OWNER_FILE,
    copy_command,
    create_file,
    list_directory,
    segment_name,
    sync_directory,
)
from records.log.directory.high_watermark import create_high_watermark, read_high_watermark
from records.log.directory.identity import (
    is_managed,
    random_id,
    read_identity,
    write_owner,
    write_partition_metadata,
)

if TYPE_CHECKING:
    from pathlib import Path

# What an empty directory may hold: leftovers of a creation that did not get to its first step, and what a new
# file system has.
_NOTHING: Final = frozenset({LOCK_FILE, f"{OWNER_FILE}.tmp", "lost+found"})


def prepare_directory(directory: Path, *, create: bool) -> None:
    """Make sure that ``directory`` is an own log, or may become one. Changes no directory that has content.

    Raises:
        LogNotFoundError: there is no log, and none is to be created.
        LogReadOnlyError: it is a log, but not aclog's own.
        LogError: it holds something else.
        OSError: it cannot be made or listed.
    """
    nothing = LogNotFoundError(f"{directory}: there is no log to write to; mode `create` makes one")
    try:
        listing = list_directory(directory)
    except FileNotFoundError:
        if not create:
            raise nothing from None
        directory.mkdir(parents=True, exist_ok=True)
        sync_directory(directory.parent)
        return
    others = sorted({path.name for path in directory.iterdir()} - _NOTHING)
    if is_managed(directory):  # asked last: another process may be creating it
        return
    if listing.segments:
        raise LogReadOnlyError(
            f"{directory}: not written by aclog (there is no {OWNER_FILE}): a broker's log can only be read. "
            f"`{copy_command(directory)}` copies it into an own log"
        )
    if others:
        raise LogError(
            f"{directory}: not empty and not a log (it holds {', '.join(others[:3])}); choose another"
        )
    if not create:
        raise nothing


def complete_creation(directory: Path, cluster_id: str | None) -> LogIdentity:
    """Create the log unless it is there already. The caller holds the writer lock.

    Raises:
        LogCorruptError: the log has lost its high-watermark file, or a file of its makes no sense.
        LogError: the log belongs to another cluster than the one given, or that is no cluster id.
        OSError: a file cannot be written.
    """
    if not is_managed(directory):
        try:
            new_id = uuid_to_string(random_id()) if cluster_id is None else parse_cluster_id(cluster_id)
        except ValueError as error:
            raise LogError(str(error)) from error
        write_owner(directory, LogIdentity(new_id, random_id()))
    identity = read_identity(directory, expected_cluster_id=cluster_id)
    high_watermark = directory / HIGH_WATERMARK_FILE
    has_segments = bool(list_directory(directory).segments)
    if not high_watermark.exists():
        if has_segments:
            raise LogCorruptError(
                f"{high_watermark}: missing, so what was committed is not known. Put back a backup of it; or "
                f"`{copy_command(directory)}` takes all whole batches for committed"
            )
        write_partition_metadata(directory, identity.topic_id)
        create_high_watermark(high_watermark)
    if not has_segments and read_high_watermark(high_watermark) == 0:
        os.close(create_file(directory / segment_name(0)))
    return identity
