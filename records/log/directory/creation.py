"""Creation of an aclog-managed log.

``aclog.properties`` is written first and atomically. From then on the directory is aclog-managed, and opening
it for writing completes a creation that a crash interrupted. The high-watermark file is created before the
first segment. So a log with segments but without that file has lost it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from records.errors import LogCorruptError, LogError, LogMissingError, LogReadOnlyError
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

#: Names that an error about a directory lists.
_NAMES_MAX: Final = 3
# Files that an empty directory may have: leftovers of a creation, and those of a new file system.
_IGNORED_FILES: Final = frozenset({LOCK_FILE, f"{OWNER_FILE}.tmp", "lost+found"})


def files_of_others(directory: Path) -> list[str]:
    """Names of the files that do not belong to the creation of a log, nor to a new file system."""
    return sorted({path.name for path in directory.iterdir()} - _IGNORED_FILES)


def first_names(names: list[str]) -> str:
    """Return text with the first of some names."""
    more = len(names) - _NAMES_MAX
    return ", ".join(names[:_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


def prepare_directory(directory: Path, *, create: bool) -> None:
    """Check that ``directory`` is an aclog-managed log, or may become one; create an empty directory.

    Raises:
        LogMissingError: there is no log, and ``create`` is not set.
        LogReadOnlyError: the log is not aclog-managed.
        LogError: it has other content.
        OSError: it cannot be created or listed.
    """
    missing = LogMissingError(f"{directory}: there is no log to write to", str(directory))
    try:
        listing = list_directory(directory)
    except FileNotFoundError:
        if not create:
            raise missing from None
        directory.mkdir(parents=True, exist_ok=True)
        sync_directory(directory.parent)
        return
    other_files = files_of_others(directory)
    if is_managed(directory):  # checked last, as another process may be creating it
        return
    if listing.segments:
        raise LogReadOnlyError(
            f"{directory}: not written by aclog (there is no {OWNER_FILE}): a broker's log can only be read. "
            f"`{copy_command(directory)}` copies it into an aclog-managed log"
        )
    if other_files:
        raise LogError(
            f"{directory}: not empty and not a log (it holds {first_names(other_files)}); choose another"
        )
    if not create:
        raise missing


def complete_creation(directory: Path, cluster_id: str | None) -> LogIdentity:
    """Create the log unless it exists. The caller holds the writer lock.

    Raises:
        LogCorruptError: the high-watermark file is missing, or a file is invalid.
        LogError: an invalid cluster id, or the log belongs to another cluster.
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
                f"{high_watermark}: missing, so it is unknown what was committed. Restore a backup of it; or "
                f"`{copy_command(directory)}` treats all complete batches as committed"
            )
        write_partition_metadata(directory, identity.topic_id)
        create_high_watermark(high_watermark)
    if not has_segments and read_high_watermark(high_watermark) == 0:
        os.close(create_file(directory / segment_name(0)))
    return identity
