"""What each route of the sidecar is asked with and answers, for ``/openapi.json``.

What a request is asked with is the Struct that decodes it; schemas are written here only for answers, which
have none. Errors that every request may get, and those of reading a query or a body, ``openapi`` adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from authorizer.analysis.plan import PlanApplication
from authorizer.api.http.acl_requests import ACLS_PATH, PLANS_PATH, AclCreation, AclDeletion
from authorizer.api.http.error_code import ErrorCode
from authorizer.engine.decisions.rules import Rule
from authorizer.sidecar.http.request_response import JSON
from authorizer.sidecar.routes.acl_bodies import AclListing
from authorizer.sidecar.routes.authzen import Evaluation, EvaluationsRequest
from authorizer.sidecar.routes.config_routes import CONFIG_PATH, ConfigChange
from authorizer.sidecar.routes.evaluations import EVALUATION_PATH, EVALUATIONS_PATH
from authorizer.sidecar.routes.questions import (
    AtOffset,
    DecisionQuestion,
    FilterQuestion,
    OperationsQuestion,
    StateQuestion,
    TypeQuestion,
)
from authorizer.sidecar.routes.search_bodies import ActionSearch, ResourceSearch, SubjectSearch

if TYPE_CHECKING:
    import msgspec

#: A JSON schema (2020-12).
Schema = Mapping[str, Any]

#: In front of a component's name.
COMPONENTS: Final = "#/components/schemas/"

_CHANGES: Final = (
    "Server-sent events: start, change, current, reload, not-ready and ready, whose data is a JSON object. "
    "The id of an event is the offset to go on behind. The data of a change has its offset, and the ACLs "
    "that it removed and added."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path.

    Attributes:
        summary: what it is for.
        answer: schema of a 200's body.
        says: what a 200 is.
        asks: the body of a request that has one, else its query; None if it has neither.
        example: of what it is asked, by the members' names.
        needs: members of ``asks`` that must be there, though the Struct is also for requests without them.
        headers: that it reads, by name.
        errors: that it may answer beyond those of every operation.
        media: type of a 200's body.
        unready: schema of a 503's body that is no error's.
    """

    summary: str
    answer: Schema
    says: str = "The answer"
    asks: type[msgspec.Struct] | None = None
    example: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    headers: Mapping[str, Schema] = field(default_factory=dict)
    errors: tuple[ErrorCode, ...] = ()
    media: str = JSON
    unready: Schema | None = None


