"""The high-watermark file of an aclog-managed log: its committed end, written after each sync of the segment.

Two lines of 30 bytes, each a high watermark (20 digits), a space, the CRC-32C of those digits (8 hex digits)
and a newline:

    00000000000000000266 1a2b3c4d
    00000000000000000265 9f8e7d6c

The greater valid one counts. The writer overwrites them alternately, each by one write, and syncs. A crash
can damage only the line that is not acknowledged yet. The file never changes its size, so a sync costs one
write (a rename: three). A reader in another process needs no lock.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Self

from google_crc32c import value as crc32c

from records.errors import LogCorruptError
from records.log.directory.files import sync_data, write_all, write_file

_LINE_BYTES: Final = 30
_LINES: Final = 2
_DIGITS: Final = 20

# While a line is being overwritten, the other one is valid. Both are invalid only if the writer wrote twice
# during one read: retry.
_READ_ATTEMPTS: Final = 5


def _line(high_watermark: int) -> bytes:
    digits = b"%020d" % high_watermark
    return b"%s %08x\n" % (digits, crc32c(digits))


def _parse(line: bytes) -> int | None:
    digits = line[:_DIGITS]
    return int(digits) if digits.isdigit() and line == _line(int(digits)) else None


def create_high_watermark(path: Path) -> None:
    """Create the file of an empty log, durably and atomically. Raises OSError."""
    write_file(path, (_line(0) * _LINES).decode("ascii"))


def read_high_watermark(path: Path) -> int:
    """The recorded high watermark.

    Raises:
        LogCorruptError: neither line is valid.
        OSError: it cannot be read.
    """
    for _ in range(_READ_ATTEMPTS):
        data = path.read_bytes()
        lines = (data[at : at + _LINE_BYTES] for at in range(0, _LINES * _LINE_BYTES, _LINE_BYTES))
        valid = [value for line in lines if (value := _parse(line)) is not None]
        if valid:
            return max(valid)
    raise LogCorruptError(
        f"{path}: neither line holds a valid high watermark, so it is unknown what was committed. Restore a "
        f"backup of the file, or move it away to read the log up to its last complete batch"
    )


class HighWatermarkRecorder:
    """Writes the high-watermark file."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY)
        self._line = 0

    @classmethod
    def open(cls, path: Path) -> tuple[Self, int]:
        """Open the file; returns the recorder and the high watermark. Raises as read_high_watermark."""
        high_watermark = read_high_watermark(path)
        recorder = cls(path)
        # The line with the greater value must survive until the other one is synced.
        current = _line(high_watermark)
        recorder._line = 1 if path.read_bytes()[:_LINE_BYTES] == current else 0
        return recorder, high_watermark

    def record(self, high_watermark: int) -> None:
        """Record it durably. After an OSError it may be recorded or not."""
        write_all(self._descriptor, _line(high_watermark), self._line * _LINE_BYTES)
        sync_data(self._descriptor)
        self._line = (self._line + 1) % _LINES

    def close(self) -> None:
        os.close(self._descriptor)
