"""``aclog acls``: kafka-acls on a log that can be changed, and its listing of any log.

One command is one request and one atomic batch; kafka-acls sends one request for each resource and may stop
halfway. As in Kafka's requests, a refused ACL does not stop the others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from authorizer.analysis.files.kafka_acls_flags import AclsFlags, KafkaAclsUsageError, exactly
from authorizer.api.acl_json import acl_json
from authorizer.api.errors import (
    InvalidRequestError,
    PolicyViolationError,
    SidecarRefusedError,
    UnsupportedLevelError,
)
from authorizer.cli.acl_sources.options import editable_acls, source_options
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode, Failure, failure_of, write_attempt
from authorizer.cli.options import (
    OPERATION,
    PATTERN_TYPE,
    config_option,
    json_option,
    progress_option,
    resource_options,
    shared,
)
from authorizer.cli.rendering.output import print_json, shown
from authorizer.cli.rendering.streams import InputClosedError
from authorizer.cli.workspace import Workspace
from authorizer.engine.acl_validation import matching_records, validate_filter
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
    from authorizer.analysis.files.kafka_acls_flags import Entries
    from authorizer.api.authorizer_api import AclCreateResult
    from authorizer.api.errors import ApiError
    from authorizer.cli.acl_sources.acl_source import EditableAcls
    from records.columns.acl_table import AclTable

# Errors of the ACLs themselves. The texts of other errors state what was written.
_INVALID_REQUESTS: Final = (InvalidRequestError, UnsupportedLevelError, PolicyViolationError)
_NEEDS_ANSWER: Final = "a removal needs the answer y or n: --force removes without asking"
_OPERATIONS: Final = ", ".join(known.title for known in AclOperation if known > AclOperation.ANY)


def _repeatable(flag: str, metavar: str, text: str) -> Any:
    return click.option(flag, metavar=metavar, multiple=True, help=f"{text} Repeatable.")


def _flag(name: str, text: str) -> Any:
    return click.option(name, is_flag=True, help=text)


_action_options = shared(
    _flag("--add", "Add ACLs."),
    _flag("--remove", "Remove ACLs."),
    _flag("--list", "List the ACLs of the given resources, or all ACLs."),
)
_pattern_options = shared(
    resource_options(wildcard=True, multiple=True),
    click.option(
        "--resource-pattern-type",
        type=PATTERN_TYPE,
        default=PatternType.LITERAL.name,
        show_default=True,
        help="Pattern type of the names. --add takes LITERAL and PREFIXED; --list and --remove also take ANY "
        "(the same name, with any pattern type) and MATCH (all patterns that match the resource; take care "
        "with --remove).",
    ),
)
_entry_options = shared(
    _repeatable("--allow-principal", "TYPE:NAME", "Principal to allow; User:'*' for all principals."),
    _repeatable("--deny-principal", "TYPE:NAME", "Principal to deny. A DENY wins over every ALLOW."),
    _repeatable("--allow-host", "HOST", "Host to allow.  [default: '*' with --allow-principal]"),
    _repeatable("--deny-host", "HOST", "Host to deny.  [default: '*' with --deny-principal]"),
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
    _flag("--idempotent", "With --producer: also IdempotentWrite on the cluster."),
    _flag("--force", "Remove without asking."),
)


@click.command("acls", cls=Command)
@_action_options
@source_options(no_acls="it works on a log or a node (--log, --bootstrap-server, --sidecar)")
@_pattern_options
@_entry_options
@config_option
@json_option
@progress_option
def acls_command(*, as_json: bool, force: bool, **flags: Any) -> None:
    """Add, remove or list ACLs, with the flags and output of kafka-acls.

    --list reads any log, including a broker's __cluster_metadata-0. --add and --remove need a topic, a
    directory that aclog created, or a cluster by its controllers (kraft://HOST:PORT; needs Alter on the
    cluster). If an `aclog serve` runs on the directory, changes go through it. A command is one atomic batch.
    As in a request to Kafka, a refused ACL (an empty name, a network below metadata.version 4.4-IV1) does not
    stop the others; the command then ends with an error.

    --sidecar lists and changes the ACLs of a running node. Over HTTP its own ACLs decide: listing needs
    Describe on the cluster, changes need Alter. A token identifies the caller (`aclog token create`).

    Exit code 0: done; 1: the node's ACLs deny it; 2: wrong usage or a refused ACL.

    Scripts that were written for kafka-acls run unchanged with aclog-kafka-acls, which has the exit codes of
    kafka-acls. It reads the log's URL from ACLOG_LOG_URL.

    \b
    Examples:
      aclog acls --log DIR --list --topic orders --resource-pattern-type match
      aclog acls --log DIR --add --allow-principal User:alice --consumer --topic orders --group app
      aclog acls --log DIR --remove --topic orders --force
      aclog acls --log kafka://HOST:9092/acls --command-config client.properties --list
      aclog acls --sidecar http://127.0.0.1:8180 --list
      aclog acls --sidecar https://acls.example.org --token-file admin.token --list
    """
    acls_flags = AclsFlags(**flags)
    with _usage_errors():
        acls_flags.check()
    acls = editable_acls(Workspace.given())
    try:
        with _usage_errors():
            perform(acls, acls_flags, force=force, as_json=as_json)
    except SidecarRefusedError as error:
        # The request was valid, and the node's own ACLs deny it.
        raise Failure(failure_of(error).message, ExitCode.NO) from error


@contextmanager
def _usage_errors() -> Iterator[None]:
    try:
        yield
    except KafkaAclsUsageError as error:
        raise click.UsageError(str(error)) from error


def perform(acls: EditableAcls, flags: AclsFlags, *, force: bool, as_json: bool = False) -> None:
    """Carry out checked flags, and print the result as kafka-acls does."""
    if flags.list:
        _list(acls, flags.resource_filters(), flags.principals_listed(), as_json=as_json)
    elif flags.add:
        _add(acls, flags.bindings_to_add(), as_json=as_json)
    else:
        _remove(acls, flags.entries_by_resource(), force=force, as_json=as_json)


def _list(
    acls: EditableAcls, filters: Sequence[ResourcePatternFilter], principals: Sequence[str], *, as_json: bool
) -> None:
    from authorizer.cli.acls.kafka_acls_listing import listing, listing_of_principal

    end_offset, columns = acls.list_acls(filters)
    if filters:
        columns = _matching(columns, filters)
    if as_json:
        records = [acl.record for acl in columns]
        chosen = [record for record in records if not principals or record.principal in principals]
        print_json({"endOffset": end_offset, "acls": _json(chosen)})
        return
    texts = [listing_of_principal(each, columns) for each in principals] or [listing(columns)]
    for piece in chain.from_iterable(texts):
        click.echo(piece, nl=False)


def _add(acls: EditableAcls, new_entries: Mapping[ResourcePattern, Entries], *, as_json: bool) -> None:
    bindings = [AclBinding(pattern, entry) for pattern, entries in new_entries.items() for entry in entries]
    end_offset, results = acls.create(bindings)
    by_binding = dict(zip(bindings, results, strict=True))
    refused = [
        (binding, each.exception) for binding, each in by_binding.items() if each.exception is not None
    ]
    if len(refused) < len(by_binding):
        if as_json:
            _print_added(end_offset, by_binding)
        else:
            _print_adding(new_entries, by_binding)
    if refused:
        raise _refusal(*refused[0], len(refused), len(by_binding))


def _print_added(end_offset: int, results: Mapping[AclBinding, AclCreateResult]) -> None:
    from authorizer.api.http.acl_requests import NewAcl
    from authorizer.api.http.answers.acls import CreationResult

    answer: dict[str, Any] = {
        "endOffset": end_offset,
        "added": _json(each.record for each in results.values() if each.record is not None),
    }
    refused = [
        {**msgspec.to_builtins(NewAcl.of(binding)), **msgspec.to_builtins(CreationResult.of(each))}
        for binding, each in results.items()
        if each.exception is not None
    ]
    print_json({**answer, "refused": refused} if refused else answer)


def _print_adding(
    wanted: Mapping[ResourcePattern, Entries], results: Mapping[AclBinding, AclCreateResult]
) -> None:
    from authorizer.cli.acls.kafka_acls_listing import adding, already_there

    for pattern, entries in wanted.items():
        new: list[AccessControlEntry] = []
        for entry in entries:
            result = results[AclBinding(pattern, entry)]
            if result.record is not None:
                new.append(entry)
            elif result.exception is None:
                click.echo(already_there(AclBinding(pattern, entry)), nl=False)
        if new:
            click.echo(adding(pattern, tuple(new)), nl=False)


def _refusal(binding: AclBinding, error: ApiError, refused_count: int, count: int) -> ApiError:
    """The error of the first refused ACL, in Kafka's words, with a note about the other ACLs."""
    if refused_count < count:
        error.add_note(
            f"{refused_count} of {count} ACLs refused, the first {shown(str(binding))}; the others are in "
            "force"
        )
    elif isinstance(error, _INVALID_REQUESTS):
        error.add_note("nothing was written")
    return error


