"""``aclog acls``: kafka-acls on a log of one's own, and its listing of any log.

One difference from kafka-acls, on purpose: a command is one atomic batch, where Kafka writes a resource at a
time and may stop half way.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.acl_json import acl_json
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.kafka_acls import (
    AclsFlags,
    Entries,
    adding,
    already_there,
    confirmation,
    listing,
    listing_of_principal,
)
from authorizer.cli.options import (
    OPERATION,
    PATTERN_TYPE,
    config_option,
    json_option,
    log_option,
    shared,
    snapshots_option,
)
from authorizer.cli.output import print_json
from authorizer.cli.place import Place, wait_until_readable
from authorizer.writing.acl_control import matching_records, plan_creation, plan_deletion
from authorizer.writing.writer_view import WriterView
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
from records.ids import ZERO_UUID
from records.log.directory.identity import random_id
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from authorizer.writing.acl_control import AclContent
    from records.entries import AclRecord
    from records.log.base import MetadataLog

_OPERATIONS: Final = ", ".join(known.title for known in AclOperation if known > AclOperation.ANY)


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


# kafka-acls' own way to say where: who types it is told what to type here.
_elsewhere = shared(
    *(
        click.option(flag, hidden=True, expose_value=False, callback=_not_here)
        for flag in ("--bootstrap-server", "--bootstrap-controller", "--command-config")
    )
)


@click.command("acls")
@_actions
@log_option
@click.option("--sidecar", metavar="URL", help="A running sidecar instead of a log.  [not built yet]")
@_resources
@_entries
@snapshots_option
@config_option
@json_option
@_elsewhere
def acls_command(
    *,
    log_url: str | None,
    sidecar: str | None,
    snapshots_url: str | None,
    config_file: str | None,
    as_json: bool,
    force: bool,
    **flags: Any,
) -> None:
    """Add, remove or list ACLs, with the flags and output of kafka-acls.

    --list reads any log, a broker's __cluster_metadata-0 too. --add and --remove need a topic, or a directory
    that aclog made and that no running `aclog serve` writes to. The whole command is one atomic batch.

    \b
    Examples:
      aclog acls --log DIR --list --topic orders --resource-pattern-type match
      aclog acls --log DIR --add --allow-principal User:alice --consumer --topic orders --group app
      aclog acls --log DIR --remove --topic orders --force
      aclog acls --log kafka://HOST:9092/acls --config client.properties --list
    """
    given = AclsFlags(**flags)
    given.check()
    if sidecar is not None:
        raise Failure("--sidecar is not built yet", ExitCode.USAGE, "Use --log with the directory log.")

    place = Place.named(log_url=log_url, snapshots_url=snapshots_url, config_file=config_file)
    if given.list:
        _list(place, given.resource_filters(), given.principals_listed(), as_json=as_json)
    elif given.add:
        _add(place, given.bindings_to_add(), as_json=as_json)
    else:
        _remove(place, given.entries_by_resource(), force=force, as_json=as_json)


def _list(
    place: Place, wanted: Sequence[ResourcePatternFilter], principals: Sequence[str], *, as_json: bool
) -> None:
    with place.log() as log:
        image = place.state(log).image
    records = _matching(image, wanted or (ResourcePatternFilter(),))
    if as_json:
        chosen = [record for record in records if not principals or record.principal in principals]
        print_json({"endOffset": image.provenance.end_offset, "acls": _json(chosen)})
    elif principals:
        for principal in principals:
            click.echo(listing_of_principal(principal, records), nl=False)
    else:
        click.echo(listing(records), nl=False)


def _add(place: Place, wanted: Mapping[ResourcePattern, Entries], *, as_json: bool) -> None:
    with place.log(mode="write") as log:
        image = place.state(log).image
        view = _view(image)
        bindings = [AclBinding(pattern, entry) for pattern, entries in wanted.items() for entry in entries]
        creation = plan_creation(view, bindings, random_id)
        for result in creation.results:
            if result.exception is not None:
                raise result.exception
        if not as_json:
            for pattern, entries in wanted.items():
                new = []
                for entry in entries:
                    if view.holds(_content(pattern, entry)):
                        click.echo(already_there(AclBinding(pattern, entry)), nl=False)
                    else:
                        new.append(entry)
                if new:
                    click.echo(adding(pattern, tuple(new)), nl=False)
        end_offset = _append(log, creation.records, image)
    if as_json:
        added = [record for record in creation.records if isinstance(record, AccessControlEntryRecord)]
        print_json({"endOffset": end_offset, "added": _json(added)})


def _remove(
    place: Place, wanted: Mapping[ResourcePatternFilter, Entries], *, force: bool, as_json: bool
) -> None:
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
    with place.log(mode="write") as log:
        image = place.state(log).image
        deletion = plan_deletion([acl.record for acl in image], filters)
        for result in deletion.results:
            if result.exception is not None:
                raise result.exception
        end_offset = _append(log, deletion.records, image)
    if as_json:
        removed = [acl.record for record in deletion.records if (acl := image.get(record.id)) is not None]
        print_json({"endOffset": end_offset, "removed": _json(removed)})


def _append(log: MetadataLog, records: Sequence[AclRecord], image: AclsImage) -> int:
    if not records:
        return image.provenance.end_offset
    end_offset = log.append(records)
    wait_until_readable(log, end_offset)
    return end_offset


def _view(image: AclsImage) -> WriterView:
    view = WriterView()
    view.replayed(AclsDelta(AclsImage.EMPTY), image)
    return view


def _content(pattern: ResourcePattern, entry: AccessControlEntry) -> AclContent:
    return AccessControlEntryRecord.from_binding(ZERO_UUID, AclBinding(pattern, entry)).content


def _exactly(entry: AccessControlEntry) -> AccessControlEntryFilter:
    return AccessControlEntryFilter(entry.principal, entry.host, entry.operation, entry.permission_type)


def _confirm(where: ResourcePatternFilter, entries: Entries, *, as_json: bool) -> bool:
    click.echo(confirmation(where, entries), nl=False, err=as_json)
    answer: str = sys.stdin.readline()
    if not answer:
        raise click.UsageError("nobody answered y or n: --force removes without asking")
    return answer.strip().lower() == "y"


def _matching(image: AclsImage, wanted: Iterable[ResourcePatternFilter]) -> list[AccessControlEntryRecord]:
    records = [acl.record for acl in image]
    found = {
        record.id: record for where in wanted for record in matching_records(records, AclBindingFilter(where))
    }
    return list(found.values())


def _json(records: Iterable[AccessControlEntryRecord]) -> list[dict[str, str]]:
    return [acl_json(record) for record in sorted(records, key=lambda record: (record.content, record.id))]
