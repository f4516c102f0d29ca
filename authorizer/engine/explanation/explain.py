"""Explanation of a decision: its reason, the ACLs that nearly changed it, and the commands to allow it.

`authorizer.engine.decisions` decides; the command line renders the text.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace as replace_fields

from authorizer.api.authorizer_api import Action, AuthorizableRequestContext, AuthorizationResult
from authorizer.api.http.answers.acls import AppliedAcl
from authorizer.api.http.answers.decisions import ExplainedRequest, KafkaRelease
from authorizer.engine.decisions.authorize import authorize_action
from authorizer.engine.decisions.decision import Decision
from authorizer.engine.decisions.notes import notes
from authorizer.engine.decisions.reason import matching_acls
from authorizer.engine.decisions.rules import Rule
from authorizer.engine.explanation.fix import fix_flags
from authorizer.engine.explanation.near_misses import NearMiss, near_misses
from authorizer.engine.explanation.other_hosts import OtherHosts, other_hosts

if TYPE_CHECKING:
    from authorizer.api.kafka_version import VersionInForce
    from authorizer.engine.decisions.state import AuthorizerState
    from records.columns.acl_table import AppliedAcl as AppliedAclRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One decision, explained.

    Attributes:
        decision: the result, its rule, and the deciding ACL with its id and offset.
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
    also_matched: tuple[AppliedAclRow, ...]
    near_misses: tuple[NearMiss, ...]
    remark: str | None
    notes: tuple[str, ...]
    other_hosts: OtherHosts | None
    kafka_version: VersionInForce
    fix: tuple[tuple[str, ...], ...]

    def without_offsets(self) -> Self:
        """Return it without the offsets and times of ACLs, which ACLs from brokers do not have."""

        def bare(acl: AppliedAclRow) -> AppliedAclRow:
            return replace_fields(acl, offset=None, timestamp_ms=-1)

        acl = self.decision.acl
        return replace(
            self,
            decision=self.decision if acl is None else replace_fields(self.decision, acl=bare(acl)),
            also_matched=tuple(map(bare, self.also_matched)),
            near_misses=tuple(replace(each, acl=bare(each.acl)) for each in self.near_misses),
        )

    def answer(self) -> ExplainedRequest:
        pattern, acl = self.action.resource_pattern, self.decision.acl
        return ExplainedRequest(
            result=self.decision.result.value,
            rule=str(self.decision),
            reason=self.reason,
            offset=self.end_offset,
            end_offset=self.end_offset,
            principal=str(self.context.principal),
            host=self.context.client_address,
            operation=self.action.operation.name,
            resource_type=pattern.resource_type.name,
            resource_name=pattern.name,
            acl=None if acl is None else AppliedAcl.of_row(acl),
            also_matched=[*map(AppliedAcl.of_row, self.also_matched)],
            near_misses=[each.answer() for each in self.near_misses],
            remark=self.remark,
            notes=list(self.notes),
            other_hosts=None if self.other_hosts is None else self.other_hosts.answer(),
            kafka_version=KafkaRelease.of(self.kafka_version),
            fix=[shlex.join(["kafka-acls", *flags]) for flags in self.fix],
        )

    @classmethod
    def from_answer(
        cls, answer: ExplainedRequest, context: AuthorizableRequestContext, action: Action
    ) -> Self:
        """Parse the HTTP answer for this request. ValueError: it has an unknown code, rule or release."""
        acl = None if answer.acl is None else answer.acl.row()
        rule = Rule(answer.rule.partition("(")[0])
        return cls(
            context=context,
            action=action,
            decision=Decision(AuthorizationResult(answer.result), rule, acl),
            end_offset=answer.end_offset,
            reason=answer.reason,
            also_matched=tuple(each.row() for each in answer.also_matched),
            near_misses=tuple(map(NearMiss.from_answer, answer.near_misses)),
            remark=answer.remark,
            notes=tuple(answer.notes),
            other_hosts=None if answer.other_hosts is None else OtherHosts.from_answer(answer.other_hosts),
            kafka_version=answer.kafka_version.value(),
            # Each command begins with kafka-acls.
            fix=tuple(tuple(shlex.split(command)[1:]) for command in answer.fix),
        )


def explain(state: AuthorizerState, context: AuthorizableRequestContext, action: Action) -> Explanation:
    """Explain one action; raises as `authorize_actions`."""
    decided = authorize_action(state, context, action)
    decision = decided.decision()
    matching: list[AppliedAclRow] = []
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
