"""A decision as AuthZEN's JSON: ``decision``, and in ``context`` the reason and the offset.

    {"decision": bool, "context": {"rule", "offset", "reason"[, "acl", "written_at_offset"]}}

``offset`` is the end offset of the state that the decision was made on; ``written_at_offset`` that of the log
record that wrote the ACL, null for an ACL from a checkpoint.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from authorizer.acl_json import acl_json
from authorizer.decisions.decision import Rule

if TYPE_CHECKING:
    from authorizer.decisions.decision import Decision
    from authorizer.sidecar.errors import HttpError
    from records.columns.acl_table import AppliedAcl

# The parts that are always the same are made once: what is left takes as long as one small dict would.
_BY_RULE: Final = {
    rule: b'{"decision":%b,"context":{"rule":"%b","offset":%%d,"reason":"%b"}}'
    % (is_allowed, rule.value.encode("ascii"), reason)
    for rule, is_allowed, reason in (
        (Rule.SUPER_USER, b"true", b"the principal is a super user"),
        (
            Rule.DEFAULT_ALLOW,
            b"true",
            b"no ACL covers the resource, and allow.everyone.if.no.acl.found is true",
        ),
        (Rule.DEFAULT_DENY, b"false", b"no ACL allows it"),
    )
}
_ALLOWED, _DENIED = (
    b'{"decision":%b,"context":{"rule":"MatchingAcl","offset":%%d,"reason":"an ACL %b it",%%b}}' % each
    for each in ((b"true", b"allows"), (b"false", b"denies"))
)

_encode: Final = msgspec.json.Encoder().encode


def decision_json(decision: Decision, end_offset: int) -> bytes:
    """See the module; ``end_offset``: of the state that decided."""
    if decision.acl is None:
        return _BY_RULE[decision.rule] % end_offset
    template = _ALLOWED if decision.is_allowed else _DENIED
    return template % (end_offset, _deciding(decision.acl))


def refusal_json(error: HttpError) -> bytes:
    """What stands in the place of a decision in a batch, for a question that cannot be answered."""
    said = {"status": int(error.code.status), "code": error.code, "message": error.message}
    return _encode({"decision": False, "context": {"error": said}})


@lru_cache(maxsize=4096)  # a few ACLs decide most of what is asked
def _deciding(acl: AppliedAcl) -> bytes:
    """The members that say which."""
    return b'"acl":%b,"written_at_offset":%b' % (_encode(acl_json(acl.record)), _encode(acl.offset))
