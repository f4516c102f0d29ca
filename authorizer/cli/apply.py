"""``aclog apply``: apply a plan, if the effective permissions are still those of the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from authorizer.api.errors import PlanOutdatedError, SidecarRefusedError
from authorizer.cli.acl_sources.options import (
    BROKERS_OF_A_DIRECTORY,
    acl_target,
    max_removed_option,
    source_options,
)
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode, Failure, failure_of
from authorizer.cli.options import (
    config_option,
    json_option,
    progress_option,
)
from authorizer.cli.rendering.acls import print_changed_acls
from authorizer.cli.rendering.output import answer, print_json
from authorizer.cli.workspace import Workspace

if TYPE_CHECKING:
    from authorizer.analysis.plans.plan import PlanResult


@click.command("apply", cls=Command, pair=BROKERS_OF_A_DIRECTORY)
@click.argument("plan", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="PLAN")
@click.option(
    "--allow-mass-removal",
    is_flag=True,
    help="Apply a plan that removes a larger share of the ACLs than --max-removed-percent.",
)
@max_removed_option
@source_options(
    no_acls="a plan is applied to a log, a cluster or a node (--log, --bootstrap-server, --sidecar)"
)
@config_option
@json_option
@progress_option
def apply_command(
    *,
    plan: Path,
    allow_mass_removal: bool,
    max_removed_percent: int | None,
    as_json: bool,
) -> None:
    """Apply a plan of `aclog plan --output`.

    In a log that aclog writes, directly or through the node that holds it, a plan is one atomic batch. It is
    checked against the state to which the batch is appended, also if other clients write at the same time.

    The plan is refused with exit code 1, and nothing is written, if
    - it was made for another log (cluster id, topic id);
    - the effective permissions have changed since it was made: some request has another answer;
    - the permissions are the same, but the plan's changes would no longer lead to the permissions that it
      shows. So a write that changes no answer can be a reason, too: the plan removes one of two ACLs that
      allow the same, and the other one was removed.
    No other write since then is a reason. A plan that removes a larger share of the ACLs than
    --max-removed-percent is refused with exit code 2, unless --allow-mass-removal is given. If all of its
    changes are in force already, nothing is written, with exit code 0.

    A Kafka cluster (--bootstrap-server, or --log kraft://HOST:PORT) is changed by Kafka's requests, which are
    not atomic: writes of other clients in between are noticed at the end only. DENYs are added before ALLOWs,
    and removed after them, so that no intermediate state allows more than the states before and after. Then
    the ACLs are read again; exit code 1 means that they do not have the plan's effect. Apply a plan that
    stopped half way again: it continues. A broker's directory (--log DIR) is only read; --bootstrap-server
    beside it names the brokers that change its ACLs.

    \b
    Examples:
      aclog apply plan.json --log DIR
      aclog apply plan.json --sidecar http://127.0.0.1:8180 --token-file admin.token
      aclog apply plan.json --bootstrap-server HOST:9092 --command-config client.properties
    """
    from authorizer.analysis.plans.plan_checks import ALL_PERCENT
    from authorizer.cli.acl_sources.plan_file import read_plan

    acl_plan = read_plan(plan)
    target = acl_target(Workspace.given())
    try:
        end_offset, result = target.apply(
            acl_plan, ALL_PERCENT if allow_mass_removal else max_removed_percent
        )
    except (SidecarRefusedError, PlanOutdatedError) as error:
        # The node's ACLs deny the request, or the effective permissions have changed: exit code 1.
        failure = failure_of(error)
        raise Failure(failure.message, ExitCode.NO, failure.hint) from error
    _print(end_offset, result, as_json=as_json)


def _print(end_offset: int | None, result: PlanResult, *, as_json: bool) -> None:
    from authorizer.analysis.plans.plan_checks import PlanCounts
    from authorizer.api.acl_json import acl_json

    removed, added = len(result.removed), len(result.added)
    counts = None if result.acl_count is None else PlanCounts(result.acl_count, removed, added)
    if as_json:
        print_json(
            {
                "applied": bool(result.removed or result.added),
                "aclsBefore": result.acl_count,
                "aclsRemoved": removed,
                "aclsAdded": added,
                "removedPercent": None if counts is None else counts.removed_percent,
                "endOffset": end_offset,
                "removed": [*map(acl_json, result.removed)],
                "added": [*map(acl_json, result.added)],
            }
        )
        return
    if not result.removed and not result.added:
        answer("nothing to do: all changes of the plan are in force already")
        return
    where = "" if end_offset is None else f"; the log ends at offset {end_offset}"
    share = "" if counts is None else f", {counts.removed_percent:g} % of {counts.acls:,} ACLs removed"
    answer(f"applied: {removed} ACLs removed, {added} added{share}{where}")
    print_changed_acls(result.removed, result.added)
