"""From a decision to the audit log: the ACL that decided is looked for only if a line is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.api import AuthorizationResult
from authorizer.decisions.audit import audit_level
from authorizer.decisions.decision import Decision, Rule, decide

if TYPE_CHECKING:
    from authorizer.api import Action, AuthorizableRequestContext
    from authorizer.decisions.audit import AuditLog
    from authorizer.decisions.state import AuthorizerState

_ALLOWED: Final = AuthorizationResult.ALLOWED


def write_result(
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    action: Action,
    result: AuthorizationResult,
    audit: AuditLog,
    *,
    by_acl: bool,
) -> None:
    """Write a result down, of no super user; the caller has found that its level is enabled.

    Args:
        state: that it was decided on.
        context: who asked.
        action: for what.
        result: the answer.
        audit: where to.
        by_acl: whether an ACL may have decided; else the default did.
    """
    if by_acl:
        decision = decide(state, context, action)
    else:
        decision = Decision(result, Rule.DEFAULT_ALLOW if result is _ALLOWED else Rule.DEFAULT_DENY)
    write_decision(state, context, action, decision, audit)


def write_decision(
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    action: Action,
    decision: Decision,
    audit: AuditLog,
) -> None:
    """Write down a decision that is known with its reason, if its level is enabled."""
    allowed = decision.is_allowed
    level = audit_level(action, allowed=allowed)
    if level < audit.threshold:
        return
    acl = decision.acl
    audit.write(
        level,
        context,
        action,
        allowed=allowed,
        rule=decision,
        acl_id=None if acl is None else acl.record.id,
        offset=state.index.image.provenance.end_offset,
    )
