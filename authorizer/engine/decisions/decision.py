"""A decision with its reason: the result, the rule, and the ACL if one decided.

What Kafka does, in order: a super user is allowed; before the ACLs are loaded nobody else gets an answer; a
matching DENY denies; a matching ALLOW allows; what no ACL of any principal covers has the default of
``allow.everyone.if.no.acl.found``; anything else is denied.

The result always comes from what all ACLs of a name say together, as in `authorize`; `reason` finds the ACL.

Source: StandardAuthorizerData.authorize and its rules.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from authorizer.api.acl_json import acl_json
from authorizer.api.authorizer_api import AuthorizationResult
from authorizer.api.errors import AuthorizerNotReadyError
from authorizer.engine.decisions.reason import deciding_acl
from records.acl import PatternType

if TYPE_CHECKING:
    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext
    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.engine.index.covers import Cover
    from records.columns.acl_table import AppliedAcl


class Rule(StrEnum):
    """What decided, by the names that the audit log has."""

    SUPER_USER = "SuperUser"
    MATCHING_ACL = "MatchingAcl"
    DEFAULT_ALLOW = "DefaultAllow"
    DEFAULT_DENY = "DefaultDeny"


class Decision(msgspec.Struct, frozen=True, gc=False):
    """A result and why; prints as Kafka's rule does: ``DefaultDeny``, ``MatchingAcl(acl=StandardAcl[...])``.

    Attributes:
        acl: the deciding one; exactly if the rule is MATCHING_ACL.
    """

    result: AuthorizationResult
    rule: Rule
    acl: AppliedAcl | None = None

    @property
    def is_allowed(self) -> bool:
        return self.result is _ALLOWED

    def to_json(self) -> dict[str, Any]:
        """The result, the rule, and the ACL that decided."""
        return {
            "result": self.result.value,
            "rule": self.rule.value,
            "acl": None if self.acl is None else acl_json(self.acl.record),
        }

    def __str__(self) -> str:
        return str(self.rule) if self.acl is None else f"MatchingAcl(acl={self.acl.record.standard_acl()})"


# Looked up once, not for each decision: a member of an Enum class costs as much as two dict look-ups.
_ALLOWED: Final = AuthorizationResult.ALLOWED
_DENIED: Final = AuthorizationResult.DENIED
_MATCHING_ACL: Final = Rule.MATCHING_ACL

_ALLOWED_BY_DEFAULT: Final = Decision(_ALLOWED, Rule.DEFAULT_ALLOW)
_DENIED_BY_DEFAULT: Final = Decision(_DENIED, Rule.DEFAULT_DENY)


class DecidedAction(msgspec.Struct, gc=False):
    """A question and its result, whose reason is looked for where it is asked for.

    It may wait in a queue for that, by the thousand: no work for the garbage collector.

    Attributes:
        state: that decided.
        context: who asked.
        action: for what.
        level: at which the audit log has it.
        answer: of the ACLs; 0: none is about it.
        result: what comes of that.
        own: what covers the name, of who asks.
        common: the same of ``User:*``.
        found: the reason, once it was looked for.
        decided_s: when, in seconds since 1970, where the audit log waits for its turn.
    """

    state: AuthorizerState
    context: AuthorizableRequestContext
    action: Action
    level: int
    answer: int
    result: AuthorizationResult
    own: Cover
    common: Cover
    found: Decision | None = None
    decided_s: float = 0.0

    @property
    def is_allowed(self) -> bool:
        return self.result is _ALLOWED

    def decision(self) -> Decision:
        """With its reason."""
        found = self.found
        if found is None:
            denied = self.result is _DENIED
            if self.answer:
                acl = deciding_acl(
                    self.state.index, self.context, self.action, self.own, self.common, denied=denied
                )
                found = Decision(self.result, _MATCHING_ACL, acl)
            else:
                found = _DENIED_BY_DEFAULT if denied else _ALLOWED_BY_DEFAULT
            self.found = found
        return found


#: Of a super user, about anything.
BY_SUPER_USER: Final = Decision(_ALLOWED, Rule.SUPER_USER)


def require_literal(action: Action) -> None:
    """Only literal resources can be asked about; ValueError with Kafka's message otherwise."""
    pattern_type = action.resource_pattern.pattern_type
    if pattern_type is not PatternType.LITERAL:
        raise ValueError(f"Only literal resources are supported. Got: {pattern_type.name}")


def require_ready(state: AuthorizerState) -> None:
    """AuthorizerNotReadyError, without a message as Kafka's has none, if the ACLs cannot be relied on."""
    if not state.is_ready:
        error = AuthorizerNotReadyError()
        error.add_note(state.not_ready_reason)
        raise error


class DecisionCounts:
    """How many actions were decided, and how.

    Plain increments: exact under the interpreter lock, which is never given up within one; on a build without
    that lock a few may be lost. Nothing decides by them.

    Attributes:
        not_ready: calls that got AUTHORIZER_NOT_READY, which is no decision.
    """

    __slots__ = (
        "acl_allowed",
        "acl_denied",
        "default_allowed",
        "default_denied",
        "not_ready",
        "super_user_allowed",
    )

    def __init__(self) -> None:
        self.super_user_allowed = 0
        self.acl_allowed = 0
        self.acl_denied = 0
        self.default_allowed = 0
        self.default_denied = 0
        self.not_ready = 0

    @property
    def allowed(self) -> int:
        return self.super_user_allowed + self.acl_allowed + self.default_allowed

    @property
    def denied(self) -> int:
        return self.acl_denied + self.default_denied
