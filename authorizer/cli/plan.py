"""``aclog plan``: the changes of ACLs and decisions to which a file of changes or of a desired set leads."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from authorizer.analysis.files.parsing import RESOURCES, parse_names
from authorizer.cli.acl_sources.options import (
    BROKERS_OF_A_DIRECTORY,
    acl_source,
    acl_target,
    max_removed_option,
    source_options,
    target_words,
)
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.input import STDIN, bad_line, read_lines
from authorizer.cli.invocation import given
from authorizer.cli.options import (
    PRINCIPAL,
    completes,
    config_option,
    json_option,
    progress_option,
    resource_options,
    shared,
)
from authorizer.cli.output_file import OutputFile
from authorizer.cli.rendering.output import Waiting, note, print_fact, print_json, shown
from authorizer.cli.workspace import Workspace
from records.acl import CLUSTER_NAME, ResourceType
from records.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from authorizer.analysis.files.desired_state import Scope
    from authorizer.analysis.plans.plan_checks import PlanCounts, PlanWarning
    from authorizer.analysis.request_space.name_space import Key
    from authorizer.cli.sets.diff_report import Report


_scope_options = shared(
    click.option("--all", "everything", is_flag=True, help="FILE has all desired ACLs."),
    click.option(
        "--principal",
        type=PRINCIPAL,
        multiple=True,
        help="FILE has all desired ACLs of this principal. Repeatable.",
    ),
    resource_options(prefixes=True, multiple=True),
)


@click.command("plan", cls=Command, pair=BROKERS_OF_A_DIRECTORY)
@click.argument("file", metavar="FILE")
@_scope_options
@click.option(
    "-o",
    "--output",
    type=OutputFile("JSON"),
    metavar="PLAN",
    help="Write the plan, for `aclog apply`.",
)
@click.option(
    "--requests",
    multiple=True,
    metavar="FILE",
    shell_complete=completes("file"),
    help="Recorded requests, as `aclog review` reads them: warn if they would be denied. Repeatable.",
)
@click.option(
    "--allow-empty",
    is_flag=True,
    help="Accept a FILE without an ACL in the scope (--all, ...): the plan removes all ACLs of the scope.",
)
@max_removed_option
@source_options()
@config_option
@json_option
@progress_option
def plan_command(
    *,
    file: str,
    everything: bool,
    output: Path | None,
    requests: tuple[str, ...],
    allow_empty: bool,
    max_removed_percent: int | None,
    as_json: bool,
    **scope: Any,
) -> None:
    """Show what a file of ACLs would change, and which permissions change with it.

    Prints how many ACLs the plan removes and adds, and the share of all ACLs that it removes. Then it prints
    these ACLs, every class of requests whose decision changes, with one concrete request each (as `aclog
    diff`), and warnings: a DENY for User:*, who may alter the cluster, a principal's last ALLOW, and with
    --requests whose recorded requests would be denied. Nothing but the plan is written.

    FILE has changes: command lines of kafka-acls (--add ..., --remove ...), or the JSON lines of `aclog diff
    --json` ({"acl": "added", ...}). Or it is the desired set of ACLs, in any form that `aclog diff` takes.
    Then missing ACLs are added. ACLs are removed only within a scope: --all, --principal, or resources
    (--topic 'pii-*'; both: ACLs of these principals on these resources). Other ACLs are not changed. - is
    stdin.

    A set without an ACL in the scope would remove all ACLs of the scope. It is refused with exit code 2
    unless --allow-empty is given. Truncated input (empty stdin, incomplete JSON or listing) is refused with
    exit code 4. If a plan removes a larger share of the ACLs than --max-removed-percent, `aclog apply` needs
    --allow-mass-removal.

    A plan holds the log's cluster id, the offset and a digest of the effective permissions. `aclog apply`
    refuses it if the permissions have changed. As a set of ACLs (`aclog test --acls PLAN`, `aclog diff`, ...)
    a plan is the result of applying it. With --acls a plan is shown, and cannot be written.

    Super users and allow.everyone.if.no.acl.found come from --config. Exit code 0: there are no changes; 1:
    there are changes.

    \b
    Examples:
      aclog plan changes.txt --log DIR --output plan.json
      aclog plan alice.jsonl --principal User:alice --log kafka://HOST:9092/acls
      aclog plan changes.txt --log DIR --requests /var/log/kafka/kafka-authorizer.log
      aclog plan wanted.csv --topic 'pii-*' --bootstrap-server HOST:9092 --command-config client.properties
    """
    from authorizer.analysis.files.desired_state import DesiredStateFile
    from authorizer.analysis.permissions.decision_changes import decision_changes_by
    from authorizer.analysis.plans.plan import AclPlan
    from authorizer.analysis.plans.plan_checks import PlanCounts, denied_traffic_warnings, plan_warnings
    from authorizer.cli.acl_sources.acl_source import AclSet
    from authorizer.cli.acl_sources.plan_file import is_plan, write_plan
    from authorizer.cli.reviews.review import read_requests
    from authorizer.cli.sets.diff_report import Report
    from authorizer.engine.decisions.notes import unknown_release
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.request_traffic import Window
    from snapshot.image import image_of

    if output is not None and given("--acls") is not None:
        raise click.UsageError(
            "--output writes a plan for a log, a cluster or a node: name it by --log, --bootstrap-server or "
            "--sidecar. With --acls the changes are only shown"
        )
    if is_plan(Path(file)):
        raise click.UsageError(f"{file} is a plan already: `aclog apply` carries it out")
    acl_scope = _scope_of(scope, everything=everything)
    workspace = Workspace.given()
    target = acl_target(workspace) if given("--acls") is None else acl_source(workspace)
    settings = AuthorizerSettings.from_configs(workspace.config.properties)
    with _bad_lines():
        desired = DesiredStateFile.of(read_lines(file, may_be_empty=allow_empty), file)
    if desired.steps is not None and acl_scope is not None:
        raise click.UsageError(f"{file} is a file of changes: it cannot be used with a scope (--all, ...)")
    before = target.load()
    settings = settings.with_version_of(before.image)
    if not allow_empty and (emptied := desired.count_emptied(before.table(), acl_scope)):
        raise _would_empty(file, emptied, len(before.table()))
    with _bad_lines():
        changed = desired.changes_to(before.table(), acl_scope, note)
    with Waiting("comparing"):
        result = changed.applied_to(before.table())
        after = AclSet(f"after {file}", image_of(result))
        decision_changes = decision_changes_by(changed, before.table(), settings)
        warnings = list(plan_warnings(changed, result))
    if requests:
        traffic = read_requests(requests, Window())
        warnings += denied_traffic_warnings(traffic, before.state(settings), after.state(settings))
    note(*unknown_release(after.state(settings)))
    report = Report((before, after), changed, decision_changes, (settings, settings), ("now", "then"))
    counts = PlanCounts.of(before.table(), changed, result)
    limit = workspace.max_removed_percent(max_removed_percent)
    _print(counts, limit, report, warnings, as_json=as_json)
    if output is not None:
        with Waiting("computing the effective permissions"):
            plan = AclPlan.of(before.plan_origin, before.image, changed, settings)
        write_plan(plan, output)
        where = target_words(before)
        consent = ("--allow-mass-removal",) if counts.is_mass_removal(limit) else ()
        note(f"to apply the plan: `{shlex.join(['aclog', 'apply', str(output), *where, *consent])}`")
    if len(changed.added) or len(changed.removed):
        raise click.exceptions.Exit(ExitCode.NO)


def _scope_of(flags: Mapping[str, Any], *, everything: bool) -> Scope | None:
    """The scope that flags name; None without such flags."""
    from authorizer.analysis.files.desired_state import Scope

    principals = tuple(str(each) for each in flags["principal"])
    resources: list[tuple[ResourceType, Key]] = [
        (kind, parse_names(name))
        for parameter, kind in RESOURCES.items()
        if kind is not ResourceType.CLUSTER
        for name in flags[parameter]
    ]
    if flags["cluster"]:
        resources.append((ResourceType.CLUSTER, (CLUSTER_NAME, True)))
    if everything and (principals or resources):
        raise click.UsageError("--all is every ACL: it goes without --principal and resources")
    return Scope(principals, tuple(resources)) if everything or principals or resources else None


@contextmanager
def _bad_lines() -> Iterator[None]:
    """Report errors of FILE as errors of a line."""
    try:
        yield
    except RecordError as error:
        raise bad_line(error, "`aclog plan --help` lists the forms of FILE.") from error


def _would_empty(file: str, emptied: int, total: int) -> Failure:
    name = "stdin" if file == STDIN else file
    return Failure(
        f"{name} holds no ACL of the scope, so the plan would remove all that are in it: {emptied:,} of "
        f"{total:,} ACLs",
        ExitCode.USAGE,
        "Is the file complete? To remove all of them: --allow-empty.",
    )


def _print(
    counts: PlanCounts, limit: int, report: Report, warnings: list[PlanWarning], *, as_json: bool
) -> None:
    from authorizer.api.acl_json import acl_json
    from authorizer.cli.rendering.acls import acl_line
    from authorizer.cli.rendering.terminal import doubtful
    from authorizer.cli.sets.diff_report import LABEL_WIDTH

    if as_json:
        print_json({"counts": counts.to_json(limit)})
        *rows, last = report.to_json()
        for row in rows:
            print_json(row)
        for kind, text, principal, acl in warnings:
            added = None if acl is None else acl_json(acl)
            print_json({"warning": kind, "principal": principal, "acl": added, "message": text})
        print_json(last | {"warnings": len(warnings)})
        return
    print_fact("plan", str(counts), LABEL_WIDTH)
    if counts.is_mass_removal(limit):
        text = f"this is more than {limit} % of the ACLs: `aclog apply` needs --allow-mass-removal"
        print_fact(doubtful("warning"), text, LABEL_WIDTH)
    report.print()
    for _, text, _, acl in warnings:
        suffix = "" if acl is None else f": {acl_line(acl)}"
        print_fact(doubtful("warning"), f"{shown(text)}{suffix}", LABEL_WIDTH)
