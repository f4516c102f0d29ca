"""ClusterAcls: the ACLs of a Kafka cluster, changed by requests of Kafka's protocol."""

from __future__ import annotations

import time
from typing import Final

from authorizer.analysis.plans.plan import AclPlan, PlanOrigin, PlanResult
from authorizer.cli.acl_sources.acl_source import AclSet
from authorizer.cli.acl_sources.named_acls import NamedAcls
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.rendering.output import note
from authorizer.cli.workspace import Workspace, load_state
from authorizer.node.writing.cluster_plan import NOT_ATOMIC, ClusterPlan
from authorizer.node.writing.cluster_requests import BrokerRequests
from records.columns.acl_table import AclTable
from records.ids import uuid_to_string
from records.log.open import open_cluster_acls
from records.log.url import polled_servers

_POLL_INTERVAL_S: Final = 0.1


class ClusterAcls:
    """Implements AclTarget. Reads the cluster's log instead if the command names it."""

    def __init__(self, bootstrap_servers: str, workspace: Workspace) -> None:
        self._workspace = workspace
        self._cluster = open_cluster_acls(bootstrap_servers, client=workspace.config.kafka)

    def load(self) -> AclSet:
        cluster_id = self._cluster.cluster_id()
        config = self._workspace.config
        is_polled = polled_servers(config.log_url) is not None
        if is_polled or (config.log_url is None and config.broker_log is None):
            # Polls have offsets of their own, so only the cluster identifies the target.
            name = config.log_url if is_polled and config.log_url else self._cluster.url
            found = NamedAcls(name, self._workspace).load()
            return found._replace(origin=PlanOrigin(found.name, cluster_id))
        with self._workspace.log() as log:
            if log.identity.cluster_id != cluster_id:
                raise Failure(
                    f"{log.url} is of cluster {log.identity.cluster_id}, {self._cluster.url} is {cluster_id}",
                    ExitCode.USAGE,
                )
            image = load_state(log, self._workspace.sources()).image
            topic_id = uuid_to_string(log.identity.topic_id)
            origin = PlanOrigin(log.url, cluster_id, topic_id, image.provenance.end_offset)
            return AclSet(log.url, image, cluster_id, origin)

    def apply(self, plan: AclPlan, max_removed_percent: int | None) -> tuple[None, PlanResult]:
        """As AclTarget: sends requests, then reads the ACLs again.

        Raises:
            PlanOutdatedError: as AclTarget, and nothing was written; or all of the plan was written, but the
                effective permissions differ from the plan's.
            LogError: a request failed after others succeeded; applying the plan again continues.
        """
        acls = self.load()
        plan.require_log(acls.plan_origin.cluster_id, acls.plan_origin.topic_id)
        pending = ClusterPlan(plan, acls.image, self._workspace.max_removed_percent(max_removed_percent))
        if not pending.to_remove and not pending.to_add:
            return None, PlanResult(acl_count=pending.acl_count)
        self._cluster.require_writable([*pending.to_remove, *pending.to_add])
        note(NOT_ATOMIC)
        pending.carry_out(BrokerRequests(self._cluster))
        table = self._wait_until_applied(pending)
        pending.require_done(table)
        return None, pending.result({acl.record.content: acl.record for acl in plan.affected_rows(table)}.get)

    def _wait_until_applied(self, pending: ClusterPlan) -> AclTable:
        """Return the ACLs once the brokers have replayed the changes."""
        give_up_s = time.monotonic() + self._workspace.config.acl_update_timeout_ms / 1000
        while True:
            table = self.load().table()
            if pending.is_done(table):
                return table
            if time.monotonic() > give_up_s:
                raise Failure(
                    "the cluster accepted the requests, but its ACLs are not those of the plan yet",
                    ExitCode.NOT_READY,
                    "Apply the plan again until there is nothing to do.",
                )
            time.sleep(_POLL_INTERVAL_S)
