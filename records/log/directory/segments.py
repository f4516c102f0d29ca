"""The segments that a directory holds now; listed anew on demand: others roll, trim and truncate them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from records.batch import HEADER_BYTES
from records.log.base import BatchPlace
from records.log.directory.files import Listing, list_directory
from records.log.directory.segment import Segment

if TYPE_CHECKING:
    from pathlib import Path

    from records.log.base import CheckpointId


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a batch was met and how it begins: shows later whether it is still the same one.

    Base offset, epoch and CRC are in the header, so another history has another header there.
    """

    segment_base_offset: int
    position: int
    base_offset: int
    header: bytes


class FilesChangedError(OSError):
    """The files are not those that were listed: another process has gone on. To be looked at again."""


class Segments:
    """The segments in offset order, as of the last ``refresh``. Not thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._segments: list[Segment] = []
        self._base_offsets: list[int] = []
        self.checkpoints: tuple[CheckpointId, ...] = ()

    def refresh(self) -> Listing:
        """List the directory. Files that are gone or replaced are closed. Raises OSError."""
        listing = list_directory(self._directory)
        self.checkpoints = listing.checkpoints
        if [segment.id for segment in self._segments] != list(listing.segments):
            known = {segment.id: segment for segment in self._segments}
            self._segments = [
                known.pop(id_) if id_ in known else Segment(self._directory, id_) for id_ in listing.segments
            ]
            self._base_offsets = [segment.base_offset for segment in self._segments]
            for gone in known.values():
                gone.close()
        return listing

    def require_unchanged(self) -> None:
        """See that the directory still holds these segments.

        Raises:
            FilesChangedError: it holds others.
            OSError: it cannot be listed.
        """
        if [segment.id for segment in self._segments] != list(list_directory(self._directory).segments):
            raise FilesChangedError("the segments change faster than they can be listed")

    @property
    def is_empty(self) -> bool:
        return not self._segments

    @property
    def start_offset(self) -> int:
        """First offset that the log still holds; 0 in a log that is just being created."""
        return self._base_offsets[0] if self._base_offsets else 0

    @property
    def certain_end(self) -> int:
        """Below it all is committed: a broker makes its checkpoints, and trims, of committed records only."""
        return max([self.start_offset, *(checkpoint.end_offset for checkpoint in self.checkpoints[-1:])])

    @property
    def last(self) -> Segment:
        return self._segments[-1]

    def at_or_before(self, offset: int) -> Segment:
        """The segment that holds ``offset`` if any does."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0)]

    def after(self, base_offset: int) -> Segment | None:
        """The segment behind the one that begins at ``base_offset``; None for the last."""
        at = bisect_right(self._base_offsets, base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def nearest(self, offset: int) -> BatchPlace:
        """A batch at or below ``offset`` in its segment, not far from it if that part has been looked at."""
        segment = self.at_or_before(offset)
        base_offset, position = segment.nearest(offset)
        return BatchPlace(segment.base_offset, position, base_offset)

    def remember(self, place: BatchPlace) -> None:
        """What another reader of the log has met there; if the segment is gone, nothing."""
        segment = self.at_or_before(place.segment_base_offset)
        if segment.base_offset == place.segment_base_offset:
            segment.remember(place.base_offset, place.position)

    def is_intact(self, mark: Mark) -> bool:
        """Whether the batch is still there. Of a trimmed segment that is not known, which is not a change.

        Raises OSError.
        """
        segment = self.at_or_before(mark.segment_base_offset)
        if segment.base_offset == mark.segment_base_offset:
            return segment.read_at(mark.position, HEADER_BYTES) == mark.header
        return mark.segment_base_offset < self.start_offset

    def forget(self) -> None:
        """Drop all remembered positions: a segment was truncated, and what follows is another history."""
        for segment in self._segments:
            segment.forget()

    def close(self) -> None:
        """Close all files. Idempotent."""
        for segment in self._segments:
            segment.close()
