"""AclCopy: the changes that give a log the ACLs of another set; each run computes them again."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from authorizer.api.errors import ApiError
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.rendering.acls import acl_line
from authorizer.cli.rendering.output import Progress, Waiting, shown
from authorizer.cli.workspace import wait_until_readable
from authorizer.engine.acl_validation import validate_binding
from authorizer.node.writing.cluster_change import writer_of
from authorizer.node.writing.cluster_requests import WriterRequests, carry_out
from records.acl import AclPermissionType
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.errors import LogNotFoundError, LogReadOnlyError
from records.log.directory.identity import random_id
from records.log.open import open_log
from records.log.url import DIRECTORY, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from authorizer.cli.failure import WriteAttempt
    from records.entries import AclContent, AclRecord
    from records.ids import Uuid
    from records.log.base import MetadataLog, Mode

#: Records in one batch: what one operation of Kafka's takes (H26).
BATCH: Final = 10_000
_IN_PART: Final = "a part may be in force: run it again, and it writes what is missing"


class AclCopy(NamedTuple):
    """The changes to write, and what they leave unchanged.

    Attributes:
        add: ACLs that the target lacks, DENYs first.
        only_in_target: ACLs that the source lacks, DENYs last.
        present_count: number of ACLs of the source that the target has.
        keeps_ids: whether the target stores the ids of the source.
        new_id_count: number of ACLs in ``add`` with a new id, because another ACL of the target has theirs.
    """

    add: list[AccessControlEntryRecord]
    only_in_target: list[AccessControlEntryRecord]
    present_count: int
    keeps_ids: bool
    new_id_count: int

    @classmethod
    def between(
        cls,
        source: Iterable[AccessControlEntryRecord],
        target: Iterable[AccessControlEntryRecord],
        *,
        keeps_ids: bool,
    ) -> AclCopy:
        """Compute the changes. If the target assigns ids itself, ACLs are compared without their ids."""
        by_id = {record.id: record for record in target}
        source_by_id = {record.id: record for record in source}
        # An ACL with two ids in the source (I8) is copied with both, unless the target has it with a third.
        present = {
            record.content for record in by_id.values() if not keeps_ids or record.id not in source_by_id
        }
        add, new_id_count = [], 0
        for record in source_by_id.values():
            current = by_id.get(record.id)
            if record == current or record.content in present:
                continue
            if not keeps_ids:
                present.add(record.content)
            elif current is not None:
                new_id_count += 1
                record = AccessControlEntryRecord(_free_id(by_id, source_by_id), *record.content)  # noqa: PLW2901
            add.append(record)
        contents = {record.content for record in source_by_id.values()}
        only_in_target = [record for record in by_id.values() if record.content not in contents]
        return cls(
            sorted(add, key=lambda record: (not _is_deny(record), record.content)),
            sorted(only_in_target, key=lambda record: (_is_deny(record), record.content)),
            len(source_by_id) - len(add),
            keeps_ids,
            new_id_count,
        )


def _free_id(*by_id: Mapping[Uuid, object]) -> Uuid:
    while True:
        acl_id = random_id()
        if not any(acl_id in each for each in by_id):
            return acl_id


def _is_deny(record: AccessControlEntryRecord) -> bool:
    return record.permission_type == AclPermissionType.DENY


@contextmanager
def open_target(
    url: str, client: Mapping[str, str], mode: Mode, cluster_id: str | None, *, create: bool
) -> Iterator[MetadataLog | None]:
    """Open the log to write; gives None if it is only read and ``create`` would create it."""
    with ExitStack() as opening:
        opening.enter_context(Waiting(f"opening {shown(url)}"))
        log: MetadataLog | None = None
        try:
            if kind_of(url) == DIRECTORY:
                from records.log.directory import DirectoryLog

                log = DirectoryLog.open(url, mode=mode, cluster_id=cluster_id)
            elif create:
                raise click.UsageError("--create makes a directory; `aclog log create` makes a topic")
            else:
                log = open_log(url, mode=mode, client=client)
        except LogNotFoundError:
            if mode != "read" or not create:
                raise
    if log is None:
        yield None
        return
    with closing(log):
        if log.is_cluster_metadata_log and log.directory is not None:
            raise LogReadOnlyError(f"Cannot write {log.url}: only the broker's cluster writes this log")
        yield log


def write_copy(
    log: MetadataLog,
    add: list[AccessControlEntryRecord],
    remove: list[AccessControlEntryRecord],
    attempt: WriteAttempt,
) -> int | None:
    """Write in atomic batches; returns the log's end offset, None if there is nothing to write."""
    total = len(add) + len(remove)
    with Progress("ACLs written") as progress:
        if log.is_cluster_metadata_log:
            _require_valid(add)
            requests = WriterRequests(writer_of(log))
            attempt.appends = True
            carry_out(
                requests,
                [record.content for record in add],
                _contents(remove),
                in_part=_IN_PART,
                on_progress=lambda done: progress.at(done, total),
            )
            return requests.end_offset
        records: list[AclRecord] = [*add, *(RemoveAccessControlEntryRecord(each.id) for each in remove)]
        if not records:
            return None
        end_offset = 0
        for start in range(0, total, BATCH):
            attempt.appends = True
            end_offset = log.append(records[start : start + BATCH])
            done = min(start + BATCH, total)
            attempt.written = f"before that {done} of {total} changes were written: {_IN_PART}"
            progress.at(done, total)
    wait_until_readable(log, end_offset)
    return end_offset


def _require_valid(acls: Iterable[AccessControlEntryRecord]) -> None:
    for record in acls:
        try:
            validate_binding(record.binding())
        except ApiError as error:
            raise Failure(
                f"{acl_line(record)}: {error}; nothing was written",
                ExitCode.BAD_DATA,
                "No Kafka cluster accepts this ACL. Remove it from the source, or copy to an aclog-managed "
                "log.",
            ) from error


def _contents(records: Iterable[AccessControlEntryRecord]) -> list[AclContent]:
    return list(dict.fromkeys(record.content for record in records))
