"""Explanation of a decision: its reason, the ACLs that nearly changed it, and the commands to allow it.

`authorizer.engine.decisions` decides; the command line renders the text.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from msgspec import to_builtins
from msgspec.structs import replace as replace_fields

from authorizer.api.acl_json import applied_acl_from_json, applied_acl_json
from authorizer.api.authorizer_api import AuthorizationResult
from authorizer.api.http.answers.decisions import KafkaRelease
from authorizer.api.kafka_version import VersionInForce
from authorizer.engine.decisions.authorize import authorize_action
from authorizer.engine.decisions.decision import Decision
from authorizer.engine.decisions.notes import notes
from authorizer.engine.decisions.reason import matching_acls
from authorizer.engine.decisions.rules import Rule
from authorizer.engine.explanation.fix import fix_flags
from authorizer.engine.explanation.near_misses import NearMiss, near_misses
from authorizer.engine.explanation.other_hosts import OtherHosts, other_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext
    from authorizer.engine.decisions.state import AuthorizerState
    from records.columns.acl_table import AppliedAcl


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One decision, explained.

    Attributes:
        context: the caller.
        action: the request.
        decision: the result, its rule, and the deciding ACL with its id and offset.
        end_offset: of the state that decided: last contained offset + 1.
        reason: a clause; two if other hosts have the other result.
        also_matched: the other ACLs that matched in every field, in the order of Kafka's scan.
        near_misses: ACLs of the opposite effect that failed on one field, the closest first.
        remark: a warning about a request that no broker makes, or None.
        notes: the unknown facts that a denial depends on, and how to set them.
        other_hosts: hosts with the other result; None: all hosts have this one.
        kafka_version: the release whose rules apply.
        fix: the flags of each kafka-acls command that together allow the request; empty if it is allowed.
    """

    context: AuthorizableRequestContext
    action: Action
    decision: Decision
    end_offset: int
    reason: str
    also_matched: tuple[AppliedAcl, ...]
    near_misses: tuple[NearMiss, ...]
    remark: str | None
    notes: tuple[str, ...]
    other_hosts: OtherHosts | None
    kafka_version: VersionInForce
    fix: tuple[tuple[str, ...], ...]

    def without_offsets(self) -> Self:
        """Return it without the offsets and times of ACLs, which ACLs from brokers do not have."""

        def bare(acl: AppliedAcl) -> AppliedAcl:
            return replace_fields(acl, offset=None, timestamp_ms=-1)

        acl = self.decision.acl
        return replace(
            self,
            decision=self.decision if acl is None else replace_fields(self.decision, acl=bare(acl)),
            also_matched=tuple(map(bare, self.also_matched)),
            near_misses=tuple(replace(each, acl=bare(each.acl)) for each in self.near_misses),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as JSON.

        ``offset`` is the earlier name of ``endOffset``. ACLs are their record's fields with ``offset`` and
        ``timestamp`` of the record that wrote them.
        """
        pattern, acl = self.action.resource_pattern, self.decision.acl
        return {
            "result": self.decision.result.value,
            "rule": str(self.decision),
            "reason": self.reason,
            "offset": self.end_offset,
            "endOffset": self.end_offset,
            "principal": str(self.context.principal),
            "host": self.context.client_address,
            "operation": self.action.operation.name,
            "resourceType": pattern.resource_type.name,
            "resourceName": pattern.name,
            "acl": None if acl is None else applied_acl_json(acl),
            "alsoMatched": [applied_acl_json(each) for each in self.also_matched],
            "nearMisses": [
                {
                    "field": each.field,
                    "has": each.value,
                    "asked": each.requested,
                    "acl": applied_acl_json(each.acl),
                }
                for each in self.near_misses
            ],
            "remark": self.remark,
            "notes": list(self.notes),
            "otherHosts": None if self.other_hosts is None else self.other_hosts.to_json(),
            "kafkaVersion": to_builtins(KafkaRelease.of(self.kafka_version)),
            "fix": [shlex.join(["kafka-acls", *flags]) for flags in self.fix],
        }


def explain(state: AuthorizerState, context: AuthorizableRequestContext, action: Action) -> Explanation:
    """Explain one action.

    Raises:
        ValueError: the resource is not LITERAL.
        AuthorizerNotReadyError: not ready, and not a super user.
    """
    decided = authorize_action(state, context, action)
    decision = decided.decision()
    matching: list[AppliedAcl] = []
    misses: tuple[NearMiss, ...] = ()
    other_results: OtherHosts | None = None
    if decision.rule is not Rule.SUPER_USER:
        matching = matching_acls(state.index, context, action)
        misses = near_misses(state.index, context, action, allowing=not decision.is_allowed)
        other_results = other_hosts(state, context, action, decision.result)
    deciding_id = None if decision.acl is None else decision.acl.record.id
    return Explanation(
        context=context,
        action=action,
        decision=decision,
        end_offset=state.end_offset,
        reason=_reason(state, context, decision, action, other_results),
        also_matched=tuple(acl for acl in matching if acl.record.id != deciding_id),
        near_misses=misses,
        remark=_remark(action, state.version),
        notes=notes(decided),
        other_hosts=other_results,
        kafka_version=state.version,
        fix=() if decision.is_allowed else fix_flags(context, action, matching),
    )


def _remark(action: Action, version: VersionInForce) -> str | None:
    """A warning if brokers never request the operation: Kafka's authorizer decides it all the same."""
    resource_type = action.resource_pattern.resource_type
    supported = version.supported_operations(resource_type)
    if not supported or action.operation in supported:
        return None
    names = ", ".join(operation.title for operation in supported)
    return f"no broker asks for {action.operation.title} on {resource_type.name}, only for {names}"


def _reason(
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    decision: Decision,
    action: Action,
    other_results: OtherHosts | None,
) -> str:
    if other_results is None:
        return _own_reason(state, decision, action)
    if decision.rule is Rule.MATCHING_ACL and decision.is_allowed:
        return (
            f"an ACL allows it from {context.client_address} and none denies it from there; {other_results}"
        )
    return f"{_own_reason(state, decision, action)}; {other_results}"


def _own_reason(state: AuthorizerState, decision: Decision, action: Action) -> str:
    match decision.rule:
        case Rule.SUPER_USER:
            return "the principal is a super user"
        case Rule.MATCHING_ACL if decision.is_allowed:
            return "an ACL allows it and none denies it"
        case Rule.MATCHING_ACL:
            return "an ACL denies it, and a DENY wins over every ALLOW"
        case Rule.DEFAULT_ALLOW:
            return "no ACL covers the resource, and allow.everyone.if.no.acl.found is true"
        case Rule.DEFAULT_DENY:
            pattern = action.resource_pattern
            if state.index.resources.covers(pattern.resource_type, pattern.name):
                return "ACLs cover the resource, but none of them matches"
            return "no ACL covers the resource"


def explanation_from_json(
    document: Mapping[str, Any], context: AuthorizableRequestContext, action: Action
) -> Explanation:
    """Parse the result of ``to_json`` for this request.

    Raises:
        KeyError, ValueError: it is not an explanation.
    """
    acl = document["acl"]
    rule = Rule(document["rule"].partition("(")[0])
    return Explanation(
        context=context,
        action=action,
        decision=Decision(
            AuthorizationResult(document["result"]), rule, None if acl is None else applied_acl_from_json(acl)
        ),
        end_offset=document["offset"],
        reason=document["reason"],
        also_matched=tuple(applied_acl_from_json(each) for each in document["alsoMatched"]),
        near_misses=tuple(
            NearMiss(applied_acl_from_json(each["acl"]), each["field"], each["has"], each["asked"])
            for each in document["nearMisses"]
        ),
        remark=document["remark"],
        notes=tuple(document["notes"]),
        other_hosts=_other_hosts(document.get("otherHosts")),
        kafka_version=VersionInForce.from_json(document["kafkaVersion"]),
        # Each command begins with kafka-acls.
        fix=tuple(tuple(shlex.split(command)[1:]) for command in document["fix"]),
    )


def _other_hosts(document: Mapping[str, Any] | None) -> OtherHosts | None:
    if document is None:
        return None
    return OtherHosts(document["result"], tuple(document["hosts"]), tuple(document["but"]))
