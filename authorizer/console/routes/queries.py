"""Queries and bodies of the page's requests."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from authorizer.analysis.lint.rules import Rule
from authorizer.api.http.acl_requests import NewAcl
from authorizer.sidecar.routes.request_bodies import DecisionRequest

#: Number of rows or columns in one answer.
Count = Annotated[int, msgspec.Meta(ge=1, le=200)]
#: Number of lines in one answer: exports read long parts.
LineCount = Annotated[int, msgspec.Meta(ge=1, le=5_000)]
_Index = Annotated[int, msgspec.Meta(ge=0)]
#: A state by the offset of its last record, as `--at-offset`; -1: before the log's first record.
AtOffset = Annotated[int, msgspec.Meta(ge=-1, lt=2**63 - 1)]


class MatrixQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A window of the matrix.

    Attributes:
        under: prefix of the open row.
        containing, who: text in the names of rows; text in the principals of columns.
        teams: group principals by team; ``team`` is the open one, or the open common start of principals.
        name_teams: group names by team; ``name_team`` is the open one.
        at_offset, since: the shown state; the state that it is compared with.
        only_changed: only rows and columns with a changed cell.
        row, rows, column, columns: first index and number of rows and columns.
    """

    type: str = "TOPIC"
    under: str = ""
    containing: str = ""
    who: str = ""
    teams: bool = False
    team: str = ""
    name_teams: bool = False
    name_team: str = ""
    at_offset: AtOffset | None = None
    since: AtOffset | None = None
    only_changed: bool = False
    row: _Index = 0
    rows: Count = 50
    column: _Index = 0
    columns: Count = 12


class NamesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Principals, teams and names of the current ACLs that contain the words of a text."""

    text: Annotated[str, msgspec.Meta(max_length=1000)]
    count: Annotated[int, msgspec.Meta(ge=1, le=20)] = 5


class PastStatesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The last past states.

    Attributes:
        time: milliseconds since the epoch; the last state up to it is returned, too.
    """

    time: _Index | None = None


class AclFilter(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A filter of ACLs, and a page of lines about them.

    Attributes:
        who, containing: text in the principal; text in the name.
        team: of the principal; or the start of principals without a team.
        type, operation: resource type; operation.
        everyone: only what holds for every principal.
    """

    who: str = ""
    team: str = ""
    containing: str = ""
    type: str = ""
    operation: str = ""
    everyone: bool = False
    first: _Index = 0


class ListFilter(AclFilter, kw_only=True):
    """A filter of changes, and a page of them.

    Attributes:
        effect: only what is granted or revoked.
    """

    effect: Literal["granted", "revoked"] | None = None


class LintQuery(AclFilter, kw_only=True):
    """Findings of lint.

    Attributes:
        rule, severity: only those of one rule, and of one severity.
        can_go: only those about removable ACLs.
        accepted: those that the rules accept, instead of the others.
    """

    rule: Rule | None = None
    severity: Literal["warning", "info"] | None = None
    can_go: bool = False
    accepted: bool = False
    at_offset: AtOffset | None = None
    count: LineCount = 100


class ChangesQuery(ListFilter, kw_only=True):
    """ACL changes between two states.

    Attributes:
        until: the second state; None: the current one.
        oldest_first: the order; else the newest first.
        temporary: only changes of ACLs that the period ends with as it began (`temporary_acls`).
    """

    after: AtOffset = -1
    until: AtOffset | None = None
    oldest_first: bool = False
    temporary: bool = False
    count: LineCount = 100


class DecisionChangesQuery(ListFilter, kw_only=True):
    """Decision changes between two states.

    Attributes:
        since: the first state; None: the current one.
        cluster: another cluster of the fleet, whose current state is the first state.
        at_offset: the second state; None: the current one.
    """

    since: AtOffset | None = None
    cluster: str | None = None
    at_offset: AtOffset | None = None
    count: LineCount = 200


class TemporaryQuery(ListFilter, kw_only=True):
    """Classes of requests that were granted and revoked again between two states, or the reverse.

    Attributes:
        since: the first state.
        at_offset: the second state; None: the current one.
    """

    since: AtOffset
    at_offset: AtOffset | None = None
    count: LineCount = 200


class PlanQuery(ListFilter, kw_only=True):
    """The effect of ACL changes; the filter is for the decision changes.

    Attributes:
        add, remove: ACLs to add, and ACLs to remove as they are listed.
        text: input of `aclog plan`, instead of ``add`` and ``remove``.
        everything: if the text is a set of ACLs, remove all others.
        to_apply: return the plan itself, too.
        added_first, removed_first: index of the first listed ACL of each kind.
    """

    add: list[NewAcl] = []
    remove: list[dict[str, str]] = []
    text: str = ""
    everything: bool = False
    at_offset: AtOffset | None = None
    to_apply: bool = False
    added_first: _Index = 0
    removed_first: _Index = 0
    count: LineCount = 200


class AclsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """ACLs that contain a text in their principal, name or host."""

    containing: str = ""
    at_offset: AtOffset | None = None
    first: _Index = 0
    count: LineCount = 100


class DecisionQuery(DecisionRequest, kw_only=True):
    """A decision, its explanation and its history."""

    at_offset: AtOffset | None = None


class AllowedQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The names that a principal may access, or the principals that may access a name.

    Attributes:
        operation: name of the operation; ``ANY``: each class has all of its operations.
        name: one name, or with ``prefix`` the prefix of all names.
        principal: the principal; empty: list all that are allowed.
        team: their team; classes of every principal are of each team.
        first, count: the page of classes.
    """

    operation: str
    type: str = "TOPIC"
    name: str = ""
    prefix: bool = False
    principal: str = ""
    who: str = ""
    team: str = ""
    at_offset: AtOffset | None = None
    first: _Index = 0
    count: Count = 50
