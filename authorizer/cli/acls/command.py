"""``aclog acls``: kafka-acls on a log of one's own, and its listing of any log.

One difference from kafka-acls, on purpose: a command is one atomic batch, where Kafka writes a resource at a
time and may stop half way.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from authorizer.acl_json import acl_json
from authorizer.cli.acls.kafka_acls import AclsFlags, Entries, adding, already_there, confirmation
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.invocation import words
from authorizer.cli.options import (
    OPERATION,
    PATTERN_TYPE,
    completes,
    config_option,
    json_option,
    log_option,
    progress_option,
    shared,
    snapshots_option,
)
from authorizer.cli.output import print_json
from authorizer.cli.workspace import Workspace
from authorizer.cli.write_attempt import write_attempt
from authorizer.writing.acl_control import matching_records, validate_binding, validate_filter
from records.acl import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
)
from records.entries import AccessControlEntryRecord

if TYPE_CHECKING:
    from authorizer.api import AclCreateResult, AclDeleteResult
    from records.columns.acl_table import AclTable

_OPERATIONS: Final = ", ".join(known.title for known in AclOperation if known > AclOperation.ANY)


class Acls(Protocol):
    """Where ACLs are: a log, or a node that follows one. Each call gives an end offset beside its answer."""

    def listed(self, wanted: Sequence[ResourcePatternFilter]) -> tuple[int, AclTable]:
        """ACLs of one state: at least those on the resources that a filter means; no filter means all."""

    def create(self, bindings: Sequence[AclBinding]) -> tuple[int, list[AclCreateResult]]:
        """One result for each binding, once what was written can be read."""

    def delete(self, filters: Sequence[AclBindingFilter]) -> tuple[int, list[AclDeleteResult]]:
        """One result for each filter, once what was written can be read."""


def _repeatable(flag: str, metavar: str, text: str) -> Any:
    return click.option(flag, metavar=metavar, multiple=True, help=f"{text} Repeatable.")


def _flag(name: str, text: str) -> Any:
    return click.option(name, is_flag=True, help=text)


_actions = shared(
    _flag("--add", "Add ACLs."),
    _flag("--remove", "Remove ACLs."),
    _flag("--list", "List ACLs: those of the resources named, or all."),
)
_resources = shared(
    _repeatable("--topic", "TOPIC", "Topic; '*' for all topics."),
    _repeatable("--group", "GROUP", "Consumer group; '*' for all groups."),
    _flag("--cluster", "The cluster itself."),
    _repeatable("--transactional-id", "ID", "Transactional id; '*' for all."),
    _repeatable("--delegation-token", "TOKEN", "Delegation token; '*' for all."),
    _repeatable(
        "--user-principal", "TYPE:NAME", "A user as a resource, for CreateTokens and DescribeTokens."
    ),
    click.option(
        "--resource-pattern-type",
        type=PATTERN_TYPE,
        default=PatternType.LITERAL.name,
        show_default=True,
        help="How names are meant. --add takes LITERAL and PREFIXED; --list and --remove also ANY (this very "
        "name, with any pattern type) and MATCH (all that affects the resource; take care with --remove).",
    ),
)
_entries = shared(
    _repeatable("--allow-principal", "TYPE:NAME", "Who is allowed; User:'*' is everyone."),
    _repeatable("--deny-principal", "TYPE:NAME", "Who is denied. A DENY wins over every ALLOW."),
    _repeatable("--allow-host", "HOST", "From where it is allowed.  [default: '*' with --allow-principal]"),
    _repeatable("--deny-host", "HOST", "From where it is denied.  [default: '*' with --deny-principal]"),
    click.option(
        "--operation",
        metavar="OPERATION",
        multiple=True,
        shell_complete=OPERATION.shell_complete,
        help=f"One of {_OPERATIONS}.  [default: All] Repeatable.",
    ),
    _repeatable("--principal", "TYPE:NAME", "With --list: only ACLs of exactly this principal."),
    _flag("--producer", "Write, Describe, Create on topics; Write, Describe on transactional ids."),
    _flag("--consumer", "Read, Describe on --topic; Read on --group."),
    _flag("--idempotent", "With --producer: IdempotentWrite on the cluster as well."),
    _flag("--force", "Do not ask before removing."),
)


def _not_here(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError(f"{param.opts[0]} is a broker's; here --log names the log", ctx)


#: For scripts that are given their secrets so.
_TOKEN_VARIABLE: Final = "ACLOG_SIDECAR_TOKEN"  # noqa: S105 - no password

# kafka-acls' own way to name the cluster; the error names the flag to use here.
_elsewhere = shared(
    *(
        click.option(flag, hidden=True, expose_value=False, callback=_not_here)
        for flag in ("--bootstrap-server", "--bootstrap-controller", "--command-config")
    )
)


@click.command("acls")
@_actions
@log_option
@click.option(
    "--sidecar",
    metavar="URL",
    help="A running node instead of a log: http://HOST:PORT (or https) of its sidecar, or unix:PATH of the "
    "aclog.sock in its log's directory.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    shell_complete=completes("file"),
    help="The bearer token for --sidecar, alone in a file.  [default: ACLOG_SIDECAR_TOKEN, else none]",
)
@_resources
@_entries
@snapshots_option
@config_option
@json_option
@progress_option
@_elsewhere
def acls_command(
    *, sidecar: str | None, token_file: Path | None, as_json: bool, force: bool, **flags: Any
) -> None:
    """Add, remove or list ACLs, with the flags and output of kafka-acls.

    --list reads any log, a broker's __cluster_metadata-0 too. --add and --remove need a topic, or a directory
    that aclog made; where an `aclog serve` is running on that directory, they go through it. The whole
    command is one atomic batch.

    --sidecar asks a running node, wherever its log is. Over HTTP, its own ACLs say who may: to list takes
    Describe on the cluster, to change takes Alter. Who you are there, a token says (`aclog token create`).

    Exit codes are aclog's. Scripts that were written for kafka-acls run unchanged with aclog-kafka-acls,
    which has its exit codes too; ACLOG_LOG_URL names the log there.

    \b
    Examples:
      aclog acls --log DIR --list --topic orders --resource-pattern-type match
      aclog acls --log DIR --add --allow-principal User:alice --consumer --topic orders --group app
      aclog acls --log DIR --remove --topic orders --force
      aclog acls --log kafka://HOST:9092/acls --config client.properties --list
      aclog acls --sidecar http://127.0.0.1:8180 --list
      aclog acls --sidecar https://acls.example.org --token-file admin.token --list
    """
    wanted = AclsFlags(**flags)
    wanted.check()
    workspace = Workspace.given()
    acls: Acls
    if sidecar is None:
        if token_file is not None:
            raise click.UsageError("--token-file says who asks a node: name it by --sidecar")
        from authorizer.cli.acls.log_acls import LogAcls

        acls = LogAcls(workspace)
    elif not words("--log", "--snapshots"):
        from authorizer.cli.acls.node_acls import NodeAcls

        token = _token(token_file)
        acls = NodeAcls(sidecar, workspace.config.acl_update_timeout_ms, token)
    else:
        raise click.UsageError("--sidecar names a node, which has a log and a store of its own")
    perform(acls, wanted, force=force, as_json=as_json)


def _token(file: Path | None) -> str | None:
    """The bearer token that was given, if one was."""
    text = os.environ.get(_TOKEN_VARIABLE) if file is None else file.read_text("utf-8", "replace")
    if text is None:
        return None
    token = text.strip()
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise Failure(f"{file or _TOKEN_VARIABLE} is not one bearer token and nothing else", ExitCode.USAGE)
    return token


def perform(acls: Acls, given: AclsFlags, *, force: bool, as_json: bool = False) -> None:
    """What checked flags ask for, and print it as kafka-acls does."""
    if given.list:
        _list(acls, given.resource_filters(), given.principals_listed(), as_json=as_json)
    elif given.add:
        _add(acls, given.bindings_to_add(), as_json=as_json)
    else:
        _remove(acls, given.entries_by_resource(), force=force, as_json=as_json)


def _list(
    acls: Acls, wanted: Sequence[ResourcePatternFilter], principals: Sequence[str], *, as_json: bool
) -> None:
    from authorizer.cli.acls.kafka_acls_listing import listing, listing_of_principal

    end_offset, columns = acls.listed(wanted)
    if wanted:
        columns = _matching(columns, wanted)
    if as_json:
        records = [acl.record for acl in columns]
        chosen = [record for record in records if not principals or record.principal in principals]
        print_json({"endOffset": end_offset, "acls": _json(chosen)})
        return
    texts = [listing_of_principal(each, columns) for each in principals] or [listing(columns)]
    for piece in chain.from_iterable(texts):
        click.echo(piece, nl=False)


def _add(acls: Acls, wanted: Mapping[ResourcePattern, Entries], *, as_json: bool) -> None:
    bindings = [AclBinding(pattern, entry) for pattern, entries in wanted.items() for entry in entries]
    with write_attempt():
        for binding in bindings:
            # All or nothing: a node would create the others.
            validate_binding(binding)
    end_offset, results = acls.create(bindings)
    added = {}
    for binding, result in zip(bindings, results, strict=True):
        if result.exception is not None:
            raise result.exception
        if result.record is not None:
            added[binding] = result.record
    if as_json:
        print_json({"endOffset": end_offset, "added": _json(added.values())})
        return
    for pattern, entries in wanted.items():
        for entry in entries:
            if AclBinding(pattern, entry) not in added:
                click.echo(already_there(AclBinding(pattern, entry)), nl=False)
        new = tuple(entry for entry in entries if AclBinding(pattern, entry) in added)
        if new:
            click.echo(adding(pattern, new), nl=False)


def _remove(
    acls: Acls, wanted: Mapping[ResourcePatternFilter, Entries], *, force: bool, as_json: bool
) -> None:
    with write_attempt():
        confirmed = [
            (where, entries)
            for where, entries in wanted.items()
            if force or _confirm(where, entries, as_json=as_json)
        ]
        filters = [
            AclBindingFilter(where, entry)
            for where, entries in confirmed
            for entry in ([_exactly(entry) for entry in entries] or [AccessControlEntryFilter()])
        ]
        for acl_filter in filters:
            validate_filter(acl_filter)
    end_offset, results = acls.delete(filters)
    removed = {}
    for result in results:
        if result.exception is not None:
            raise result.exception
        for deleted in result.acl_binding_delete_results:
            if deleted.record is not None:
                removed[deleted.record.id] = deleted.record
    if as_json:
        print_json({"endOffset": end_offset, "removed": _json(removed.values())})


def _exactly(entry: AccessControlEntry) -> AccessControlEntryFilter:
    return AccessControlEntryFilter(entry.principal, entry.host, entry.operation, entry.permission_type)


def _confirm(where: ResourcePatternFilter, entries: Entries, *, as_json: bool) -> bool:
    click.echo(confirmation(where, entries), nl=False, err=as_json)
    answer: str = sys.stdin.readline()
    if not answer:
        raise click.UsageError("stdin ended before an answer of y or n: --force removes without asking")
    return answer.strip().lower() == "y"


def _matching(columns: AclTable, wanted: Iterable[ResourcePatternFilter]) -> AclTable:
    from records.columns.acl_table import AclTable

    acls = {acl.record.id: acl for acl in columns}
    records = [acl.record for acl in acls.values()]
    found = {
        record.id: acls[record.id]
        for where in wanted
        for record in matching_records(records, AclBindingFilter(where))
    }
    return AclTable.of(found.values())


def _json(records: Iterable[AccessControlEntryRecord]) -> list[dict[str, str]]:
    return [acl_json(record) for record in sorted(records, key=lambda record: (record.content, record.id))]
