"""NodeAcls: the ACLs of a running node, through its ``/v1/acls`` over TCP or a Unix socket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self, TypeVar

from authorizer.analysis.plans.plan import AclPlan, PlanOrigin, PlanResult, application_body
from authorizer.api.authorizer_api import AclCreateResult, AclDeleteResult
from authorizer.api.errors import (
    SidecarAnswerError,
    SidecarError,
    SidecarOutcomeUnknownError,
)
from authorizer.api.http.answers.acls import AclList, CreationResults, DeletionResults, PlanOutcomes
from authorizer.cli.acl_sources.acl_source import AclSet
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.sidecar import node_state, sidecar_client
from authorizer.client import calls
from authorizer.listeners.unix_socket import connect_unix
from records.acl import AclBinding, AclBindingFilter, ResourcePatternFilter
from records.columns.acl_table import AclTable, AppliedAcl
from records.log.directory.files import SOCKET_FILE
from snapshot.image import AclsImage, Provenance, restore_image

_T = TypeVar("_T")

#: Network time of a request, in addition to the node's aclog.acl.update.timeout.ms.
_NETWORK_TIMEOUT_S: Final = 10.0


class NodeAcls:
    """Implements EditableAcls; a connection lasts for one call."""

    def __init__(self, url: str, update_timeout_ms: int, *, names_caller: bool = True) -> None:
        """``names_caller``: send the command's credentials (``authorizer.cli.sidecar``)."""
        self._url = url
        self._names_caller = names_caller
        self._timeout_s = update_timeout_ms / 1000 + _NETWORK_TIMEOUT_S

    @classmethod
    def of_directory(cls, directory: Path, update_timeout_ms: int) -> Self | None:
        """The node that has the log in ``directory`` open; None if none takes requests there."""
        path = directory / SOCKET_FILE
        try:
            connect_unix(path, _NETWORK_TIMEOUT_S).close()
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        return cls(f"unix:{path}", update_timeout_ms, names_caller=False)

    def list_acls(self, filters: Sequence[ResourcePatternFilter]) -> tuple[int, AclTable]:
        # A single request reads a single state.
        sent = AclBindingFilter(filters[0]) if len(filters) == 1 else AclBindingFilter()
        return self._ask(lambda: calls.listing(sent).then(_listed))

    def create(self, bindings: Sequence[AclBinding]) -> tuple[int, list[AclCreateResult]]:
        """As EditableAcls.

        Raises:
            SidecarRefusedError: the node's ACLs deny the request.
            SidecarOutcomeUnknownError: the connection broke, or no answer came.
            SidecarError: nothing was written.
        """
        return self._ask(lambda: calls.creation(bindings).then(_created))

    def delete(self, filters: Sequence[AclBindingFilter]) -> tuple[int, list[AclDeleteResult]]:
        return self._ask(lambda: calls.deletion(filters).then(_deleted))

    def image(self) -> AclsImage:
        end_offset, table = self.list_acls(())
        return restore_image([table], provenance=Provenance(end_offset, -1, 0))

    def load(self) -> AclSet:
        node = node_state(self._url)
        image = self.image()
        origin = PlanOrigin(self._url, node.cluster_id or "", node.topic_id, image.provenance.end_offset)
        return AclSet(self._url, image, node.cluster_id, origin)

    def apply(self, plan: AclPlan, max_removed_percent: int | None) -> tuple[int, PlanResult]:
        """As AclTarget; None: the node's own limit. Raises ApiError, and as ``create``."""
        body = application_body(plan, max_removed_percent)
        end_offset, result = self._ask(lambda: calls.plan_application(body).then(_applied))
        if result.exception is not None:
            raise result.exception
        return end_offset, result

    def _ask(self, call: Callable[[], calls.Call[_T]]) -> _T:
        try:
            request = call()
        except UnicodeEncodeError as error:
            raise Failure(f"not Unicode text: {error.object!r}", ExitCode.USAGE) from error
        try:
            with sidecar_client(
                self._url, timeout_s=self._timeout_s, names_caller=self._names_caller
            ) as client:
                return client.ask(request)
        except SidecarError as error:
            if request.is_change and not isinstance(error, SidecarOutcomeUnknownError | SidecarAnswerError):
                error.add_note("nothing was written")
            raise


def _listed(listing: AclList) -> tuple[int, AclTable]:
    records = [acl.record() for acl in listing.acls]
    # Their offsets are not printed.
    return listing.offset, AclTable.of([AppliedAcl(record, None, 0) for record in records])


def _created(creation: CreationResults) -> tuple[int, list[AclCreateResult]]:
    return creation.end_offset, [result.value() for result in creation.results]


def _deleted(deletion: DeletionResults) -> tuple[int, list[AclDeleteResult]]:
    return deletion.end_offset, [result.value() for result in deletion.results]


def _applied(application: PlanOutcomes) -> tuple[int, PlanResult]:
    (result,) = application.results
    return application.end_offset, PlanResult.from_answer(result)