def _remove(
    acls: EditableAcls,
    entries_by_filter: Mapping[ResourcePatternFilter, Entries],
    *,
    force: bool,
    as_json: bool,
) -> None:
    with write_attempt():
        confirmed = [
            (where, entries)
            for where, entries in entries_by_filter.items()
            if force or _confirm(where, entries, as_json=as_json)
        ]
        filters = [
            AclBindingFilter(where, entry)
            for where, entries in confirmed
            for entry in ([exactly(entry) for entry in entries] or [AccessControlEntryFilter()])
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


def _confirm(where: ResourcePatternFilter, entries: Entries, *, as_json: bool) -> bool:
    from authorizer.cli.acls.kafka_acls_listing import confirmation

    click.echo(confirmation(where, entries), nl=False, err=as_json)
    try:
        answer: str = sys.stdin.readline()
    except InputClosedError as error:
        raise click.UsageError(f"stdin is closed, and {_NEEDS_ANSWER}") from error
    if not answer:
        raise click.UsageError(f"stdin ended before an answer, and {_NEEDS_ANSWER}")
    return answer.strip().lower() == "y"


def _matching(columns: AclTable, filters: Iterable[ResourcePatternFilter]) -> AclTable:
    from records.columns.acl_table import AclTable

    acls = {acl.record.id: acl for acl in columns}
    records = [acl.record for acl in acls.values()]
    found = {
        record.id: acls[record.id]
        for where in filters
        for record in matching_records(records, AclBindingFilter(where))
    }
    return AclTable.of(found.values())


def _json(records: Iterable[AccessControlEntryRecord]) -> list[dict[str, str]]:
    return [acl_json(record) for record in sorted(records, key=lambda record: (record.content, record.id))]
