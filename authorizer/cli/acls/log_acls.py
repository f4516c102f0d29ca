"""The ACLs of a log, read and written by the command itself, or by the node that holds the log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.workspace import wait_until_readable
from authorizer.cli.write_attempt import WriteAttempt, write_attempt
from authorizer.writing.acl_control import plan_creation, plan_deletion
from authorizer.writing.writer_view import WriterView
from records.errors import LogLockedError
from records.log.directory.files import SOCKET_FILE
from records.log.directory.identity import random_id
from records.log.directory.log import directory_of
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from authorizer.api import AclCreateResult, AclDeleteResult
    from authorizer.cli.acls.node_acls import NodeAcls
    from authorizer.cli.workspace import Workspace
    from records.acl import AclBinding, AclBindingFilter, ResourcePatternFilter
    from records.columns.acl_table import AclTable
    from records.entries import AclRecord
    from records.log.base import MetadataLog

_T = TypeVar("_T")

#: How long a log may be held by what takes no requests: a command that will end, a node that is starting.
_HELD_S: Final = 3.0
_LOOK_S: Final = 0.05


class LogAcls:
    """Implements acls.Acls."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def listed(self, wanted: Sequence[ResourcePatternFilter]) -> tuple[int, AclTable]:
        """As acls.Acls: all of them. A node that writes the log does not hinder it."""
        with self._workspace.log() as log:
            image = self._workspace.state(log).image
        return image.provenance.end_offset, image.merged().columns

    def create(self, bindings: Sequence[AclBinding]) -> tuple[int, list[AclCreateResult]]:
        """As acls.Acls.

        Raises:
            Failure: another process holds the log, and takes no requests.
            LogError: the log cannot be had.
            AclogError: as NodeAcls, where a node holds the log.
        """

        def here(log: MetadataLog, attempt: WriteAttempt) -> tuple[int, list[AclCreateResult]]:
            image = self._workspace.state(log).image
            view = WriterView()
            view.replayed(AclsDelta(AclsImage.EMPTY), image)
            creation = plan_creation(view, bindings, random_id)
            return _appended(log, creation.records, image, attempt), list(creation.results)

        return self._change(here, lambda node: node.create(bindings))

    def delete(self, filters: Sequence[AclBindingFilter]) -> tuple[int, list[AclDeleteResult]]:
        """As acls.Acls. Raises as ``create``."""

        def here(log: MetadataLog, attempt: WriteAttempt) -> tuple[int, list[AclDeleteResult]]:
            image = self._workspace.state(log).image
            deletion = plan_deletion([acl.record for acl in image], filters)
            return _appended(log, deletion.records, image, attempt), list(deletion.results)

        return self._change(here, lambda node: node.delete(filters))

    def _change(
        self, here: Callable[[MetadataLog, WriteAttempt], _T], through: Callable[[NodeAcls], _T]
    ) -> _T:
        """Write to the log, or through the node that holds it."""
        url, timeout_ms = self._workspace.own_log_url, self._workspace.config.acl_update_timeout_ms
        give_up_s = time.monotonic() + _HELD_S
        while True:
            try:
                with write_attempt() as attempt, self._workspace.log(mode="write") as log:
                    return here(log, attempt)
            except LogLockedError as error:
                from authorizer.cli.acls.node_acls import NodeAcls

                directory = directory_of(url)
                with write_attempt():
                    node = NodeAcls.beside(directory, timeout_ms)
                if node is None and time.monotonic() >= give_up_s:
                    raise Failure(
                        str(error),
                        ExitCode.NOT_READY,
                        f"Nothing was written. It takes no requests at {directory / SOCKET_FILE}: wait until "
                        "it has ended, or if it is a node with a sidecar, name that: --sidecar URL.",
                    ) from error
            if node is not None:
                return through(node)
            time.sleep(_LOOK_S)


def _appended(log: MetadataLog, records: Sequence[AclRecord], image: AclsImage, attempt: WriteAttempt) -> int:
    if not records:
        return image.provenance.end_offset
    attempt.appends = True
    end_offset = log.append(records)
    wait_until_readable(log, end_offset)
    return end_offset
