"""What the console's page asks: queries as values."""

from __future__ import annotations

from typing import Annotated

import msgspec

from authorizer.api.http.acl_requests import NewAcl
from authorizer.sidecar.routes.questions import DecisionQuestion

#: Rows, columns and lines of one answer.
Count = Annotated[int, msgspec.Meta(ge=1, le=200)]
_From = Annotated[int, msgspec.Meta(ge=0)]
#: A state, by the offset of its last record, as `--at-offset`; -1 is the state before the log's first record.
AtOffset = Annotated[int, msgspec.Meta(ge=-1, lt=2**63 - 1)]


class MatrixQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A window of the matrix.

    Attributes:
        type: of resources.
        under: the prefix of the row that is open.
        containing: of rows, a text in the name; ``who``: of columns, one in the principal.
        teams: principals that agree up to a separator are one column; ``team``: the prefix that is open.
        at_offset: of the state that is shown; ``since``: of one that it is compared with.
        row, rows: the first one, and how many; and so ``column`` and ``columns``.
    """

    type: str = "TOPIC"
    under: str = ""
    containing: str = ""
    who: str = ""
    teams: bool = False
    team: str = ""
    at_offset: AtOffset | None = None
    since: AtOffset | None = None
    row: _From = 0
    rows: Count = 50
    column: _From = 0
    columns: Count = 12


class ChangesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What changed between two states, the newest first.

    Attributes:
        after: the first state.
        until: the second one; now if None.
    """

    after: AtOffset = -1
    until: AtOffset | None = None
    count: Count = 100


class DecisionChangesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which answers differ between two states, in classes.

    Attributes:
        since: the first state; now if None.
        cluster: of a fleet, whose state of now is the first one.
        at_offset: the second one; now if None.
    """

    since: AtOffset | None = None
    cluster: str | None = None
    at_offset: AtOffset | None = None
    count: Count = 200


class PlanQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What changes of ACLs would do.

    Attributes:
        add: ACLs that are to be; ``remove``: some that are to go, as they are listed.
        text: what `aclog plan` reads, in place of these.
        everything: of a text that is a set of ACLs: there are to be no others.
        at_offset: the state that is changed.
        to_apply: the plan itself is wanted.
    """

    add: list[NewAcl] = []
    remove: list[dict[str, str]] = []
    text: str = ""
    everything: bool = False
    at_offset: AtOffset | None = None
    to_apply: bool = False
    count: Count = 200


class AclsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """ACLs with a text in their principal, name or host."""

    containing: str = ""
    at_offset: AtOffset | None = None
    first: _From = 0
    count: Count = 100


class DecisionQuery(DecisionQuestion, kw_only=True):
    """A decision, why, and since when."""

    at_offset: AtOffset | None = None


class AllowedQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which names, or who.

    Attributes:
        operation: that is asked about.
        type: of resources.
        name: one name, or with ``prefix`` what all names begin with.
        principal: who asks; empty: everyone who may.
        at_offset: of the state.
        first, count: of the classes.
    """

    operation: str
    type: str = "TOPIC"
    name: str = ""
    prefix: bool = False
    principal: str = ""
    at_offset: AtOffset | None = None
    first: _From = 0
    count: Count = 50
