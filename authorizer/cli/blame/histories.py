"""A past: what was in force at its beginning, and what became visible since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from authorizer.cli.rendering.output import Progress
from authorizer.cli.workspace import load_state, note_guess, note_trailing
from replay.clock import SystemClock
from replay.snapshot_source import CheckpointFiles
from replay.steps import Beginning, first_state, steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from authorizer.analysis.blame import Subject
    from records.columns.acl_table import AppliedAcl
    from records.ids import Uuid
    from records.log.base import MetadataLog
    from replay.snapshot_source import SnapshotSource
    from replay.steps import Step
    from snapshot.metadata_image import MetadataImage


class Past(Protocol):
    """See the module.

    Attributes:
        name: as the user gave it.
        origin: what it begins with, for people.
        begin: the offset of its first record; what was before is not in it, unless ``is_whole``.
        end: one past the last offset that it tells of.
        is_whole: there was nothing before it.
        metadata: what else is known of the beginning.
    """

    @property
    def name(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def is_whole(self) -> bool: ...
    @property
    def metadata(self) -> MetadataImage: ...

    def held(self) -> Sequence[AppliedAcl]:
        """The ACLs in force at the beginning that have to do with what is asked."""

    def steps(self, ids: Iterable[Uuid]) -> Iterator[Step]:
        """What became visible since, step by step; ``ids``: of the ACLs that were held."""


@dataclass(frozen=True, slots=True)
class LogPast:
    """That of a log: from its start, or from the oldest snapshot, or from an offset on."""

    log: MetadataLog
    beginning: Beginning
    subject: Subject

    @classmethod
    def of(
        cls, log: MetadataLog, sources: Sequence[SnapshotSource], subject: Subject, first: int | None
    ) -> LogPast:
        """Look where it begins; ``first``: the offset, if not as early as can be."""
        note_guess(log)
        if not first:
            return cls(log, first_state(log, [*sources, CheckpointFiles(log)], SystemClock()), subject)
        end = log.high_watermark()
        image = load_state(log, sources, at_offset=first - 1, with_offsets=True).image
        return cls(log, Beginning(image=image, origin=f"offset {first}", end=end), subject)

    @property
    def name(self) -> str:
        return self.log.url

    @property
    def origin(self) -> str:
        return self.beginning.origin

    @property
    def begin(self) -> int:
        return self.beginning.image.provenance.end_offset

    @property
    def end(self) -> int:
        return self.beginning.end

    @property
    def is_whole(self) -> bool:
        return self.beginning.is_whole

    @property
    def metadata(self) -> MetadataImage:
        return self.beginning.image.metadata

    def held(self) -> Sequence[AppliedAcl]:
        table = self.beginning.image.merged().columns
        return table.acls(np.flatnonzero(self.subject.rows(table)))

    def steps(self, ids: Iterable[Uuid]) -> Iterator[Step]:
        with Progress("offsets") as shown:
            yield from steps(self.log, self.beginning, self.subject, ids, shown.at)
        note_trailing(self.log)
