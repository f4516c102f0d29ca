"""file:DIR: a log in Kafka's segment format: a broker's directory, or one that aclog writes.

Committed, in an aclog-managed log: a write is synced to the segment, then recorded in ``high-watermark``.
Then it is acknowledged, and readers see it. A broker's directory has no such file: see tail.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from records.log.directory.log import DirectoryLog

__all__ = ["DirectoryLog"]


def __getattr__(name: str) -> object:
    """Import DirectoryLog on first use, as some callers need only the names of files."""
    if name != "DirectoryLog":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from records.log.directory.log import DirectoryLog  # noqa: PLC0415

    return DirectoryLog
