"""History stored by ``aclog spark changes``, read with Spark."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from authorizer.analysis.history.blame import AclSubject, RequestSubject
from authorizer.cli.blame.log_history import Extent
from authorizer.cli.rendering.output import note
from authorizer.cli.spark.job import note_start, spark_session_of
from authorizer.cli.spark.requirements import located, require_history, require_spark
from records.acl import ResourceType, code_to_name
from records.columns.acl_table import AppliedAcl
from records.entries import RemoveAccessControlEntryRecord
from records.ids import Uuid
from records.log_batch import LogRecord
from replay.core import LOG_START
from replay.steps import Step
from snapshot.jobs.changes.change_table import record_from_row
from snapshot.metadata_image import MetadataImage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from authorizer.cli.blame.log_history import NamedHistory
    from authorizer.cli.spark.options import SparkFlags
    from snapshot.jobs.changes.history import History


@contextmanager
def open_spark_history(
    directory: str,
    cluster_id: str | None,
    flags: SparkFlags,
    subject: RequestSubject | AclSubject,
    first: int | None,
) -> Iterator[NamedHistory]:
    """Read a stored history while the context is open; ``first`` as for ``LogHistory.open``."""
    require_history(directory, cluster_id)
    require_spark()
    from snapshot.jobs.changes.history import History

    note_start()
    with spark_session_of(flags, "blame", locations=[directory]) as spark:
        yield SparkHistory(
            directory, History.open(spark, located(directory), cluster_id), subject, first or None
        )


@dataclass(frozen=True, slots=True)
class SparkHistory:
    """A stored history has no batches and no brokers: each record is a step of its own."""

    name: str
    history: History
    subject: RequestSubject | AclSubject
    first: int | None

    @property
    def extent(self) -> Extent:
        begin = self.history.coverage.begin_offset if self.first is None else self.first
        origin = LOG_START if begin == 0 else f"the history's beginning at offset {begin}"
        if self.first is not None:
            origin = f"offset {self.first}"
        return Extent(self.name, origin, begin, self.history.end, begin == 0)

    @property
    def metadata(self) -> MetadataImage:
        return MetadataImage.EMPTY

    def last_image(self) -> None:
        return None

    def initial_acls(self) -> Sequence[AppliedAcl]:
        extent = self.extent
        if extent.is_complete:
            return ()
        acls = []
        for row in _rows(self.history.in_force(at_offset=extent.begin - 1).rows, self.subject):
            record = record_from_row(bytes(row["id"]), row)
            if self.subject.is_related(record):
                written = row["valid_from_time"]
                timestamp_ms = 0 if written is None else round(written.timestamp() * 1000)
                acls.append(AppliedAcl(record, row["valid_from_offset"], timestamp_ms))
        return acls

    def steps(self, ids: Iterable[Uuid]) -> Iterator[Step]:
        seen = set(ids)
        answer = self.history.changed(after=None if self.first is None else self.first - 1)
        note(*answer.notes)
        for offset, group in groupby(_rows(answer.rows, self.subject), itemgetter("offset")):
            records = tuple(logged for row in group for logged in self._logged(row, seen))
            if records:
                yield Step(end_offset=offset + 1, records=records)

    def _logged(self, row: Mapping[str, Any], seen: set[Uuid]) -> Iterator[LogRecord]:
        acl_id, after = Uuid(bytes(row["id"])), row["after"]
        record = None if after is None else record_from_row(acl_id, after)
        if record is not None and self.subject.is_related(record):
            seen.add(acl_id)
        if acl_id in seen:
            yield LogRecord(
                row["offset"], row["timestamp_ms"], record or RemoveAccessControlEntryRecord(acl_id)
            )


def _rows(rows: Any, subject: RequestSubject | AclSubject) -> Iterator[Mapping[str, Any]]:
    """The rows that may concern the subject, in order."""
    from snapshot.jobs.changes.history import covering_resource, of_id, of_resource

    if isinstance(subject, RequestSubject):
        pattern = subject.action.resource_pattern
        chosen = covering_resource(rows, pattern.resource_type.name, pattern.name)
    elif subject.content is not None:
        resource_type, name, *_ = subject.content
        chosen = of_resource(rows, code_to_name(ResourceType, resource_type), name)
    else:
        chosen = of_id(rows, subject.id or b"")
    # Partition by partition: a history may be larger than this machine.
    return (row.asDict(recursive=True) for row in chosen.toLocalIterator())
