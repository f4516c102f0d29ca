"""Decision: the result with its reason, the rule and the deciding ACL; and the counts of decisions.

The rules and their order are in `rules`. The result always comes from the masks, as in `authorize`; `reason`
finds the ACL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from authorizer.api.acl_json import acl_json
from authorizer.api.authorizer_api import Action, AuthorizableRequestContext, AuthorizationResult
from authorizer.engine.decisions.reason import deciding_acl
from authorizer.engine.decisions.rules import Rule

if TYPE_CHECKING:
    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.engine.index.covers import Cover
    from records.columns.acl_table import AppliedAcl


class Decision(msgspec.Struct, frozen=True, gc=False):
    """A result and its reason; prints as Kafka's rule: ``MatchingAcl(acl=StandardAcl[...])``.

    Attributes:
        acl: the deciding ACL; None unless the rule is MATCHING_ACL.
    """

    result: AuthorizationResult
    rule: Rule
    acl: AppliedAcl | None = None

    @property
    def is_allowed(self) -> bool:
        return self.result is _ALLOWED

    def to_json(self) -> dict[str, Any]:
        return {
            "result": self.result.value,
            "rule": self.rule.value,
            "acl": None if self.acl is None else acl_json(self.acl.record),
        }

    def __str__(self) -> str:
        return str(self.rule) if self.acl is None else f"MatchingAcl(acl={self.acl.record.standard_acl()})"


# Read once, not for each decision: a member of an Enum class costs as much as two dict look-ups.
_ALLOWED: Final = AuthorizationResult.ALLOWED
_DENIED: Final = AuthorizationResult.DENIED
_MATCHING_ACL: Final = Rule.MATCHING_ACL

_ALLOWED_BY_DEFAULT: Final = Decision(_ALLOWED, Rule.DEFAULT_ALLOW)
_DENIED_BY_DEFAULT: Final = Decision(_DENIED, Rule.DEFAULT_DENY)


class DecidedAction(msgspec.Struct, gc=False):
    """An action and its result; the reason is computed when it is requested.

    Instances may wait in a queue by the thousand, so the garbage collector does not track them.

    Attributes:
        answer: the bits of the request that matching ACLs have; 0: no ACL matches.
        cover: the cover of the name for the principal.
        wildcard_cover: the cover of the name for ``User:*``.
        cached_decision: the decision, once it has been computed.
        decided_s: seconds since the epoch, set when the audit log queues it.
    """

    state: AuthorizerState
    context: AuthorizableRequestContext
    action: Action
    level: int
    answer: int
    result: AuthorizationResult
    cover: Cover
    wildcard_cover: Cover
    cached_decision: Decision | None = None
    decided_s: float = 0.0

    @property
    def is_allowed(self) -> bool:
        return self.result is _ALLOWED

    def decision(self) -> Decision:
        decision = self.cached_decision
        if decision is None:
            denied = self.result is _DENIED
            if self.answer:
                acl = deciding_acl(
                    self.state.index,
                    self.context,
                    self.action,
                    self.cover,
                    self.wildcard_cover,
                    denied=denied,
                )
                decision = Decision(self.result, _MATCHING_ACL, acl)
            else:
                decision = _DENIED_BY_DEFAULT if denied else _ALLOWED_BY_DEFAULT
            self.cached_decision = decision
        return decision


#: Any decision on a super user.
BY_SUPER_USER: Final = Decision(_ALLOWED, Rule.SUPER_USER)


class DecisionCounts:
    """Number of decided actions by result and rule, for metrics.

    Increments are exact under the GIL, and may be lost without it. No decision depends on them.

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
