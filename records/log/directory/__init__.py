"""file:DIR: a log in Kafka's own segment format, read from a broker's directory or written as aclog's own.

What belongs to whom, from the bytes up:

    files          names of files, listing a directory
    storage        OSError -> LogError; small durable files
    segment        one segment: bytes, headers, sparse index
    segments       those that the directory holds now
    reader         whole batches in offset order                    tail    the end of a broker's log
    identity       which log it is, and whose                       high_watermark, leader_epochs, writer_lock
    creation, recovery, appender, writer                            an own log, written by one writer
    log            DirectoryLog, the MetadataLog made of these

Committed, in an own log: written to the segment and synced, then recorded in the high-watermark file and
synced; then it is acknowledged and readers see it. A broker's directory has no such file: tail.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from records.log.directory.log import DirectoryLog

__all__ = ["DirectoryLog"]


def __getattr__(name: str) -> object:
    """DirectoryLog, at its first use: the names of files are of use without what reads them."""
    if name != "DirectoryLog":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from records.log.directory.log import DirectoryLog  # noqa: PLC0415

    return DirectoryLog