def _object(*optional: str, **members: Schema) -> Schema:
    """With these members, all of which are there but the optional ones."""
    return {
        "type": "object",
        "properties": members,
        "required": [name for name in members if name not in optional],
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _component(name: str) -> Schema:
    return {"$ref": COMPONENTS + name}


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_TEXT: Final[Schema] = {"type": "string"}
_FLAG: Final[Schema] = {"type": "boolean"}
_NUMBER: Final[Schema] = {"type": "integer"}
_RESULT: Final[Schema] = {"enum": ["ALLOWED", "DENIED"]}

_ACL_MEMBERS: Final = dict.fromkeys(
    (
        "id",
        "resourceType",
        "resourceName",
        "patternType",
        "principal",
        "host",
        "operation",
        "permissionType",
    ),
    _TEXT,
)
_ITEM_ERROR: Final = _object(error=_object(name=_TEXT, code=_TEXT, message=_TEXT))

#: Schemas that answers refer to, by name.
ANSWER_COMPONENTS: Final[Mapping[str, Schema]] = {
    "Acl": _object(**_ACL_MEMBERS),
    "AppliedAcl": _object(**_ACL_MEMBERS, offset=_maybe(_NUMBER), timestamp=_NUMBER),
    "Decision": _object(
        decision=_FLAG,
        context={
            "anyOf": [
                _object(
                    "notes",
                    "acl",
                    "written_at_offset",
                    rule={"enum": [rule.value for rule in Rule]},
                    offset=_NUMBER,
                    end_offset=_NUMBER,
                    reason=_TEXT,
                    notes=_list(_TEXT),
                    acl=_component("Acl"),
                    written_at_offset=_maybe(_NUMBER),
                ),
                # Of a question in a batch that cannot be answered.
                _object(error=_object(status=_NUMBER, code={"enum": list(ErrorCode)}, message=_TEXT)),
            ]
        },
    ),
    "Problem": _object(type=_TEXT, title=_TEXT, status=_NUMBER, code={"enum": list(ErrorCode)}, detail=_TEXT),
}

_ACL: Final = _component("Acl")
_APPLIED_ACL: Final = _component("AppliedAcl")
_DECISION: Final = _component("Decision")


def _results(result: Schema, **context: Schema) -> Schema:
    """A page of a search; a type that Kafka does not know has no more context than the offset."""
    return _object(
        page=_object(next_token=_TEXT, count=_NUMBER),
        context=_object(*context, offset=_NUMBER, end_offset=_NUMBER, **context),
        results=_list(result),
    )


_BY_ANSWER: Final = _object(allowed=_list(_TEXT), denied=_list(_TEXT))
_TYPED: Final = _object(type=_TEXT, id=_TEXT)
_READY: Final[Mapping[str, Schema]] = {"ready": _FLAG, "offset": _NUMBER, "lag_records": _maybe(_NUMBER)}

_SUBJECT: Final = {"type": "User", "id": "alice"}
_READ: Final = {"name": "READ"}
_RESOURCE: Final = {"type": "TOPIC", "id": "orders"}
_CONTEXT: Final = {"host": "10.0.0.1"}
_EVALUATION: Final = {"subject": _SUBJECT, "action": _READ, "resource": _RESOURCE, "context": _CONTEXT}
_WHO: Final = {"principal": "User:alice", "host": "10.0.0.1", "resourceType": "TOPIC"}
_ONE_ACL: Final = {
    "resourceType": "TOPIC",
    "resourceName": "orders",
    "principal": "User:alice",
    "operation": "READ",
    "permissionType": "ALLOW",
}

_ONE_PLAN: Final = {
    "aclogPlan": 1,
    "origin": {"log": "file:acls", "clusterId": "c", "topicId": None, "endOffset": 7},
    "superUsers": [],
    "allowEveryone": False,
    "kafkaVersion": "4.3",
    "digest": "0" * 32,
    "meaningBefore": "0" * 32,
    "meaningAfter": "1" * 32,
    "remove": [],
    "add": [_ONE_ACL],
    "checksum": "2" * 32,
}

_GUARDED: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.AUTHORIZER_NOT_READY)
_OF_A_STATE: Final = (*_GUARDED, ErrorCode.OFFSET_NOT_HELD, ErrorCode.OFFSET_NOT_VISIBLE)

_APPLIED_PLAN: Final = _object(acl_count=_NUMBER, removed=_list(_ACL), added=_list(_ACL))

