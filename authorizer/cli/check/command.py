"""``aclog check``: one question, or a file of them, on the state of a log at one offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.api import Action, RequestContext
from authorizer.cli.check.explanation import decision_line, explanation_lines
from authorizer.cli.failure import ExitCode
from authorizer.cli.invocation import words
from authorizer.cli.options import (
    OPERATION,
    PRINCIPAL,
    at_offset_option,
    config_option,
    json_option,
    log_option,
    progress_option,
    shared,
    snapshots_option,
)
from authorizer.cli.output import answer, note, print_json
from authorizer.cli.terminal import width
from authorizer.cli.workspace import Workspace
from authorizer.host import host_address
from records.acl import CLUSTER_NAME, AclOperation, PatternType, ResourcePattern, ResourceType

if TYPE_CHECKING:
    from records.principal import KafkaPrincipal

_RESOURCE_FLAGS: Final = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional_id",
    ResourceType.DELEGATION_TOKEN: "delegation_token",
    ResourceType.USER: "user_principal",
}
# The keys of an explanation's JSON that --json prints without --explain.
_PLAIN_ANSWER: Final = (
    "result",
    "rule",
    "offset",
    "principal",
    "host",
    "operation",
    "resourceType",
    "resourceName",
    "acl",
    "remark",
)


def _named(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    # Kafka's authorizer would decide on it, and no broker ever asks: a script's variable was empty.
    if value == "":
        raise click.BadParameter("the name is empty", ctx, param)
    return value


_resource_options = shared(
    click.option("--topic", metavar="NAME", callback=_named, help="On this topic."),
    click.option("--group", metavar="NAME", callback=_named, help="On this consumer group."),
    click.option("--cluster", is_flag=True, help="On the cluster."),
    click.option("--transactional-id", metavar="ID", callback=_named, help="On this transactional id."),
    click.option("--delegation-token", metavar="TOKEN", callback=_named, help="On this delegation token."),
    click.option(
        "--user-principal",
        metavar="TYPE:NAME",
        callback=_named,
        help="On this user (CreateTokens, DescribeTokens).",
    ),
)


@click.command("check")
@log_option
@snapshots_option
@config_option
@click.option("--principal", type=PRINCIPAL, help="Whose right is asked about.")
@click.option("--operation", type=OPERATION, help="For what: Read, Write, DescribeConfigs, ... in any case.")
@_resource_options
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="From where: an IP address, as the broker sees it.",
)
@at_offset_option
@click.option("--explain", is_flag=True, help="Also say why, what nearly matched, and what would allow it.")
@click.option(
    "--batch",
    "queries",
    type=click.Path(allow_dash=True, dir_okay=False),
    metavar="QUERIES.jsonl",
    help="Many questions, one JSON object a line (.gz too, - is stdin): one JSON line for each, in order.",
)
@click.option(
    "--records",
    type=click.Path(allow_dash=True, dir_okay=False),
    metavar="FILE",
    help="With --batch: kafka-dump-log payload lines (.gz too, - is stdin) instead of a log.",
)
@json_option
@progress_option
def check_command(
    *,
    principal: KafkaPrincipal | None,
    operation: AclOperation | None,
    host: str,
    at_offset: int | None,
    explain: bool,
    queries: str | None,
    records: str | None,
    as_json: bool,
    **resource: Any,
) -> None:
    """May this principal do this? Answer as the broker would.

    Prints ALLOWED or DENIED, the rule and the offset that it was decided at. Exit code 0 for ALLOWED, 1 for
    DENIED. Super users and allow.everyone.if.no.acl.found come from --config.

    With --batch the questions are those of the file: kind authorize (the default), authorizedOperations,
    authorizeByResourceType, acls or aclCount, each with an optional atOffset (after the first n records) or
    logOffset (after that offset of the log). Exit code 0 once all are answered.

    \b
    Examples:
      aclog check --log DIR --principal User:alice --operation Read --topic orders
      aclog check --log DIR --principal User:alice --operation Write --topic orders --host 10.0.0.1 --explain
      aclog check --log DIR --config server.properties --batch queries.jsonl > answers.jsonl
    """
    if queries is not None:
        _refuse_beside_batch(principal, operation, resource, at_offset, explain=explain)
        if queries == records == "-":
            raise click.UsageError("--batch and --records cannot both be stdin")
        from authorizer.cli.check.batch import answer_batch

        workspace = Workspace.given()
        answer_batch(workspace, queries, records)
        return
    if records is not None:
        raise click.UsageError("--records goes with --batch")
    from authorizer.decisions.state import AuthorizerSettings, AuthorizerState
    from authorizer.explanation.explain import explain as explain_action
    from authorizer.index.acl_index import AclIndex

    context, action = _question(principal, operation, resource, host)
    workspace = Workspace.given()
    with workspace.log() as log:
        found = workspace.state(log, at_offset=at_offset, with_offsets=True)
    state = AuthorizerState(
        AclIndex.of(found.image),
        AuthorizerSettings.from_configs(workspace.config.properties),
        is_ready=True,
        not_ready_reason="",
    )
    explanation = explain_action(state, context, action)
    if explanation.remark is not None:
        note(f"note: {explanation.remark}")
    if as_json:
        shown = explanation.to_json()
        if not explain:
            shown = {key: shown[key] for key in _PLAIN_ANSWER}
        print_json(shown | {"highWatermarkIsGuess": found.high_watermark_is_guess})
    elif explain:
        # What only a broker writes, only a broker's tool can change.
        flags = None if found.high_watermark_is_guess else words("--log", "--config")
        for line in explanation_lines(explanation, columns=width(), log_flags=flags):
            click.echo(line)
    else:
        answer(decision_line(explanation.decision, explanation.end_offset), indent=2)
    if not explanation.decision.is_allowed:
        raise click.exceptions.Exit(ExitCode.NO)


def _question(
    principal: KafkaPrincipal | None, operation: AclOperation | None, resource: dict[str, Any], host: str
) -> tuple[RequestContext, Action]:
    missing = [
        flag for flag, value in (("--principal", principal), ("--operation", operation)) if value is None
    ]
    if principal is None or operation is None:
        raise click.UsageError(f"Missing option {' and '.join(missing)} (or --batch).")
    patterns = [
        ResourcePattern(resource_type, CLUSTER_NAME if given is True else given, PatternType.LITERAL)
        for resource_type, flag in _RESOURCE_FLAGS.items()
        if (given := resource[flag]) not in (None, False)
    ]
    if len(patterns) != 1:
        flags = ", ".join(f"--{flag.replace('_', '-')}" for flag in _RESOURCE_FLAGS.values())
        raise click.UsageError(f"Name exactly one resource: {flags}.")
    try:
        address = host_address(host)
    except ValueError as error:
        raise click.BadParameter(
            f"{error}; the broker sees addresses, never names", param_hint="--host"
        ) from error
    return RequestContext(principal, address), Action(operation, patterns[0])


def _refuse_beside_batch(
    principal: KafkaPrincipal | None,
    operation: AclOperation | None,
    resource: dict[str, Any],
    at_offset: int | None,
    *,
    explain: bool,
) -> None:
    given = {
        "--principal": principal,
        "--operation": operation,
        "--at-offset": at_offset,
        "--explain": explain or None,
        **{f"--{flag.replace('_', '-')}": value or None for flag, value in resource.items()},
    }
    for flag, value in given.items():
        if value is not None:
            raise click.UsageError(f"{flag} is for a single question; with --batch the lines say it")
