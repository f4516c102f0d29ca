"""A decision as AuthZEN's JSON: ``decision``, and in ``context`` the reason and the offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from authorizer.acl_json import acl_json
from authorizer.decisions.decision import Rule

if TYPE_CHECKING:
    from authorizer.decisions.decision import Decision
    from authorizer.decisions.state import AuthorizerState

_REASONS: Final = {
    Rule.SUPER_USER: "the principal is a super user",
    Rule.DEFAULT_ALLOW: "no ACL covers the resource, and allow.everyone.if.no.acl.found is true",
    Rule.DEFAULT_DENY: "no ACL allows it",
}


def decision_json(decision: Decision, state: AuthorizerState) -> dict[str, Any]:
    """Shape: {"decision": bool, "context": {"rule", "reason", "offset"[, "acl", "written_at_offset"]}}.

    ``offset`` is the end offset of the state that the decision was made on; ``written_at_offset`` that of the
    log record that wrote the ACL, null for an ACL from a checkpoint.
    """
    context: dict[str, Any] = {"rule": decision.rule.value, "offset": state.end_offset}
    acl = decision.acl
    if acl is None:
        context["reason"] = _REASONS[decision.rule]
    else:
        context["reason"] = f"an ACL {'allows' if decision.is_allowed else 'denies'} it"
        context["acl"] = acl_json(acl.record)
        context["written_at_offset"] = acl.offset
    return {"decision": decision.is_allowed, "context": context}
