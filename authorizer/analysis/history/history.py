"""Answer history: the answer to a subject, followed through a source of changes.

Sources: a log and Spark's stored history (``aclog blame``), and the states that the console retains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from authorizer.analysis.history.blame import (
    AnswerChange,
    Change,
    DecisionTracker,
    NewRelease,
    Subject,
    SubjectAnswer,
)
from authorizer.api.acl_json import acl_json
from records.columns.acl_table import AppliedAcl
from records.ids import Uuid
from records.log_batch import LogRecord
from snapshot.metadata_image import MetadataImage


class HistoryStep(Protocol):
    """Records that became visible together.

    Attributes:
        end_offset: one past the last offset of their batch.
        records: those that concern the subject, in order.
        unknown_from: offset of the first missing record before them (I6); None if no record is missing.
    """

    @property
    def end_offset(self) -> int: ...
    @property
    def records(self) -> Sequence[LogRecord]: ...
    @property
    def unknown_from(self) -> int | None: ...


_StepT = TypeVar("_StepT", bound=HistoryStep)
_StepT_co = TypeVar("_StepT_co", bound=HistoryStep, covariant=True)


class HistorySource(Protocol[_StepT_co]):
    """The first known state and the changes after it.

    ``metadata``: brokers and feature levels at the beginning.
    """

    @property
    def metadata(self) -> MetadataImage: ...

    def initial_acls(self) -> Sequence[AppliedAcl]:
        """Return the related ACLs in force at the beginning."""

    def steps(self, ids: Iterable[Uuid]) -> Iterator[_StepT_co]:
        """Yield the later changes, oldest first; ``ids`` are those of the initial ACLs."""


class AnswerHistory(Generic[_StepT]):
    """The answer of one subject through one source; ``answer``: after the last step that was read."""

    def __init__(self, source: HistorySource[_StepT], subject: Subject) -> None:
        self._source = source
        self._tracker = DecisionTracker(subject, source.initial_acls(), source.metadata)

    @property
    def answer(self) -> SubjectAnswer:
        return self._tracker.answer

    def steps(self) -> Iterator[tuple[_StepT, AnswerChange | None]]:
        """Yield every step, with the change of the answer that it caused."""
        for step in self._source.steps(self._tracker.ids):
            yield step, self._tracker.apply(step.records)


def record_json(offset: int, timestamp_ms: int) -> dict[str, Any]:
    """Return a record's offset and time as JSON; the time is null if the record has none."""
    return {"offset": offset, "timestamp": None if timestamp_ms < 0 else timestamp_ms}


def change_json(change: Change | NewRelease) -> dict[str, Any]:
    """Return the effect of one record as JSON."""
    offset = record_json(change.offset, change.timestamp_ms)
    if isinstance(change, NewRelease):
        return {"change": "release", **offset, "release": change.version, "was": change.previous}
    return {
        "change": change.kind,
        **offset,
        "acl": acl_json(change.acl),
        "was": None if change.replaced is None else acl_json(change.replaced),
    }
