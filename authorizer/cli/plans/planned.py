"""Where plans are made and applied: a log, a running node, or a cluster that is asked by its own protocol."""

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


class Planned(Protocol):
    """What plans are made on and applied to."""

    def state(self) -> tuple[PlanOrigin, AclsImage]:
        """The ACLs as they are now, and which log they are of."""

    def apply(self, plan: AclPlan, max_removed_percent: int | None) -> tuple[int | None, PlanResult]:
        """Carry out a plan; ``max_removed_percent``: as api.PlanMutator.

        Returns the end offset of the log, if it has one here, and what was done.

        Raises:
            MassRemovalError: it removes a larger share of the ACLs than it may.
            PlanOutdatedError: it was made on another log, or on what has another meaning now.
            AclogError: it could not be carried out; what was written is said.
        """


def given_planned(workspace: Workspace, sidecar: str | None, bootstrap_servers: str | None) -> Planned:
    """What the flags of a command name."""
    if sidecar is not None and bootstrap_servers is not None:
        raise click.UsageError("--sidecar and --bootstrap-server cannot be used together")
    require_one_source(sidecar, "--log", "--snapshots")
    planned: Any
    if bootstrap_servers is not None:
        from authorizer.cli.plans.cluster_acls import ClusterAcls

        planned = ClusterAcls(bootstrap_servers, workspace)
    elif sidecar is not None:
        from authorizer.cli.acls.node_acls import NodeAcls

        planned = NodeAcls(sidecar, workspace.config.acl_update_timeout_ms)
    else:
        from authorizer.cli.acls.log_acls import LogAcls

        planned = LogAcls(workspace)
    found: Planned = planned
    return found
