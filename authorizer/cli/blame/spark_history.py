"""The past that ``aclog spark changes`` has kept."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from authorizer.analysis.blame import AskedAcl, AskedQuestion
from authorizer.cli.rendering.output import note
from authorizer.cli.spark.job import located, note_start, spark_session_of
from authorizer.cli.spark.needs import require_spark
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AppliedAcl
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from records.log_batch import LogRecord
from replay.core import LOG_START
from replay.steps import Step
from snapshot.code_names import code_from_name, code_to_name
from snapshot.metadata_image import MetadataImage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from authorizer.cli.blame.histories import Past
    from authorizer.cli.spark.options import SparkFlags
    from snapshot.jobs.changes.history import History


@contextmanager
def spark_past(
    directory: str,
    cluster_id: str | None,
    flags: SparkFlags,
    subject: AskedQuestion | AskedAcl,
    first: int | None,
) -> Iterator[Past]:
    """The history that is kept there, read by Spark while this is open; ``first``: as of `LogPast`."""
    require_spark()
    from snapshot.jobs.changes.history import History

    note_start()
    with spark_session_of(flags, "blame", needs_kafka=False) as spark:
        yield SparkPast(
            directory, History.open(spark, located(directory), cluster_id), subject, first or None
        )


@dataclass(frozen=True, slots=True)
class SparkPast:
    """See `Past`. Of batches and brokers the history keeps nothing: each record is a step by itself."""

    name: str
    history: History
    subject: AskedQuestion | AskedAcl
    first: int | None

    @property
    def origin(self) -> str:
        if self.first is not None:
            return f"offset {self.first}"
        return LOG_START if self.is_whole else f"the history's beginning at offset {self.begin}"

    @property
    def begin(self) -> int:
        return self.history.coverage.begin_offset if self.first is None else self.first

    @property
    def end(self) -> int:
        return self.history.end

    @property
    def is_whole(self) -> bool:
        return self.begin == 0

    @property
    def metadata(self) -> MetadataImage:
        return MetadataImage.EMPTY

    def held(self) -> Sequence[AppliedAcl]:
        if self.is_whole:
            return ()
        acls = []
        for row in _rows(self.history.in_force(at_offset=self.begin - 1).rows, self.subject):
            record = _record(row["id"], row)
            if self.subject.is_wanted(record):
                written = row["valid_from_time"]
                timestamp_ms = 0 if written is None else round(written.timestamp() * 1000)
                acls.append(AppliedAcl(record, row["valid_from_offset"], timestamp_ms))
        return acls

    def steps(self, ids: Iterable[Uuid]) -> Iterator[Step]:
        seen = set(ids)
        answer = self.history.changed(after=None if self.first is None else self.first - 1)
        for line in answer.notes:
            note(f"note: {line}")
        for offset, group in groupby(_rows(answer.rows, self.subject), itemgetter("offset")):
            records = tuple(logged for row in group for logged in self._logged(row, seen))
            if records:
                yield Step(end_offset=offset + 1, records=records)

    def _logged(self, row: Mapping[str, Any], seen: set[Uuid]) -> Iterator[LogRecord]:
        acl_id, after = Uuid(bytes(row["id"])), row["after"]
        record = None if after is None else _record(acl_id, after)
        if record is not None and self.subject.is_wanted(record):
            seen.add(acl_id)
        if acl_id in seen:
            yield LogRecord(
                row["offset"], row["timestamp_ms"], record or RemoveAccessControlEntryRecord(acl_id)
            )


def _rows(rows: Any, subject: AskedQuestion | AskedAcl) -> Iterator[Mapping[str, Any]]:
    """Those that may have to do with what is asked, in their order."""
    from snapshot.jobs.changes.history import covering_resource, of_id, of_resource

    if isinstance(subject, AskedQuestion):
        pattern = subject.action.resource_pattern
        chosen = covering_resource(rows, pattern.resource_type.name, pattern.name)
    elif subject.content is not None:
        resource_type, name, *_ = subject.content
        chosen = of_resource(rows, code_to_name(ResourceType, resource_type), name)
    else:
        chosen = of_id(rows, subject.id or b"")
    # Partition by partition: a history may be larger than this machine.
    return (row.asDict(recursive=True) for row in chosen.toLocalIterator())


def _record(acl_id: bytes, acl: Mapping[str, Any]) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        Uuid(bytes(acl_id)),
        code_from_name(ResourceType, acl["resource_type"]),
        acl["resource_name"],
        code_from_name(PatternType, acl["pattern_type"]),
        acl["principal"],
        acl["host"],
        code_from_name(AclOperation, acl["operation"]),
        code_from_name(AclPermissionType, acl["permission_type"]),
    )
