"""PlanTarget: a log, a running node or a Kafka cluster on which plans are made and applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from authorizer.cli.options import shared
from authorizer.cli.sidecar import require_one_source

if TYPE_CHECKING:
    from authorizer.analysis.plan import AclPlan, PlanOrigin, PlanResult
    from authorizer.cli.workspace import Workspace
    from snapshot.image import AclsImage

bootstrap_option: Final = shared(
    click.option(
        "--bootstrap-server",
        "bootstrap_servers",
        metavar="HOST:PORT",
        help="A Kafka cluster that is changed with Kafka's protocol, as kafka-acls does it. Client settings "
        "(SASL, TLS) are aclog.kafka.* of --config.",
    )
)


max_removed_option: Final = click.option(
    "--max-removed-percent",
    type=click.IntRange(0, 100),
    metavar="PERCENT",
    help="The largest share of the ACLs that the plan may remove; for more `aclog apply` needs "
    "--allow-mass-removal.  [default: aclog.plan.max.removed.percent, 50]",
)


class PlanTarget(Protocol):
    """The ACLs that a plan is made from and applied to."""

    def state(self) -> tuple[PlanOrigin, AclsImage]:
        """The current ACLs, and the log that holds them."""

    def apply(self, plan: AclPlan, max_removed_percent: int | None) -> tuple[int | None, PlanResult]:
        """Apply a plan; ``max_removed_percent``: as of PlanMutator.

        Returns the log's end offset, None for a target without one, and the changes.

        Raises:
            MassRemovalError: the plan removes a larger share of the ACLs than allowed.
            PlanOutdatedError: the plan is for another log, or the effective permissions have changed.
            AclogError: the plan was not applied; the error says what was written.
        """


def plan_target_of(workspace: Workspace, sidecar: str | None, bootstrap_servers: str | None) -> PlanTarget:
    """The target that the options of a command name."""
    if sidecar is not None and bootstrap_servers is not None:
        raise click.UsageError("--sidecar and --bootstrap-server cannot be used together")
    require_one_source(sidecar, "--log", "--snapshots")
    target: Any
    if bootstrap_servers is not None:
        from authorizer.cli.plans.cluster_acls import ClusterAcls

        target = ClusterAcls(bootstrap_servers, workspace)
    elif sidecar is not None:
        from authorizer.cli.acls.node_acls import NodeAcls

        target = NodeAcls(sidecar, workspace.config.acl_update_timeout_ms)
    else:
        from authorizer.cli.acls.log_acls import LogAcls

        target = LogAcls(workspace)
    found: PlanTarget = target
    return found
