"""Explanation: why an answer is what it is, which ACLs nearly changed it, and what would.

A near miss is an ACL that would have turned the answer but for exactly one field: a LITERAL that should have been
PREFIXED, another host, another operation, a name with a typo, another principal, another resource type. Few are
kept, the closest first. Nothing here decides: the decision is `authorizer.decision`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from authorizer.decision import Rule, decide
from authorizer.fix import fix_commands
from authorizer.matching import (
    acl_principals,
    matching_acls,
)
from records.acl import (
    AclOperation,
    PatternType,
    ResourceType,
)

if TYPE_CHECKING:

    from authorizer.api import Action, AuthorizableRequestContext
    from authorizer.decision import Decision
    from authorizer.state import AuthorizerState
    from snapshot.image import AppliedAcl

#: Near misses that an explanation holds, in all and of one field.
NEAR_MISSES_MAXIMUM: Final = 10
NEAR_MISSES_OF_ONE_FIELD: Final = 3
# ACLs looked at in search of them: explaining stays quick where a name or a principal has very many.
_LOOKED_AT_MAXIMUM: Final = 20_000

# Which fields people get wrong most, most likely first.
_FIELDS: Final = ("patternType", "host", "operation", "resourceName", "principal", "resourceType")


@dataclass(frozen=True, slots=True)
class NearMiss:
    """An ACL that failed on one field only.

    Attributes:
        field: the field's name in AccessControlEntryRecord's JSON.
        asked: what the question has there.
    """

    acl: AppliedAcl
    field: str
    asked: str

    @property
    def has(self) -> str:
        """What the ACL has there."""
        record = self.acl.record
        match self.field:
            case "patternType":
                return PatternType.from_code(record.pattern_type).name
            case "operation":
                return AclOperation.from_code(record.operation).name
            case "resourceType":
                return ResourceType.from_code(record.resource_type).name
            case "host":
                return record.host
            case "principal":
                return record.principal
            case _:
                return record.resource_name

    def to_json(self) -> dict[str, Any]:
        return {"field": self.field, "asked": self.asked, "has": self.has, "acl": _applied_json(self.acl)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One decision, explained.

    Attributes:
        context, action: the question.
        decision: the answer, its rule, and the deciding ACL with its id and place in the log.
        end_offset: of the state that was asked: last contained offset + 1.
        reason: one sentence.
        also_matched: the other ACLs that matched in every field, in the order in which Kafka meets them.
        near_misses: ACLs with the opposite effect that failed on one field, the closest first.
        fix: kafka-acls commands, without where to send them, that would allow it; none if it is allowed.
    """

    context: AuthorizableRequestContext
    action: Action
    decision: Decision
    end_offset: int
    reason: str
    also_matched: tuple[AppliedAcl, ...]
    near_misses: tuple[NearMiss, ...]
    fix: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        pattern = self.action.resource_pattern
        acl = self.decision.acl
        return {
            "result": self.decision.result.value,
            "rule": str(self.decision),
            "reason": self.reason,
            "offset": self.end_offset,
            "principal": str(self.context.principal),
            "host": self.context.client_address,
            "operation": self.action.operation.name,
            "resourceType": pattern.resource_type.name,
            "resourceName": pattern.name,
            "acl": None if acl is None else _applied_json(acl),
            "alsoMatched": [_applied_json(each) for each in self.also_matched],
            "nearMisses": [each.to_json() for each in self.near_misses],
            "fix": list(self.fix),
        }


def explain(state: AuthorizerState, context: AuthorizableRequestContext, action: Action) -> Explanation:
    """Explain one action.

    Raises:
        ValueError: the resource is not LITERAL.
        AuthorizerNotReadyError: not ready, and not a super user.
    """
    decision = decide(state, context, action)
    matching: list[AppliedAcl] = []
    near_misses: tuple[NearMiss, ...] = ()
    if decision.rule is not Rule.SUPER_USER:
        pattern = action.resource_pattern
        matching = matching_acls(
            state.index,
            context.principal,
            context.client_address,
            pattern.resource_type,
            pattern.name,
            action.operation,
        )
        near_misses = _NearMisses(state, context, action, wanted=not decision.is_allowed).closest()
    return Explanation(
        context=context,
        action=action,
        decision=decision,
        end_offset=state.index.image.provenance.end_offset,
        reason=_reason(state, decision, action),
        also_matched=tuple(acl for acl in matching if acl is not decision.acl),
        near_misses=near_misses,
        fix=() if decision.is_allowed else fix_commands(context, action, matching),
    )


def _reason(state: AuthorizerState, decision: Decision, action: Action) -> str:
    match decision.rule:
        case Rule.SUPER_USER:
            return "the principal is a super user"
        case Rule.MATCHING_ACL if decision.is_allowed:
            return "an ACL allows it, and none denies it"
        case Rule.MATCHING_ACL:
            return "an ACL denies it, which no ALLOW can change"
        case Rule.DEFAULT_ALLOW:
            return "no ACL covers the resource, and allow.everyone.if.no.acl.found is true"
        case Rule.DEFAULT_DENY:
            pattern = action.resource_pattern
            if state.index.resources[pattern.resource_type].covers(pattern.name):
                return "ACLs cover the resource, but none of them matches"
            return "no ACL covers the resource"


class _NearMisses:
    """The search for ACLs that failed on one field; ``wanted`` is whether they are to allow or to deny."""

    def __init__(
        self, state: AuthorizerState, context: AuthorizableRequestContext, action: Action, *, wanted: bool
    ) -> None:
        self._index = state.index
        self._principals = acl_principals(context.principal)
        self._principal = str(context.principal)
        self._host = context.client_address
        self._operation = action.operation
        self._type = action.resource_pattern.resource_type
        self._name = action.resource_pattern.name
        self._wanted = wanted

    def closest(self) -> tuple[NearMiss, ...]:
        by_field: dict[str, list[NearMiss]] = {field: [] for field in _FIELDS}
        for miss in chain(self._of_covering(), self._of_own_in_type(), self._of_own_in_other_types()):
            by_field[miss.field].append(miss)
        few = [
            miss
            for field in _FIELDS
            for miss in sorted(by_field[field], key=_distance)[:NEAR_MISSES_OF_ONE_FIELD]
        ]
        # What has nothing in common with the question is no near miss as long as there are others.
        few.sort(key=lambda miss: _distance(miss) >= 1)
        return tuple(few[:NEAR_MISSES_MAXIMUM])
