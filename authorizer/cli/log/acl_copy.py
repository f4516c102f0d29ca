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
from records.log.open import DIRECTORY, kind_of, open_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from authorizer.cli.failure import WriteAttempt
    from records.entries import AclContent, AclRecord
    from records.ids import Uuid
    from records.log.base import MetadataLog
    from records.log.directory.log import Mode

#: Records in one batch: what one operation of Kafka's takes (H26).
BATCH: Final = 10_000
_IN_PART: Final = "a part may be in force: run it again, and it writes what is missing"


class AclCopy(NamedTuple):
    """The changes to write.

    Attributes:
        add: what the target has not, DENYs first.
        others: what only the target has, DENYs last.
        there: how many ACLs of the source are in the target.
        keeps_ids: whether the target takes ids.
        new_ids: how many of ``add`` have another id than in the source, where that is another ACL's here.
    """

    add: list[AccessControlEntryRecord]
    others: list[AccessControlEntryRecord]
    there: int
    keeps_ids: bool
    new_ids: int

    @classmethod
    def between(
        cls,
        source: Iterable[AccessControlEntryRecord],
        target: Iterable[AccessControlEntryRecord],
        *,
        keeps_ids: bool,
    ) -> AclCopy:
        """Where the target keeps no ids, an ACL is the same under any, and comes once."""
        by_id = {record.id: record for record in target}
        wanted = {record.id: record for record in source}
        # An ACL under two ids (I8) is wanted under both, but not beside one that the target had before.
        held = {record.content for record in by_id.values() if not keeps_ids or record.id not in wanted}
        add, new_ids = [], 0
        for record in wanted.values():
            here = by_id.get(record.id)
            if record == here or record.content in held:
                continue
            if not keeps_ids:
                held.add(record.content)
            elif here is not None:
                new_ids += 1
                record = AccessControlEntryRecord(_free_id(by_id, wanted), *record.content)  # noqa: PLW2901
            add.append(record)
        contents = {record.content for record in wanted.values()}
        others = [record for record in by_id.values() if record.content not in contents]
        return cls(
            sorted(add, key=lambda record: (not _is_deny(record), record.content)),
            sorted(others, key=lambda record: (_is_deny(record), record.content)),
            len(wanted) - len(add),
            keeps_ids,
            new_ids,
        )


def _free_id(*taken: Mapping[Uuid, object]) -> Uuid:
    while True:
        acl_id = random_id()
        if not any(acl_id in each for each in taken):
            return acl_id


def _is_deny(record: AccessControlEntryRecord) -> bool:
    return record.permission_type == AclPermissionType.DENY


@contextmanager
def open_target(
    url: str, client: Mapping[str, str], mode: Mode, cluster_id: str | None, *, create: bool
) -> Iterator[MetadataLog | None]:
    """The log to write; None where it is only looked at and would be made first.

    Raises:
        LogError: there is none, or it cannot be had.
    """
    with ExitStack() as opening:
        opening.enter_context(Waiting(f"looking at {shown(url)}"))
        log: MetadataLog | None = None
        try:
            if kind_of(url) == DIRECTORY:
                from records.log.directory import DirectoryLog

                log = DirectoryLog.open(url, mode=mode, cluster_id=cluster_id)
            elif create:
                raise click.UsageError("--create makes a directory; a topic is made by `aclog log create`")
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
            raise LogReadOnlyError(f"{log.url}: only the cluster of this broker writes it")
        yield log


def write_copy(
    log: MetadataLog, add: list[AccessControlEntryRecord], remove: list[AccessControlEntryRecord],
    attempt: WriteAttempt,
) -> int | None:  # fmt: skip
    """Write it in batches, each of them atomic; the log's end offset, None where there is nothing to write.

    Raises:
        LogError, ApiError, EncodeError: it went wrong; what was written stays.
        Failure: no cluster takes one of the ACLs; nothing was written.
    """
    total = len(add) + len(remove)
    with Progress("ACLs written") as progress:
        if log.is_cluster_metadata_log:
            _require_taken(add)
            requests = WriterRequests(writer_of(log))
            attempt.appends = True
            carry_out(
                requests,
                [record.content for record in add],
                _once(remove),
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


def _require_taken(acls: Iterable[AccessControlEntryRecord]) -> None:
    for record in acls:
        try:
            validate_binding(record.binding())
        except ApiError as error:
            raise Failure(
                f"{acl_line(record)}: {error}; nothing was written",
                ExitCode.BAD_DATA,
                "No Kafka cluster takes this ACL: remove it from the source, or copy to a log of aclog's.",
            ) from error


def _once(records: Iterable[AccessControlEntryRecord]) -> list[AclContent]:
    return list(dict.fromkeys(record.content for record in records))
