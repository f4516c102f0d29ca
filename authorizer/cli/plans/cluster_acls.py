"""The ACLs of a Kafka cluster whose brokers write them: a plan is carried out by Kafka's own requests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from authorizer.analysis.plan import PlanOrigin, PlanResult
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.rendering.output import note
from authorizer.cli.sets.source import load_set
from authorizer.cli.workspace import load_state
from authorizer.node.writing.cluster_plan import NOT_ATOMIC, ClusterPlan
from records.ids import uuid_to_string
from records.log.open import open_cluster_acls

if TYPE_CHECKING:
    from authorizer.analysis.plan import AclPlan
    from authorizer.cli.workspace import Workspace
    from records.columns.acl_table import AclTable
    from snapshot.image import AclsImage

_LOOK_S: Final = 0.1


class ClusterAcls:
    """Implements planned.Planned. Read from the cluster's log where the command names that, too."""

    def __init__(self, bootstrap_servers: str, workspace: Workspace) -> None:
        """LogError: the servers or a client setting make no sense."""
        self._workspace = workspace
        self._cluster = open_cluster_acls(bootstrap_servers, client=workspace.config.kafka)

    def state(self) -> tuple[PlanOrigin, AclsImage]:
        """As planned.Planned. LogError: the cluster does not answer, or not to this."""
        cluster_id = self._cluster.cluster_id()
        config = self._workspace.config
        if config.log_url is None and config.brokers_log is None:
            found = load_set(self._cluster.url, self._workspace)
            return PlanOrigin(found.name, cluster_id), found.image
        with self._workspace.log() as log:
            if log.identity.cluster_id != cluster_id:
                raise Failure(
                    f"{log.url} is of cluster {log.identity.cluster_id}, {self._cluster.url} is {cluster_id}",
                    ExitCode.USAGE,
                )
            image = load_state(log, self._workspace.sources()).image
            topic_id = uuid_to_string(log.identity.topic_id)
            return PlanOrigin(log.url, cluster_id, topic_id, image.provenance.end_offset), image

    def apply(self, plan: AclPlan, max_removed_percent: int | None) -> tuple[None, PlanResult]:
        """As planned.Planned: by requests, and then looked at again.

        Raises:
            MassRemovalError: as planned.Planned, and nothing was written.
            PlanOutdatedError: as planned.Planned, and nothing was written; or all of it was carried out, and
                the meaning is another one than the plan says.
            EncodeError: an ACL that the Kafka client cannot write; nothing was written.
            LogError: a request failed; those before it are carried out, and applying the plan again goes on.
            Failure: all of it was carried out, and cannot be read yet.
        """
        origin, image = self.state()
        plan.require_log(origin.cluster_id, origin.topic_id)
        left = ClusterPlan(plan, image, self._workspace.max_removed_percent(max_removed_percent))
        if not left.to_remove and not left.to_add:
            return None, PlanResult(acl_count=left.acl_count)
        self._cluster.require_writable([*left.to_remove, *left.to_add])
        note(f"note: {NOT_ATOMIC}")
        left.carry_out(self._cluster)
        table = self._seen(left)
        left.require_done(table)
        return None, left.result({acl.record.content: acl.record for acl in plan.held(table)}.get)

    def _seen(self, left: ClusterPlan) -> AclTable:
        """The ACLs once the brokers have replayed what the controller wrote."""
        give_up_s = time.monotonic() + self._workspace.config.acl_update_timeout_ms / 1000
        while True:
            table = self.state()[1].merged().columns
            if left.is_done(table):
                return table
            if time.monotonic() > give_up_s:
                raise Failure(
                    "the cluster accepted the requests, but its ACLs are not those of the plan yet",
                    ExitCode.NOT_READY,
                    "Apply the plan again until there is nothing to do.",
                )
            time.sleep(_LOOK_S)