_AUTHORIZED_OPERATIONS: Final = Operation(
    summary="The operations that a principal may do to one resource (KIP-430)",
    asks=OperationsQuestion,
    example={**_WHO, "resourceName": "orders"},
    answer=_object(offset=_NUMBER, end_offset=_NUMBER, operations=_list(_TEXT), bits=_NUMBER),
    errors=_OF_A_STATE,
)
_BY_RESOURCE_TYPE: Final = Operation(
    summary="Whether a principal may do this to any resource of a type (KIP-679)",
    asks=TypeQuestion,
    example={**_WHO, "operation": "READ"},
    answer=_object(offset=_NUMBER, end_offset=_NUMBER, result=_RESULT),
    errors=_OF_A_STATE,
)
_VERSION: Final = _object(
    version=_maybe(_TEXT),
    source=_TEXT,
    releases=_list(_TEXT),
    brokers=_list(_TEXT),
    brokersDisagree=_FLAG,
)
_STATE: Final[Mapping[str, Schema]] = {
    "cluster_id": _maybe(_TEXT),
    "topic_id": _maybe(_TEXT),
    "log": _TEXT,
    "offset": _NUMBER,
    "end_offset": _NUMBER,
    "epoch": _NUMBER,
    "high_watermark": _maybe(_NUMBER),
    "high_watermark_is_guess": _FLAG,
    "uncommitted_from": _maybe(_NUMBER),
    "lag_records": _maybe(_NUMBER),
    "lag_ms": _NUMBER,
    "polled": _maybe(
        _object(
            age_ms=_maybe(_NUMBER),
            refresh_ms=_NUMBER,
            polls=_NUMBER,
            failures=_NUMBER,
            error=_maybe(_TEXT),
        )
    ),
    "acl_count": _NUMBER,
    "digest": _TEXT,
    "meaning": _maybe(_object(offset=_NUMBER, end_offset=_NUMBER, digest=_TEXT)),
    "ready": _FLAG,
    "reason": _maybe(_TEXT),
    "writable": _FLAG,
    "kafka_version": _VERSION,
    "metadata": _object(
        topics=_NUMBER,
        brokers={"type": "object", "additionalProperties": _NUMBER},
        features={"type": "object", "additionalProperties": _NUMBER},
        scram_users=_NUMBER,
        delegation_tokens=_NUMBER,
        is_whole=_FLAG,
        unread=_list(_object(type=_TEXT, version=_NUMBER, records=_NUMBER)),
        warning=_maybe(_TEXT),
    ),
}
_EXPLAIN: Final = Operation(
    summary="Why a principal may do this, or may not",
    asks=DecisionQuestion,
    example={**_WHO, "resourceName": "orders", "operation": "READ"},
    answer=_object(
        result=_RESULT,
        rule=_TEXT,
        reason=_TEXT,
        offset=_NUMBER,
        endOffset=_NUMBER,
        principal=_TEXT,
        host=_TEXT,
        operation=_TEXT,
        resourceType=_TEXT,
        resourceName=_TEXT,
        acl=_maybe(_APPLIED_ACL),
        alsoMatched=_list(_APPLIED_ACL),
        nearMisses=_list(_object(field=_TEXT, has=_TEXT, asked=_TEXT, acl=_APPLIED_ACL)),
        remark=_maybe(_TEXT),
        notes=_list(_TEXT),
        hostAssumed=_FLAG,
        otherHosts=_maybe(
            _object(
                result=_RESULT,
                hosts=_list(_TEXT),
                total=_NUMBER,
                but=_list(_TEXT),
                butTotal=_NUMBER,
            )
        ),
        kafkaVersion=_VERSION,
        fix=_list(_TEXT),
        highWatermarkIsGuess=_FLAG,
        uncommittedFrom=_maybe(_NUMBER),
        ageMs=_maybe(_NUMBER),
    ),
    errors=_OF_A_STATE,
)

