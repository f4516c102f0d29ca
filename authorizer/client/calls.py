"""Each question as a request, and its answer as a value. Pure: a thread may send it, or an event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import UNSET

from authorizer.api.errors import (
    SidecarError,
    SidecarRefusedError,
    SidecarRequestError,
)
from authorizer.api.http.acl_requests import (
    ACLS_PATH,
    PLANS_PATH,
    creation_body,
    deletion_body,
    listing_query,
)
from authorizer.api.http.answers import (
    AclList,
    AllowedNames,
    AppliedAcl,
    AuthorizedOperations,
    ByResourceType,
    CreationResults,
    DeletionResults,
    ExplainedDecision,
    NodeState,
    PlanOutcomes,
    SingleAcl,
)
from authorizer.api.http.answers import Decision as DecisionAnswer
from authorizer.api.http.answers import Decisions as DecisionsAnswer
from authorizer.client.answers import Decision, Question
from records.acl import AclBinding, AclBindingFilter, AclOperation, ResourceType
from records.principal import KafkaPrincipal

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

#: Questions of one request; a sidecar takes 10,000, and 4 MiB.
QUESTIONS_MAXIMUM: Final = 5_000

_FORBIDDEN: Final = (401, 403)
_ANY: Final = AclBindingFilter()


class NotYetError(Exception):
    """What was read says that the answer is to come; the message says why."""


@dataclass(frozen=True, slots=True)
class Call(Generic[_T_co]):
    """One request.

    Attributes:
        read: what an answer's body says; ValueError, KeyError or TypeError if it is none.
        changes: it is not to be sent again where it may have had an effect.
    """

    method: str
    target: str
    read: Callable[[bytes], _T_co]
    body: bytes | None = None
    changes: bool = False

    def then(self, make: Callable[[_T_co], _T]) -> Call[_T]:
        """The same request, whose answer ``make`` turns into another value; it raises as ``read``."""
        return Call(self.method, self.target, lambda body: make(self.read(body)), self.body, self.changes)


def decision(
    question: Question, *, min_offset: int | None = None, at_offset: int | None = None
) -> Call[Decision]:
    """One decision."""
    asked = _evaluation(question) | _evaluation_context(question, min_offset, at_offset)
    return Call("POST", "/access/v1/evaluation", _decision_of, msgspec.json.encode(asked))


def decisions(
    questions: Sequence[Question], *, min_offset: int | None = None, at_offset: int | None = None
) -> Call[list[Decision | SidecarError]]:
    """At most QUESTIONS_MAXIMUM decisions, all on one state; an error in the place of one refused."""

    def read(body: bytes) -> list[Decision | SidecarError]:
        answers = msgspec.json.decode(body, type=DecisionsAnswer).evaluations
        if len(answers) != len(questions):
            raise ValueError(f"{len(answers)} answers to {len(questions)} questions")
        return [_item_of(answer) for answer in answers]

    evaluations = [_evaluation(each) | _evaluation_context(each, min_offset, at_offset) for each in questions]
    body = msgspec.json.encode({"evaluations": evaluations})
    return Call("POST", "/access/v1/evaluations", read, body)


def explanation(
    question: Question, *, min_offset: int | None = None, at_offset: int | None = None
) -> Call[ExplainedDecision]:
    """Why."""
    asked = {
        **_kafka_question(question.principal, question.host, min_offset, at_offset),
        "operation": question.operation.name,
        "resourceType": question.resource_type.name,
        "resourceName": question.resource_name,
    }
    return _json_call("/v1/explain", asked, ExplainedDecision)


def authorized_operations(
    principal: KafkaPrincipal,
    resource_type: ResourceType,
    resource_name: str,
    *,
    host: str | None = None,
    min_offset: int | None = None,
    at_offset: int | None = None,
) -> Call[AuthorizedOperations]:
    """KIP-430."""
    asked = _kafka_question(principal, host, min_offset, at_offset)
    asked |= {"resourceType": resource_type.name, "resourceName": resource_name}
    return _json_call("/v1/authorized-operations", asked, AuthorizedOperations)


def by_resource_type(
    principal: KafkaPrincipal,
    operation: AclOperation,
    resource_type: ResourceType,
    *,
    host: str | None = None,
    min_offset: int | None = None,
    at_offset: int | None = None,
) -> Call[ByResourceType]:
    """KIP-679."""
    asked = _kafka_question(principal, host, min_offset, at_offset)
    asked |= {"operation": operation.name, "resourceType": resource_type.name}
    return _json_call("/v1/authorize-by-resource-type", asked, ByResourceType)


def filtered(
    principal: KafkaPrincipal,
    operation: AclOperation,
    resource_type: ResourceType,
    names: Iterable[str],
    *,
    host: str | None = None,
    min_offset: int | None = None,
    at_offset: int | None = None,
) -> Call[AllowedNames]:
    """Which of up to 10,000 names."""
    asked = _kafka_question(principal, host, min_offset, at_offset)
    asked |= {
        "operation": operation.name,
        "resourceType": resource_type.name,
        "resourceNames": list(names),
    }
    return _json_call("/v1/filter", asked, AllowedNames)


def listing(
    wanted: AclBindingFilter = _ANY, *, min_offset: int | None = None, at_offset: int | None = None
) -> Call[AclList]:
    """The ACLs that a filter means."""
    offsets = urlencode(_offsets(min_offset, at_offset))
    query = listing_query(wanted) + (f"&{offsets}" if offsets else "")
    return Call("GET", f"{ACLS_PATH}?{query}", msgspec.json.Decoder(AclList).decode)


def acl(acl_id: str) -> Call[AppliedAcl]:
    """One ACL."""

    def read(body: bytes) -> AppliedAcl:
        return msgspec.json.decode(body, type=SingleAcl).acl

    return Call("GET", f"{ACLS_PATH}/{quote(acl_id, safe='')}", read)


def creation(bindings: Iterable[AclBinding]) -> Call[CreationResults]:
    """Create ACLs."""
    read = msgspec.json.Decoder(CreationResults).decode
    return Call("POST", ACLS_PATH, read, creation_body(bindings), changes=True)


def deletion(filters: Iterable[AclBindingFilter]) -> Call[DeletionResults]:
    """Remove all that filters mean."""
    read = msgspec.json.Decoder(DeletionResults).decode
    return Call("DELETE", ACLS_PATH, read, deletion_body(filters), changes=True)


def plan_application(plan: bytes) -> Call[PlanOutcomes]:
    """Carry out a plan, as ``aclog plan --output`` writes it."""
    return Call("POST", PLANS_PATH, msgspec.json.Decoder(PlanOutcomes).decode, plan, changes=True)


def state() -> Call[NodeState]:
    """Where the node stands."""
    return Call("GET", "/v1/state", msgspec.json.Decoder(NodeState).decode)


def readiness() -> Call[NodeState]:
    """The same; not answered until the node may decide."""

    def read(body: bytes) -> NodeState:
        found = msgspec.json.decode(body, type=NodeState)
        if not found.ready:
            raise NotYetError(f"not ready: {found.reason}")
        return found

    return Call("GET", "/v1/state", read)


def _json_call(path: str, asked: dict[str, Any], kind: type[_T]) -> Call[_T]:
    return Call("POST", path, msgspec.json.Decoder(kind).decode, msgspec.json.encode(asked))


def _offsets(min_offset: int | None, at_offset: int | None) -> dict[str, Any]:
    given = {"min_offset": min_offset, "at_offset": at_offset}
    return {name: offset for name, offset in given.items() if offset is not None}


def _kafka_question(
    principal: KafkaPrincipal, host: str | None, min_offset: int | None, at_offset: int | None
) -> dict[str, Any]:
    from_where = {} if host is None else {"host": host}
    return {"principal": str(principal), **from_where, **_offsets(min_offset, at_offset)}


def _evaluation(question: Question) -> dict[str, Any]:
    principal = question.principal
    return {
        "subject": {"type": principal.principal_type, "id": principal.name},
        "action": {"name": question.operation.name},
        "resource": {"type": question.resource_type.name, "id": question.resource_name},
    }


def _evaluation_context(
    question: Question, min_offset: int | None, at_offset: int | None
) -> dict[str, dict[str, Any]]:
    context = _offsets(min_offset, at_offset)
    if question.host is not None:
        context["host"] = question.host
    if not question.log_if_allowed:
        context["log_if_allowed"] = False
    if not question.log_if_denied:
        context["log_if_denied"] = False
    if question.explain:
        context["explain"] = True
    return {"context": context}


def _decision_of(body: bytes) -> Decision:
    return _value_of(msgspec.json.decode(body, type=DecisionAnswer))


def _value_of(answer: DecisionAnswer) -> Decision:
    """ValueError: the answer names no state."""
    context = answer.context
    if context.offset is UNSET or context.rule is UNSET or context.reason is UNSET:
        raise ValueError("a decision without a rule, a reason or an offset")
    acl = None if context.acl is UNSET else context.acl
    return Decision(answer.decision, context.rule, context.reason, context.offset, acl)


def _item_of(answer: DecisionAnswer) -> Decision | SidecarError:
    error = answer.context.error
    if error is UNSET:
        return _value_of(answer)
    kind = SidecarRefusedError if error.status in _FORBIDDEN else SidecarRequestError
    return kind(error.message, status=error.status, code=error.code)
