"""``aclog blame``: every change of an answer in the history, and the records that caused it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.api.ip_address import DEFAULT_HOST
from authorizer.cli.acl_sources.options import source_options
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode
from authorizer.cli.options import (
    PATTERN_TYPE,
    PRINCIPAL,
    client_address,
    completes,
    config_option,
    history_cluster_option,
    json_option,
    only_resource,
    operation_option,
    progress_option,
    resource_options,
    shared,
)
from authorizer.cli.spark.options import SparkFlags, spark_options
from authorizer.cli.workspace import Workspace
from records.acl import AclOperation, AclPermissionType, PatternType
from records.errors import DecodeError
from records.ids import uuid_from_string

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.analysis.history.blame import AclSubject, RequestSubject
    from authorizer.cli.blame.log_history import NamedHistory
    from records.principal import KafkaPrincipal

_ANY_HOST: Final = "*"

_subject_options: Final = shared(
    click.option("--principal", type=PRINCIPAL, help="The answer: may this principal do the operation?"),
    click.option(
        "--allow-principal",
        type=PRINCIPAL,
        help="The answer: is the ACL in force that allows it to this principal?",
    ),
    click.option(
        "--deny-principal",
        type=PRINCIPAL,
        help="The answer: is the ACL in force that denies it to this principal?",
    ),
    click.option("--id", "acl_id", metavar="ID", help="The answer: is the ACL with this id in force?"),
    operation_option(),
    resource_options(),
    click.option(
        "--host",
        metavar="ADDRESS",
        help="The client's IP address, or the ACL's host.  [default: 127.0.0.1; for an ACL *, all hosts]",
    ),
    click.option(
        "--resource-pattern-type",
        type=PATTERN_TYPE,
        default=PatternType.LITERAL.name,
        show_default=True,
        help="The ACL's pattern type: LITERAL or PREFIXED.",
    ),
)


@click.command("blame", cls=Command)
@source_options(
    no_sidecar="a node keeps only its newest states. Its log has the history: --log, --bootstrap-controller",
    no_acls="a set of ACLs has no history. A log has one (--log, --bootstrap-server), or --history",
)
@click.option(
    "--history",
    metavar="DIR",
    shell_complete=completes("dir"),
    help="Instead of --log the history that `aclog spark changes` has stored, also of records that the log "
    "has deleted. Spark reads it.",
)
@history_cluster_option
@click.option(
    "--from",
    "first",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="Begin with this offset.  [default: the earliest known one]",
)
@_subject_options
@spark_options
@config_option
@json_option
@progress_option
def blame_command(
    *, history: str | None, cluster_id: str | None, first: int | None, as_json: bool, **flags: Any
) -> None:
    """Show which records changed an answer, and when.

    The answer is whether a principal may do an operation, or whether an ACL is in force. Prints every change
    of it, oldest first: the records that caused it, with offset and time, and the deciding ACL or rule before
    and after. Then prints the answer now, with each ACL that gives it. If it never changed, a note says if no
    ACL names the principal or the resource. Exit code 0: the answer is yes now; 1: it is no.

    A log is read from its start; if it was trimmed, from the oldest checkpoint or snapshot; with --from, from
    the state at that offset. A compacted topic lacks records, so answers in between are unknown; a history
    of `aclog spark changes` has them.

    The rules are those of the Kafka release that the brokers in the log had registered at the time, or of
    aclog.kafka.version in --config. A history has no brokers: there the answer is yes if it is yes by the
    rules of every release.

    \b
    Examples:
      aclog blame --log DIR --principal User:alice --operation Read --topic orders
      aclog blame --log DIR --deny-principal 'User:*' --operation All --topic pii- \\
          --resource-pattern-type prefixed
      aclog blame --log DIR --from 1200 --id u5Hxq0mDQ8WDiSU5EuFUwA
      aclog blame --history DIR --id u5Hxq0mDQ8WDiSU5EuFUwA --json
    """
    from authorizer.analysis.history.history import AnswerHistory
    from authorizer.cli.blame.report import Report, note_unknown_subject

    spark = SparkFlags(**{each.name: flags.pop(each.name) for each in fields(SparkFlags)})
    if cluster_id is not None and history is None:
        raise click.UsageError("--cluster-id names a cluster of --history: name that, too")
    workspace = Workspace.given()
    subject = _subject(workspace, **flags)
    with _open_history(workspace, subject, history, cluster_id, spark, first) as source:
        answers = AnswerHistory(source, subject)
        report = Report(source, subject, as_json=as_json)
        report.begin(answers.answer)
        for step, change in answers.steps():
            if step.unknown_from is not None:
                report.unknown(step.unknown_from, step.end_offset)
            if change is not None:
                report.change(step, change)
        report.end(answers.answer)
        if not report.has_changes:
            note_unknown_subject(workspace, source, subject, answers.answer)
    if not answers.answer.holds:
        raise click.exceptions.Exit(ExitCode.NO)


def _subject(
    workspace: Workspace,
    *,
    principal: KafkaPrincipal | None,
    allow_principal: KafkaPrincipal | None,
    deny_principal: KafkaPrincipal | None,
    acl_id: str | None,
    operation: AclOperation | None,
    host: str | None,
    resource_pattern_type: PatternType,
    **resource: Any,
) -> RequestSubject | AclSubject:
    """The request or the ACL whose answer the history shows."""
    from authorizer.analysis.history.blame import AclSubject

    flags = {
        "--principal": principal,
        "--allow-principal": allow_principal,
        "--deny-principal": deny_principal,
        "--id": acl_id,
    }
    if sum(value is not None for value in flags.values()) != 1:
        raise click.UsageError(f"Name exactly one of {', '.join(flags)}.")
    if acl_id is not None:
        if operation is not None or host is not None or any(resource.values()):
            raise click.UsageError("--id identifies the ACL: name no other of its fields")
        try:
            return AclSubject(id=uuid_from_string(acl_id))
        except DecodeError as error:
            raise click.BadParameter(str(error), param_hint="--id") from error
    if operation is None:
        raise click.UsageError("Missing option '--operation'.")
    resource_type, name = only_resource(resource)
    if principal is not None:
        return _request_subject(workspace, principal, host, operation, resource_type, name)
    permission = AclPermissionType.DENY if allow_principal is None else AclPermissionType.ALLOW
    if resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise click.UsageError("--resource-pattern-type: an ACL is LITERAL or PREFIXED")
    return AclSubject(
        content=(
            int(resource_type),
            name,
            int(resource_pattern_type),
            str(allow_principal or deny_principal),
            host or _ANY_HOST,
            int(operation),
            int(permission),
        )
    )


def _request_subject(
    workspace: Workspace,
    principal: KafkaPrincipal,
    host: str | None,
    operation: AclOperation,
    resource_type: Any,
    name: str,
) -> RequestSubject:
    from authorizer.analysis.history.blame import RequestSubject
    from authorizer.api.authorizer_api import Action, RequestContext
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.acl import ResourcePattern

    return RequestSubject(
        RequestContext(principal, client_address(host or DEFAULT_HOST)),
        Action(operation, ResourcePattern(resource_type, name, PatternType.LITERAL)),
        AuthorizerSettings.from_configs(workspace.config.properties),
    )


@contextmanager
def _open_history(
    workspace: Workspace,
    subject: RequestSubject | AclSubject,
    history: str | None,
    cluster_id: str | None,
    spark: SparkFlags,
    first: int | None,
) -> Iterator[NamedHistory]:
    if history is not None:
        from authorizer.cli.blame.spark_history import open_spark_history

        with open_spark_history(history, cluster_id, spark, subject, first) as found:
            yield found
        return
    from authorizer.cli.blame.log_history import LogHistory

    with workspace.log() as log:
        yield LogHistory.open(log, workspace.sources(), subject, first)