#: By method and path.
OPERATIONS: Final[Mapping[tuple[str, str], Operation]] = {
    ("GET", "/"): Operation(
        summary="What this is, and which paths it has",
        answer=_object(
            name=_TEXT,
            version=_TEXT,
            description=_TEXT,
            paths={"type": "object", "additionalProperties": _list(_TEXT)},
        ),
    ),
    ("POST", EVALUATION_PATH): Operation(
        summary="AuthZEN 1.0: one decision",
        says="The decision; a DENIED is no error",
        asks=Evaluation,
        example=_EVALUATION,
        needs=("subject", "action", "resource"),
        answer=_DECISION,
        errors=_OF_A_STATE,
    ),
    ("POST", EVALUATIONS_PATH): Operation(
        summary="AuthZEN 1.0: up to 10,000 decisions on one state",
        says="The decisions in the order of the questions; one by itself where there are no evaluations",
        asks=EvaluationsRequest,
        example={**_EVALUATION, "evaluations": [{}, {"action": {"name": "WRITE"}}]},
        answer={"anyOf": [_object(evaluations=_list(_DECISION)), _DECISION]},
        errors=_OF_A_STATE,
    ),
    ("POST", "/access/v1/search/subject"): Operation(
        summary="AuthZEN 1.0: who may do this to that",
        asks=SubjectSearch,
        example={**_EVALUATION, "subject": {"type": "User"}},
        answer=_results(_TYPED, everyone=_FLAG),
        errors=_OF_A_STATE,
    ),
    ("POST", "/access/v1/search/resource"): Operation(
        summary="AuthZEN 1.0: to which resources a principal may do this",
        asks=ResourceSearch,
        example={**_EVALUATION, "resource": {"type": "TOPIC"}, "page": {"limit": 10}},
        answer=_results(
            _TYPED,
            names={"enum": ["acls", "existing"]},
            prefixes=_BY_ANSWER,
            literals=_BY_ANSWER,
        ),
        errors=_OF_A_STATE,
    ),
    ("POST", "/access/v1/search/action"): Operation(
        summary="AuthZEN 1.0: what a principal may do to a resource",
        asks=ActionSearch,
        example={"subject": _SUBJECT, "resource": _RESOURCE, "context": _CONTEXT},
        answer=_results(_object(name=_TEXT)),
        errors=_OF_A_STATE,
    ),
    ("GET", "/.well-known/authzen-configuration"): Operation(
        summary="AuthZEN 1.0: where its endpoints are",
        answer=_object(
            policy_decision_point=_TEXT,
            access_evaluation_endpoint=_TEXT,
            access_evaluations_endpoint=_TEXT,
            search_subject_endpoint=_TEXT,
            search_resource_endpoint=_TEXT,
            search_action_endpoint=_TEXT,
        ),
    ),
    ("GET", ACLS_PATH): Operation(
        summary="List ACLs",
        says="The ACLs that the filter means, in force at an offset",
        asks=AclListing,
        example={"resourceType": "TOPIC", "patternType": "MATCH"},
        answer=_object(offset=_NUMBER, end_offset=_NUMBER, acls=_list(_ACL)),
        errors=_OF_A_STATE,
    ),
    ("POST", ACLS_PATH): Operation(
        summary="Create ACLs",
        says="A result for each ACL, in order: also where it is refused",
        asks=AclCreation,
        example={"acls": [_ONE_ACL]},
        answer=_object(
            offset=_NUMBER,
            end_offset=_NUMBER,
            results=_list({"anyOf": [_object("acl", created=_FLAG, acl=_ACL), _ITEM_ERROR]}),
        ),
        errors=_GUARDED,
    ),
    ("DELETE", ACLS_PATH): Operation(
        summary="Remove ACLs",
        says="A result for each filter, in order: also where it is refused",
        asks=AclDeletion,
        example={"filters": [_ONE_ACL]},
        answer=_object(
            offset=_NUMBER,
            end_offset=_NUMBER,
            results=_list({"anyOf": [_object(deleted=_list(_ACL)), _ITEM_ERROR]}),
        ),
        errors=_GUARDED,
    ),
    ("GET", f"{ACLS_PATH}/{{id}}"): Operation(
        summary="One ACL, and where it was written",
        asks=AtOffset,
        answer=_object(offset=_NUMBER, end_offset=_NUMBER, acl=_APPLIED_ACL),
        errors=(*_OF_A_STATE, ErrorCode.NOT_FOUND),
    ),
    ("POST", PLANS_PATH): Operation(
        summary="Apply a plan, whole or not at all",
        says="What was removed and added, or why nothing was: the log has another meaning by now, or it "
        "removes a larger share of the ACLs than it may",
        asks=PlanApplication,
        example=_ONE_PLAN,
        answer=_object(
            offset=_NUMBER,
            end_offset=_NUMBER,
            results=_list({"anyOf": [_APPLIED_PLAN, _ITEM_ERROR]}),
        ),
        errors=_GUARDED,
    ),
    ("GET", "/v1/authorized-operations"): _AUTHORIZED_OPERATIONS,
    ("POST", "/v1/authorized-operations"): _AUTHORIZED_OPERATIONS,
    ("GET", "/v1/authorize-by-resource-type"): _BY_RESOURCE_TYPE,
    ("POST", "/v1/authorize-by-resource-type"): _BY_RESOURCE_TYPE,
    ("POST", "/v1/filter"): Operation(
        summary="To which of up to 10,000 names a principal may do this",
        asks=FilterQuestion,
        example={**_WHO, "operation": "READ", "resourceNames": ["orders", "payments"]},
        answer=_object(offset=_NUMBER, end_offset=_NUMBER, allowed=_list(_TEXT)),
        errors=_OF_A_STATE,
    ),
    ("GET", "/v1/explain"): _EXPLAIN,
    ("POST", "/v1/explain"): _EXPLAIN,
    ("GET", "/v1/changes"): Operation(
        summary="Follow the changes of ACLs",
        says=_CHANGES,
        headers={"Last-Event-ID": {"type": "string", "pattern": "^([0-9]{1,19})?$"}},
        # OpenAPI 3.1 has no words for a stream of events.
        answer={},
        errors=(*_GUARDED, ErrorCode.INVALID_REQUEST, ErrorCode.TOO_MANY_STREAMS),
        media="text/event-stream",
    ),
    ("GET", CONFIG_PATH): Operation(
        summary="The settings as they are now, secrets hidden",
        answer=_object(
            configs=_list(
                _object(
                    name=_TEXT,
                    value=_maybe(_TEXT),
                    source={"enum": ["default", "file", "environment", "flag", "put"]},
                    dynamic=_FLAG,
                    secret=_FLAG,
                )
            )
        ),
        errors=_GUARDED,
    ),
    ("PUT", CONFIG_PATH): Operation(
        summary="Change settings while the node runs, all or none",
        says="What has changed, until the file is read again or the process ends: it is written nowhere",
        asks=ConfigChange,
        example={"configs": {"aclog.max.lag.ms": "60000"}, "validate_only": True},
        answer=_object(
            changed=_list(_object(name=_TEXT, old=_maybe(_TEXT), new=_maybe(_TEXT))), persisted=_FLAG
        ),
        errors=(*_GUARDED, ErrorCode.INVALID_CONFIG),
    ),
    ("GET", "/v1/state"): Operation(
        summary="Where the node stands; with meaning=true the digest of what its ACLs mean, once it is known",
        asks=StateQuestion,
        example={"meaning": True},
        answer=_object(**_STATE),
        errors=(ErrorCode.CLUSTER_AUTHORIZATION_FAILED,),
    ),
    ("GET", "/livez"): Operation(summary="That the process answers", answer=_object(live=_FLAG)),
    ("GET", "/readyz"): Operation(
        summary="Whether the node may decide",
        says="It may",
        answer=_object(**_READY),
        unready=_object(**_READY, reason=_TEXT),
    ),
    ("GET", "/metrics"): Operation(summary="For Prometheus", answer=_TEXT, media="text/plain"),
    ("GET", "/openapi.json"): Operation(summary="This document", answer={"type": "object"}),
}

