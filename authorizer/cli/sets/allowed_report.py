"""What ``aclog who-can`` and ``aclog what-can`` print: classes of questions, and the ACLs that decide."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

import click

from authorizer.analysis.classes import (
    decided,
    decision_json,
    hosts,
    operations,
    questions_json,
    what,
    where,
    who,
)
from authorizer.cli.output import answer, print_json, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from authorizer.analysis.questions import Questions
    from authorizer.decisions.state import AuthorizerState

_CSV_HEADER: Final = ("principal", "operations", "resourceType", "names", "hosts", "decidedBy")


def print_allowed(
    classes: Iterable[Questions], state: AuthorizerState, *, as_csv: bool, as_json: bool
) -> None:
    """As CSV, as JSON with a line for each operation, or for people."""
    if as_csv:
        _print_csv(classes, state)
        return
    for questions in classes:
        if as_json:
            for operation in questions.operations:
                decision = decided(state, questions, operation)
                print_json(questions_json(questions, operation) | decision_json(decision))
        else:
            answer(shown(f"{who(questions)}: {what(questions)}"), indent=4)
            decision = decided(state, questions, questions.operations[0])
            answer(f"    by {shown(str(decision))}", indent=8)


def _print_csv(classes: Iterable[Questions], state: AuthorizerState) -> None:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\r\n")
    rows.writerow(_CSV_HEADER)
    for questions in classes:
        decision = decided(state, questions, questions.operations[0])
        rows.writerow(
            (
                who(questions),
                operations(questions),
                questions.resource_type.name,
                where(questions),
                hosts(questions),
                str(decision),
            )
        )
    click.echo(text.getvalue(), nl=False)
