"""Report of ``aclog who-can`` and ``aclog what-can``: allowed classes of requests, and the ACLs that decide.

If several ACLs decide a class, the report names the one that decides its example, then the other ones.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

import click

from authorizer.analysis.permissions.request_class import (
    describe_class,
    describe_hosts,
    describe_names,
    describe_operations,
    describe_principal,
    describe_witness,
)
from authorizer.analysis.permissions.witness import decide_witness
from authorizer.api.acl_json import acl_json
from authorizer.cli.rendering.acls import acl_line, decided_by
from authorizer.cli.rendering.output import answer, print_json, shown
from snapshot.files.csv_cell import cell_of_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from authorizer.analysis.permissions.deciding_acls import DecidingAcls
    from authorizer.analysis.permissions.request_class import RequestClass
    from authorizer.engine.decisions.state import AuthorizerState

_CSV_HEADER: Final = ("principal", "operations", "resourceType", "names", "hosts", "decidedBy")


def print_allowed(
    classes: Collection[RequestClass],
    acls: DecidingAcls,
    state: AuthorizerState,
    *,
    as_csv: bool,
    as_json: bool,
    raw_cells: bool,
) -> None:
    """Print them as CSV, as JSON with a line for each operation, or as text."""
    if as_csv:
        _print_csv(classes, acls, state, raw_cells=raw_cells)
        return
    for request_class in classes:
        if as_json:
            for operation in request_class.operations:
                decision = decide_witness(state, request_class.witness, operation)
                part = request_class._replace(operations=(operation,))
                other_acls = acls.other_acls(part, decision, is_allowed=True)
                print_json(
                    request_class.to_json(operation)
                    | decision.to_json()
                    | {
                        "otherAcls": [acl_json(record) for record in other_acls.acls],
                        "otherAclsComplete": other_acls.is_complete,
                    }
                )
        else:
            answer(shown(f"{describe_principal(request_class)}: {describe_class(request_class)}"), indent=4)
            decision = decide_witness(state, request_class.witness, request_class.operations[0])
            other_acls = acls.other_acls(request_class, decision, is_allowed=True)
            if not other_acls.acls:
                answer(f"    by {decided_by(decision)}", indent=8)
                continue
            answer(
                f"    such as {shown(describe_witness(request_class))}: by {decided_by(decision)}", indent=8
            )
            answer(f"    other requests of the class by {other_acls.count_text} more ACLs:", indent=8)
            for record in other_acls.acls:
                answer(f"      {acl_line(record)}", indent=8)


def _print_csv(
    classes: Iterable[RequestClass], acls: DecidingAcls, state: AuthorizerState, *, raw_cells: bool
) -> None:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\r\n")
    rows.writerow(_CSV_HEADER)
    for request_class in classes:
        decision = decide_witness(state, request_class.witness, request_class.operations[0])
        other_acls = acls.other_acls(request_class, decision, is_allowed=True)
        more = (
            f" for {describe_witness(request_class)}; other requests by {other_acls.count_text} more ACLs"
            if other_acls.acls
            else ""
        )
        row = (
            describe_principal(request_class),
            describe_operations(request_class),
            request_class.resource_type.name,
            describe_names(request_class),
            describe_hosts(request_class),
            decided_by(decision) + more,
        )
        rows.writerow(row if raw_cells else [shown(cell_of_text(text)) for text in row])
    click.echo(text.getvalue(), nl=False)