_OF_MEMBERS: Final[Schema] = {
    "type": "object",
    "additionalProperties": _object("reason", **_READY, reason=_TEXT),
}

#: What a fleet answers itself; behind a cluster's name there are OPERATIONS.
FLEET_OPERATIONS: Final[Mapping[tuple[str, str], Operation]] = {
    ("GET", "/"): OPERATIONS["GET", "/"],
    ("GET", "/v1/state"): Operation(
        summary="Where each cluster stands",
        says="Of a cluster that could not be opened only its log, and why",
        answer=_object(
            clusters=_list(
                _object(
                    *(name for name in _STATE if name not in ("log", "ready", "reason")),
                    cluster=_TEXT,
                    **_STATE,
                )
            )
        ),
    ),
    ("GET", "/livez"): OPERATIONS["GET", "/livez"],
    ("GET", "/readyz"): Operation(
        summary="Whether every cluster's node may decide, and which may not",
        says="They may",
        answer=_object(ready=_FLAG, clusters=_OF_MEMBERS),
        unready=_object(ready=_FLAG, clusters=_OF_MEMBERS, reason=_TEXT),
    ),
    ("GET", "/metrics"): OPERATIONS["GET", "/metrics"],
    ("GET", "/openapi.json"): OPERATIONS["GET", "/openapi.json"],
}
