"""``aclog check``: decide one request, or a file of requests, on a state of a log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from authorizer.api.authorizer_api import Action, RequestContext
from authorizer.api.errors import SidecarRefusedError
from authorizer.api.ip_address import DEFAULT_HOST
from authorizer.cli.acl_sources.acl_source import acls_command, editing_commands
from authorizer.cli.acl_sources.options import acl_source, require_fitting_options, source_options
from authorizer.cli.check.explanation import decision_line, explanation_lines
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode
from authorizer.cli.invocation import given, log_words, words
from authorizer.cli.options import (
    PRINCIPAL,
    at_offset_option,
    client_address,
    config_option,
    flag_of,
    json_option,
    only_resource,
    operation_option,
    progress_option,
    release_option,
    resource_options,
)
from authorizer.cli.rendering.output import answer, note, print_json
from authorizer.cli.rendering.terminal import width
from authorizer.cli.sidecar import CREDENTIALS, sidecar_client
from authorizer.cli.workspace import Workspace
from records.acl import AclOperation, PatternType, ResourcePattern
from records.log.url import POLLED, QUORUM, kind_of, polled_servers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.engine.explanation.explain import Explanation
    from records.principal import KafkaPrincipal

# The keys of an explanation's JSON that --json prints without --explain.
_PLAIN_ANSWER: Final = (
    "result",
    "rule",
    "offset",
    "endOffset",
    "principal",
    "host",
    "operation",
    "resourceType",
    "resourceName",
    "acl",
    "remark",
    "notes",
    "otherHosts",
)


@click.command("check", cls=Command)
@source_options()
@config_option
@release_option
@click.option("--principal", type=PRINCIPAL, help="The principal that makes the request.")
@operation_option()
@resource_options()
@click.option(
    "--host",
    default=DEFAULT_HOST,
    show_default=True,
    metavar="ADDRESS",
    help="The client's IP address, as the broker sees it.",
)
@at_offset_option
@click.option(
    "--explain",
    is_flag=True,
    help="Also print the reason, ACLs that nearly match, and commands that would allow it.",
)
@click.option(
    "--batch",
    "queries",
    type=click.Path(allow_dash=True, dir_okay=False),
    metavar="QUERIES.jsonl",
    help="A file of requests, one JSON object a line (.gz too, - is stdin). Prints one JSON line for each.",
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
    """Decide whether a principal may do an operation, as the broker would.

    Prints ALLOWED or DENIED, the rule, the end offset of the state, and the request. Super users and
    allow.everyone.if.no.acl.found come from --config. Without --host it also prints the hosts for which the
    result differs, if there are any. A note says if no ACL names the principal or the resource.

    With --batch the requests come from a file: kind authorize (the default), authorizedOperations,
    authorizeByResourceType, acls or aclCount, each with an optional atOffset (after the first n records) or
    logOffset (after the record at this offset of the log). A line without host has the default of --host, and
    its answer then has hostAddress.

    With --sidecar a running node decides, with its own super users and settings. --at-offset names one of the
    states that the node published last. Requests of other principals need Describe on the cluster, or an
    entry in aclog.describe.principals. A token or a certificate identifies the caller.

    With --acls any set of ACLs decides, such as a file or a plan before it is applied.

    Exit code 0: ALLOWED, or all requests of --batch are answered; 1: DENIED.

    \b
    Examples:
      aclog check --log DIR --principal User:alice --operation Read --topic orders
      aclog check --log DIR --principal User:alice --operation Write --topic orders --host 10.0.0.1 --explain
      aclog check --log DIR --config server.properties --batch queries.jsonl > answers.jsonl
      aclog check --acls acls.txt --principal User:alice --operation Read --topic orders
      aclog check --sidecar http://127.0.0.1:8180 --principal User:a --operation Read --topic t --explain
    """
    require_fitting_options("--config", "--as")
    sidecar = given("--sidecar")
    if queries is not None:
        _refuse_with_batch(principal, operation, resource, at_offset, explain=explain)
        _check_batch(queries, records)
        return
    if records is not None:
        raise click.UsageError("--records needs --batch")
    context, action = _request(principal, operation, resource, host)
    if given("--acls") is not None:
        explanation, quality = _explained_by_set(context, action, at_offset)
    elif sidecar is None:
        explanation, quality = _explained_by_log(context, action, at_offset)
    else:
        explanation, quality = _explained_by_sidecar(sidecar, context, action, at_offset)
    if quality.is_polled:
        explanation = explanation.without_offsets()
    if explanation.remark is not None:
        note(explanation.remark)
    if not explain:
        note(*explanation.notes)
    host_source = click.get_current_context().get_parameter_source("host")
    host_assumed = host_source is click.core.ParameterSource.DEFAULT
    if host_assumed and explanation.other_hosts is not None and not explain:
        note(f"--host was not given, so {host} is assumed; {explanation.other_hosts}")
    if as_json:
        import msgspec

        document = msgspec.to_builtins(explanation.answer())
        if not explain:
            document = {key: document[key] for key in _PLAIN_ANSWER}
        else:
            document["nearMissesOfOthers"] = quality.has_misses_of_others
        print_json(document | {"hostAssumed": host_assumed} | quality.to_json())
    elif explain:
        commands = quality.commands if sidecar is None else _commands_of_sidecar(sidecar)
        _print_explanation(explanation, quality, commands, at_offset=at_offset, host_assumed=host_assumed)
    else:
        answer(decision_line(explanation, at_offset, quality.source), indent=2)
    if not explanation.decision.is_allowed:
        raise click.exceptions.Exit(ExitCode.NO)


def _check_batch(queries: str, records: str | None) -> None:
    if queries == records == "-":
        raise click.UsageError("--batch and --records cannot both read stdin")
    from authorizer.cli.check.batch import answer_batch, answer_batch_of_set, answer_batch_of_sidecar

    named = words("--sidecar", "--acls")
    if records is not None and named:
        raise click.UsageError(f"--records cannot be used with {named[0]}")
    if given("--sidecar") is not None:
        answer_batch_of_sidecar(given("--sidecar"), queries)
    elif named:
        answer_batch_of_set(Workspace.given(), queries)
    else:
        answer_batch(Workspace.given(), queries, records)


def _print_explanation(
    explanation: Explanation,
    quality: _AnswerQuality,
    commands: Sequence[Sequence[str]],
    *,
    at_offset: int | None,
    host_assumed: bool,
) -> None:
    for line in explanation_lines(
        explanation,
        columns=width(),
        commands=commands,
        at_offset=at_offset,
        uncommitted_from=quality.uncommitted_from,
        host_assumed=host_assumed,
        source=quality.source,
    ):
        click.echo(line)
    if not quality.has_misses_of_others:
        answer(
            "Near misses with other principals are not shown: the caller needs Describe on the cluster, or "
            "the socket aclog.sock in the log's directory."
        )
    if quality.age_ms is not None:
        click.echo(f"The cluster answered {quality.age_ms / 1000:.1f} s ago.")


class _AnswerQuality(NamedTuple):
    """Facts that limit an answer.

    Attributes:
        is_polled: whether the ACLs are answers of brokers, which do not tell when each was written.
        source: name of a set of ACLs without offsets.
        has_misses_of_others: whether near misses with other principals are shown.
    """

    uncommitted_from: int | None
    age_ms: int | None = None
    is_polled: bool = False
    source: str | None = None
    commands: Sequence[Sequence[str]] = ()
    has_misses_of_others: bool = True

    def to_json(self) -> dict[str, object]:
        no_offsets = {} if self.source is None else {"offset": None, "endOffset": None}
        return no_offsets | {
            "highWatermarkIsGuess": self.uncommitted_from is not None,
            "uncommittedFrom": self.uncommitted_from,
            "ageMs": self.age_ms,
        }


def _explained_by_log(
    context: RequestContext, action: Action, at_offset: int | None
) -> tuple[Explanation, _AnswerQuality]:
    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.engine.explanation.explain import explain

    workspace = Workspace.given()
    with workspace.log() as log:
        found = workspace.state(log, at_offset=at_offset, with_offsets=True)
        freshness = log.freshness()
        age_ms = None if freshness is None or at_offset is not None else freshness.age_ms
        is_of_cluster = log.is_cluster_metadata_log
        commands = editing_commands(
            log.url, log_words(), is_writable=not log.is_read_only, is_of_cluster=is_of_cluster
        )
        quality = _AnswerQuality(
            found.uncommitted_from, age_ms, is_polled=freshness is not None, commands=commands
        )
        settings = workspace.settings(is_own=not is_of_cluster)
    state = AuthorizerState(settings.index(found.image), settings)
    explanation = explain(state, context, action)
    return _with_request_notes(explanation, state), quality


def _explained_by_sidecar(
    url: str, context: RequestContext, action: Action, at_offset: int | None
) -> tuple[Explanation, _AnswerQuality]:
    from authorizer.client import AuthorizationRequest, calls
    from authorizer.engine.explanation.explain import Explanation

    pattern = action.resource_pattern
    request = AuthorizationRequest(
        context.principal, action.operation, pattern.resource_type, pattern.name, context.client_address
    )
    with sidecar_client(url) as client:
        answer = client.ask(calls.explanation(request, at_offset=at_offset))
    explanation = Explanation.from_answer(answer, context, action)
    quality = _AnswerQuality(
        answer.uncommitted_from, answer.age_ms, has_misses_of_others=answer.near_misses_of_others
    )
    return _with_request_notes(explanation, None), quality


def _commands_of_sidecar(url: str) -> Sequence[Sequence[str]]:
    """The commands that can change the ACLs of a node's log."""
    from authorizer.client import calls

    flags = ("--sidecar", url, *words(*CREDENTIALS))
    try:
        with sidecar_client(url) as client:
            state = client.ask(calls.state())
    except SidecarRefusedError:  # the caller may ask about itself only
        return [acls_command(flags)]
    is_of_cluster = kind_of(state.log) in (QUORUM, POLLED) or not state.writable
    return editing_commands(state.log, flags, is_writable=state.writable, is_of_cluster=is_of_cluster)


