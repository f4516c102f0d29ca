"""``aclog who-can`` and ``aclog what-can``: the allowed classes of requests, and the ACLs that decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from authorizer.analysis.files.parsing import parse_names
from authorizer.cli.acl_sources.options import load_set, set_source_options
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode
from authorizer.cli.options import (
    PRINCIPAL,
    only_resource,
    operation_option,
    raw_cells_option,
    resource_options,
    shared,
)
from authorizer.cli.rendering.output import Waiting, note, shown
from records.acl import WILDCARD, AclOperation
from records.principal import EVERYONE

if TYPE_CHECKING:
    from authorizer.analysis.permissions.request_class import RequestClass
    from authorizer.cli.acl_sources.acl_source import AclSet
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.principal import KafkaPrincipal


_set_options = shared(
    set_source_options,
    click.option("--csv", "as_csv", is_flag=True, help="Print CSV."),
    raw_cells_option,
)


@click.command("who-can", cls=Command)
@operation_option(required=True)
@resource_options(prefixes=True)
@_set_options
def who_can_command(
    *,
    operation: AclOperation,
    as_csv: bool,
    as_json: bool,
    raw_cells: bool,
    **resource: Any,
) -> None:
    """Show who may do an operation on a name, or on all names with a prefix.

    Prints principals, names, hosts and the ACL that decides. The result is exact for all names that could
    exist. If several ACLs decide, each for a part of a row, the row has one request that the first ACL
    decides, and then the other ACLs (at most 20). `everybody` stands for all principals without ACLs of
    their own there.

    Exit code 0: a principal may; 1: no principal may.

    \b
    Examples:
      aclog who-can --log DIR --operation Write --topic orders
      aclog who-can --acls acls.txt --operation Read --topic 'pii-*' --json
      aclog who-can --log kafka://HOST:9092/acls --config server.properties --operation Alter --cluster
    """
    from authorizer.analysis.permissions.access_queries import permitted_principals
    from authorizer.cli.request_notes import resource_note

    resource_type, name = only_resource(resource)
    acls, settings = load_set()
    with Waiting("searching"):
        found = list(
            permitted_principals(acls.table(), settings, resource_type, parse_names(name), operation)
        )
    if not name.endswith(WILDCARD):
        state = acls.state(settings)
        _note(resource_note(state, resource_type, name, is_allowed=bool(found)))
    _print(found, acls, settings, as_csv=as_csv, as_json=as_json, raw_cells=raw_cells)


@click.command("what-can", cls=Command)
@click.option("--principal", type=PRINCIPAL, required=True, help="The principal whose permissions are shown.")
@_set_options
def what_can_command(*, principal: KafkaPrincipal, as_csv: bool, as_json: bool, raw_cells: bool) -> None:
    """Show what a principal may do.

    Prints every class of requests that is allowed: operations, names, hosts and the ACLs that decide, as
    `aclog who-can` does. It includes what every principal may do.

    Exit code 0: it may do something; 1: it may do nothing.

    \b
    Examples:
      aclog what-can --log DIR --principal User:alice
      aclog what-can --acls s3://bucket/snapshots --principal User:alice --csv
    """
    from authorizer.analysis.permissions.access_queries import permissions_of
    from authorizer.cli.request_notes import principal_note

    acls, settings = load_set()
    with Waiting("searching"):
        found = list(permissions_of(acls.table(), settings, str(principal)))
    if principal != EVERYONE:
        _note(principal_note(acls.state(settings), principal, is_allowed=bool(found)))
    _print(found, acls, settings, as_csv=as_csv, as_json=as_json, raw_cells=raw_cells)


def _note(text: str | None) -> None:
    if text is not None:
        note(shown(text))


def _print(
    classes: list[RequestClass],
    acls: AclSet,
    settings: AuthorizerSettings,
    *,
    as_csv: bool,
    as_json: bool,
    raw_cells: bool,
) -> None:
    from authorizer.analysis.permissions.deciding_acls import DecidingAcls
    from authorizer.analysis.permissions.witness import state_for_witnesses
    from authorizer.cli.sets.allowed_report import print_allowed

    table = acls.table()
    state = state_for_witnesses(table, (each.witness for each in classes), settings)
    deciding = DecidingAcls(table, classes)
    print_allowed(classes, deciding, state, as_csv=as_csv, as_json=as_json, raw_cells=raw_cells)
    if not classes:
        note("no such request is allowed")
        raise click.exceptions.Exit(ExitCode.NO)
