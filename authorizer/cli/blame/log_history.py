"""History of a log: its first known state, and the changes since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from authorizer.analysis.history.blame import Subject
from authorizer.analysis.history.history import HistorySource
from authorizer.cli.rendering.output import Progress
from authorizer.cli.workspace import load_state, note_guess, note_trailing
from records.columns.acl_table import AppliedAcl
from records.ids import Uuid
from records.log.base import MetadataLog
from replay.clock import SystemClock
from replay.snapshot_source import CheckpointFiles, SnapshotSource
from replay.steps import Beginning, Step, first_state, steps
from snapshot.image import AclsImage
from snapshot.metadata_image import MetadataImage


class Extent(NamedTuple):
    """The name and the range of a history.

    Attributes:
        begin: offset of its first record. Earlier records are unknown, unless ``is_complete``.
        end: one past its last offset.
        is_complete: whether nothing came before it.
    """

    name: str
    origin: str
    begin: int
    end: int
    is_complete: bool


class NamedHistory(HistorySource[Step], Protocol):
    """A history source, described for people."""

    @property
    def extent(self) -> Extent: ...
    def last_image(self) -> AclsImage | None:
        """Load all ACLs at the end; None if the history has only those of the subject."""


@dataclass(frozen=True, slots=True)
class LogHistory:
    """A log from its start, from the oldest snapshot, or from an offset."""

    log: MetadataLog
    beginning: Beginning
    subject: Subject
    sources: Sequence[SnapshotSource]

    @classmethod
    def open(
        cls, log: MetadataLog, sources: Sequence[SnapshotSource], subject: Subject, first: int | None
    ) -> LogHistory:
        """Find the first state; ``first``: the offset to begin with, None for the earliest possible one."""
        note_guess(log)
        if not first:
            beginning = first_state(log, [*sources, CheckpointFiles(log)], SystemClock())
            return cls(log, beginning, subject, sources)
        end = log.high_watermark()
        image = load_state(log, sources, at_offset=first - 1, with_offsets=True).image
        return cls(log, Beginning(image=image, origin=f"offset {first}", end=end), subject, sources)

    @property
    def extent(self) -> Extent:
        first = self.beginning
        begin = first.image.provenance.end_offset
        return Extent(self.log.url, first.origin, begin, first.end, first.is_whole)

    @property
    def metadata(self) -> MetadataImage:
        return self.beginning.image.metadata

    def last_image(self) -> AclsImage:
        return load_state(self.log, self.sources).image

    def initial_acls(self) -> Sequence[AppliedAcl]:
        table = self.beginning.image.merged().columns
        return table.acls(np.flatnonzero(self.subject.rows(table)))

    def steps(self, ids: Iterable[Uuid]) -> Iterator[Step]:
        trailing = self.log.trailing_bytes()
        with Progress("offsets") as shown:
            yield from steps(self.log, self.beginning, self.subject, ids, shown.at)
        note_trailing(trailing)
