"""LogAcls: the ACLs of a log, written by the command or by the node that has the log open."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from authorizer.analysis.plans.plan import PlanOrigin, PlanResult
from authorizer.cli.acl_sources.acl_source import AclSet
from authorizer.cli.failure import ExitCode, Failure, WriteAttempt, write_attempt
from authorizer.cli.rendering.output import note
from authorizer.cli.workspace import load_state, wait_until_readable
from authorizer.engine.acl_validation import HostRules
from authorizer.node.writing.acl_control import apply_plan, plan_creation, plan_deletion
from authorizer.node.writing.cluster_change import ClusterCreation, ClusterDeletion
from authorizer.node.writing.cluster_plan import NOT_ATOMIC, ClusterPlan
from authorizer.node.writing.writer_view import WriterView
from records.errors import LogLockedError, LogMovedError
from records.ids import uuid_to_string
from records.log.directory.files import SOCKET_FILE
from records.log.directory.identity import random_id
from records.log.url import directory_of
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from authorizer.analysis.plans.plan import AclPlan
    from authorizer.api.authorizer_api import AclCreateResult, AclDeleteResult
    from authorizer.cli.acl_sources.node_acls import NodeAcls
    from authorizer.cli.workspace import Workspace
    from authorizer.node.writing.acl_control import Change, FindAcl
    from records.acl import AclBinding, AclBindingFilter, ResourcePatternFilter
    from records.columns.acl_table import AclTable
    from records.log.base import MetadataLog

_T = TypeVar("_T")


class _ClusterChange(Protocol[_T]):
    """Changes by requests to a cluster: cluster_change and cluster_plan of authorizer.node.writing."""

    def write(self, log: MetadataLog) -> int | None: ...

    def answers(self, find: FindAcl, image: AclsImage) -> list[_T]: ...


#: Time that another process may hold the log without taking requests: a command, a node that starts.
_LOCK_TIMEOUT_S: Final = 3.0
_POLL_INTERVAL_S: Final = 0.05


class LogAcls:
    """Implements EditableAcls for the log of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def list_acls(self, filters: Sequence[ResourcePatternFilter]) -> tuple[int, AclTable]:
        """As EditableAcls: all ACLs. A node may be writing the log."""
        with self._workspace.log() as log:
            image = self._workspace.state(log).image
        return image.provenance.end_offset, image.merged().columns

    def create(self, bindings: Sequence[AclBinding]) -> tuple[int, list[AclCreateResult]]:
        def here(log: MetadataLog, attempt: WriteAttempt) -> tuple[int, list[AclCreateResult]]:
            image = self._workspace.state(log).image
            view = _view(image)
            if log.cluster_writer is not None:
                return self._through_cluster(log, ClusterCreation(view.find, bindings), image, attempt)
            creation = plan_creation(view, bindings, random_id, self._host_rules(image))
            return _appended(log, creation, image, attempt), list(creation.results)

        return self._change(here, lambda node: node.create(bindings))

    def delete(self, filters: Sequence[AclBindingFilter]) -> tuple[int, list[AclDeleteResult]]:
        def here(log: MetadataLog, attempt: WriteAttempt) -> tuple[int, list[AclDeleteResult]]:
            image = self._workspace.state(log).image
            records = [acl.record for acl in image]
            if log.cluster_writer is not None:
                return self._through_cluster(log, ClusterDeletion(records, filters), image, attempt)
            deletion = plan_deletion(records, filters)
            return _appended(log, deletion, image, attempt), list(deletion.results)

        return self._change(here, lambda node: node.delete(filters))

    def load(self) -> AclSet:
        """As AclSource; a node may be writing the log."""
        with self._workspace.log() as log:
            image = self._workspace.state(log).image
            end_offset = image.provenance.end_offset
            topic_id = uuid_to_string(log.identity.topic_id)
            url = log.url if log.directory is None else str(log.directory)
            origin = PlanOrigin(url, log.identity.cluster_id, topic_id, end_offset)
            is_brokers = log.is_read_only and log.is_cluster_metadata_log
            return AclSet(url, image, origin.cluster_id, origin, is_changed_by_brokers=is_brokers)

    def apply(self, plan: AclPlan, max_removed_percent: int | None) -> tuple[int, PlanResult]:
        """As AclTarget: one batch, appended to the state that was checked."""
        limit = self._workspace.max_removed_percent(max_removed_percent)
        give_up_s = time.monotonic() + self._workspace.config.acl_update_timeout_ms / 1000

        def here(log: MetadataLog, attempt: WriteAttempt) -> tuple[int, PlanResult]:
            while True:
                image = self._workspace.state(log).image
                if log.cluster_writer is not None:
                    return self._applied(log, plan, image, limit, attempt)
                change = apply_plan(plan, image, log.identity, random_id, self._host_rules(image), limit)
                try:
                    return _appended(log, change, image, attempt), change.results[0]
                except LogMovedError:
                    # Another node has written; the effective permissions may be the same.
                    if time.monotonic() >= give_up_s:
                        raise
                attempt.appends = False

        return self._change(here, lambda node: node.apply(plan, max_removed_percent))

    def _applied(
        self, log: MetadataLog, plan: AclPlan, image: AclsImage, limit: int, attempt: WriteAttempt
    ) -> tuple[int, PlanResult]:
        plan.require_log(log.identity.cluster_id, uuid_to_string(log.identity.topic_id))
        pending = ClusterPlan(plan, image, limit)
        if not pending.to_remove and not pending.to_add:
            return image.provenance.end_offset, PlanResult(acl_count=pending.acl_count)
        note(NOT_ATOMIC)
        end_offset, (result,) = self._through_cluster(log, pending, image, attempt)
        if result.exception is not None:
            raise result.exception
        return end_offset, result

    def _through_cluster(
        self, log: MetadataLog, change: _ClusterChange[_T], image: AclsImage, attempt: WriteAttempt
    ) -> tuple[int, list[_T]]:
        """Send requests to the cluster; the results have the ids of its log."""
        attempt.appends = True
        end_offset = change.write(log)
        if end_offset is not None:
            wait_until_readable(log, end_offset)
            image = load_state(log, self._workspace.sources()).image
        return image.provenance.end_offset, change.answers(_view(image).find, image)

    def _host_rules(self, image: AclsImage) -> HostRules:
        return HostRules.of(self._workspace.config.kafka_version, image)

    def _change(
        self, here: Callable[[MetadataLog, WriteAttempt], _T], through: Callable[[NodeAcls], _T]
    ) -> _T:
        """Write to the log, or through the node that holds it."""
        url, timeout_ms = self._workspace.writable_log_url, self._workspace.config.acl_update_timeout_ms
        give_up_s = time.monotonic() + _LOCK_TIMEOUT_S
        while True:
            try:
                with write_attempt() as attempt, self._workspace.log(mode="write") as log:
                    return here(log, attempt)
            except LogLockedError as error:
                from authorizer.cli.acl_sources.node_acls import NodeAcls

                directory = directory_of(url)
                with write_attempt():
                    node = NodeAcls.of_directory(directory, timeout_ms)
                if node is None and time.monotonic() >= give_up_s:
                    raise Failure(
                        str(error),
                        ExitCode.NOT_READY,
                        f"Nothing was written. It takes no requests at {directory / SOCKET_FILE}: wait until "
                        "it has ended, or if it is a node with a sidecar, name that: --sidecar URL.",
                    ) from error
            if node is not None:
                return through(node)
            time.sleep(_POLL_INTERVAL_S)


def _appended(log: MetadataLog, change: Change[object], image: AclsImage, attempt: WriteAttempt) -> int:
    attempt.appends = bool(change.records)
    end_offset = change.write(log)
    if end_offset is None:
        return image.provenance.end_offset
    wait_until_readable(log, end_offset)
    return end_offset


def _view(image: AclsImage) -> WriterView:
    view = WriterView()
    view.on_replayed(AclsDelta(AclsImage.EMPTY), image)
    return view
