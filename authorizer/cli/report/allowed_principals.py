"""Who may: the answers of a report to the page's requests about the names and prefixes of its rows.

A page in a file looks answers up. So they are computed for each row, for any operation and for each one that
an ACL of the row names, the widest rows first, up to a maximum number of classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from authorizer.analysis.permissions.access_queries import below_prefix, permitted_among
from authorizer.analysis.permissions.deciding_acls import DecidingAcls
from authorizer.analysis.permissions.request_class import PrincipalSet, RequestClass, request_classes
from authorizer.analysis.request_space.host_answers import operations_of
from authorizer.console.history.since_when import AnswerAges
from authorizer.console.routes.allowed import ANY_OPERATION, class_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from authorizer.analysis.request_space.name_space import Key
    from authorizer.cli.report.matrix_table import MatrixTable
    from authorizer.cli.report.source import Scope
    from authorizer.console.history.history_scan import History
    from authorizer.engine.decisions.state import AuthorizerState
    from records.acl import AclOperation

#: Principals of a row beyond which it is not answered: for any operation, and for each one.
_PRINCIPALS_MAXIMUM: Final = 1_000, 100


class AllowedAnswer(NamedTuple):
    """Who may do an operation (None: any one) on the names of a row."""

    matrix: MatrixTable
    key: Key
    operation: AclOperation | None
    classes: list[RequestClass]


class AllowedPrincipals(NamedTuple):
    """The answers of a report.

    Attributes:
        rows: number of rows with an answer for any operation; fewer have one for each.
        lines: the classes of each answer as the console's page shows them.
    """

    answers: list[AllowedAnswer]
    rows: int
    rows_total: int
    lines: list[list[dict[str, Any]]]

    @classmethod
    def of(
        cls,
        matrices: Sequence[MatrixTable],
        scope: Scope,
        state: AuthorizerState,
        history: History | None,
        maximum: int,
    ) -> AllowedPrincipals:
        """Compute the answers, with at most ``maximum`` classes; ``history`` None: not of a log."""
        by_depth = sorted(
            # Rows that are one step narrower come before the single operations.
            (depth + has_each, has_each, at, row)
            for at, matrix in enumerate(matrices)
            for row, depth in enumerate(_depths([each.key for each in matrix.rows]))
            for has_each in (False, True)
        )
        departing = [each.principals_by_row() for each in matrices]
        answers: list[AllowedAnswer] = []
        count, rows = 0, 0
        for _, has_each, at, row in by_depth:
            if len(principals := departing[at][row]) > _PRINCIPALS_MAXIMUM[has_each]:
                continue
            matrix, key = matrices[at], matrices[at].rows[row].key
            operations = _named_operations(matrix, key, principals) if has_each else [None]
            of_row = [_answer(matrix, key, each, principals, scope) for each in operations]
            count += sum(len(each.classes) for each in of_row)
            if count > maximum:
                break
            answers += of_row
            rows += not has_each
        return cls(answers, rows, len(by_depth) // 2, _lines(answers, state, history))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the answers as `file_api.js` reads them."""
        return [
            {
                "type": each.matrix.resource_type.name,
                "text": each.key[0],
                "is_name": each.key[1],
                "operation": ANY_OPERATION if each.operation is None else each.operation.name,
                "classes": lines,
            }
            for each, lines in zip(self.answers, self.lines, strict=True)
        ]


def _depths(keys: Sequence[Key]) -> Iterator[int]:
    """How many of the rows enclose each row; a prefix comes before its names."""
    enclosing: list[str] = []
    for text, is_name in keys:
        while enclosing and not text.startswith(enclosing[-1]):
            enclosing.pop()
        yield len(enclosing)
        if not is_name:
            enclosing.append(text)


def _named_operations(matrix: MatrixTable, key: Key, principals: Collection[str]) -> list[AclOperation]:
    """The operations that ACLs name for a row, of principals that are no super users."""
    named = 0
    for each in (None, *principals):
        if each not in matrix.super_users:
            named |= matrix.denied_operations(each, key) | matrix.column(each).cell(key).sometimes
    return operations_of(named)


def _answer(
    matrix: MatrixTable,
    key: Key,
    operation: AclOperation | None,
    principals: Collection[str],
    scope: Scope,
) -> AllowedAnswer:
    """Who may; the ``principals`` are those that differ from the others on some name of the row."""
    resource_type = matrix.resource_type
    if not scope.principals:
        columns = ((each, matrix.column(each).answers) for each in principals)
        usual, known = matrix.column(None).answers, matrix.known_principals
        classes = list(permitted_among(usual, columns, known, resource_type, key, operation))
        return AllowedAnswer(matrix, key, operation, classes)
    # Other principals, with ACLs of their own, are not in the scope.
    classes = []
    for each in scope.principals:
        allowed = below_prefix(matrix.column(each).answers, key, operation, resource_type)
        classes += request_classes(allowed, PrincipalSet.of(each), resource_type)
    return AllowedAnswer(matrix, key, operation, classes)


def _lines(
    answers: Sequence[AllowedAnswer], state: AuthorizerState, history: History | None
) -> list[list[dict[str, Any]]]:
    everything = [requests for each in answers for requests in each.classes]
    acls = DecidingAcls(state.index.image.merged().columns, everything)
    lines = [[class_json(state, acls, each, is_allowed=True) for each in one.classes] for one in answers]
    index = None if history is None else history.index_at(state.end_offset)
    if history is None or index is None:
        return lines
    states = history.states[: index + 1]
    for matrix in dict.fromkeys(each.matrix for each in answers):
        ages = AnswerAges(states, matrix.resource_type)
        of_type = [
            pair
            for each, listed in zip(answers, lines, strict=True)
            if each.matrix is matrix
            for pair in zip(each.classes, listed, strict=True)
        ]
        found = ages.since([requests for requests, _ in of_type], state.settings)
        for (_, line), since in zip(of_type, found, strict=True):
            line["since"] = since
    return lines