def _explained_by_set(
    context: RequestContext, action: Action, at_offset: int | None
) -> tuple[Explanation, _AnswerQuality]:
    from authorizer.engine.explanation.explain import explain

    if at_offset is not None:
        raise click.UsageError("--at-offset is for --log and --sidecar; --acls takes LOG@OFFSET")
    workspace = Workspace.given()
    acls = acl_source(workspace).load()
    state = acls.state(workspace.settings(is_own=acls.is_own))
    source = None if acls.has_offsets else acls.name
    quality = _AnswerQuality(
        None,
        is_polled=polled_servers(acls.name) is not None,
        source=source,
        commands=[acls.editing_command],
    )
    return _with_request_notes(explain(state, context, action), state), quality


def _with_request_notes(explanation: Explanation, state: AuthorizerState | None) -> Explanation:
    from authorizer.cli.request_notes import request_notes

    found = request_notes(
        state,
        explanation.context.principal,
        explanation.action,
        is_allowed=explanation.decision.is_allowed,
    )
    return replace(explanation, notes=(*explanation.notes, *found))


def _request(
    principal: KafkaPrincipal | None, operation: AclOperation | None, resource: dict[str, Any], host: str
) -> tuple[RequestContext, Action]:
    missing = [
        flag for flag, value in (("--principal", principal), ("--operation", operation)) if value is None
    ]
    if principal is None or operation is None:
        raise click.UsageError(f"Missing option {' and '.join(missing)} (or --batch).")
    pattern = ResourcePattern(*only_resource(resource), PatternType.LITERAL)
    return RequestContext(principal, client_address(host)), Action(operation, pattern)


def _refuse_with_batch(
    principal: KafkaPrincipal | None,
    operation: AclOperation | None,
    resource: dict[str, Any],
    at_offset: int | None,
    *,
    explain: bool,
) -> None:
    values = {
        "--principal": principal,
        "--operation": operation,
        "--at-offset": at_offset,
        "--explain": explain or None,
        **{flag_of(name): None if value is False else value for name, value in resource.items()},
    }
    for flag, value in values.items():
        if value is not None:
            raise click.UsageError(f"{flag} cannot be used with --batch: set it in the lines of the file")
