"""A decision as a CloudEvent 1.0 in JSON; docs/decision-log.md has the fields.

An event is a msgspec struct: the package ``cloudevents`` keeps attributes in dictionaries and encodes with
``json``, which takes longer than all other work for an event.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, UnsetType

from authorizer.api.acl_json import acl_json
from authorizer.api.api_keys import api_key_name
from authorizer.api.audit_levels import AUDIT_LEVELS
from authorizer.api.authorizer_api import HttpRequestContext
from records.acl import AclOperation, ResourceType

if TYPE_CHECKING:
    from authorizer.engine.decisions.decision import DecidedAction
    from records.columns.acl_table import AppliedAcl

EVENT_TYPE: Final = "aclog.decision.v1"
#: Content type of a message (CloudEvents' JSON format and Kafka binding).
EVENT_CONTENT_TYPE: Final = "application/cloudevents+json; charset=UTF-8"

# Looked up once, as in decisions.audit.
_RESOURCE_TYPES: Final = tuple(resource_type.name for resource_type in ResourceType)
_OPERATIONS: Final = tuple(operation.name for operation in AclOperation)
_LEVELS: Final = {level: name for name, level in AUDIT_LEVELS.items()}


class DecisionData(msgspec.Struct, gc=False):
    """The request, the decision and its reason.

    Attributes:
        acl: the ACL that decided, in the form of ``acl_json``; null if none did.
        caller, caller_host: principal and address of the sender of a request over HTTP.
        request_id: the caller's id of its request (X-Request-ID).
        client_id, correlation_id: of a request of Kafka's protocol that has a client id.
        count: number of decisions in the event; more than one if repeats are folded.
        last_time: time of the last of them, in UTC.
        last_offset: end offset of the state of the last of them.
    """

    result: str
    principal: str
    host: str
    operation: str
    resource_type: str
    resource_name: str
    resource_reference_count: int
    request: str
    level: str
    rule: str
    acl: dict[str, str] | None
    offset: int
    caller: str | UnsetType
    caller_host: str | UnsetType
    request_id: str | UnsetType
    client_id: str | UnsetType
    correlation_id: int | UnsetType
    cluster: str | UnsetType
    count: int
    last_time: datetime
    last_offset: int


class DecisionEvent(msgspec.Struct, gc=False):
    """The event, with CloudEvents' attributes. ``id`` is set when the event is written.

    Attributes:
        sampledrate: N, for one event in N decisions, if a rule samples (a CloudEvents extension).
    """

    specversion: str
    id: str
    source: str
    type: str
    time: datetime
    subject: str
    datacontenttype: str
    sampledrate: int | UnsetType
    data: DecisionData


def decision_event(decided: DecidedAction, principal: str, source: str, interval: int) -> DecisionEvent:
    """Return the event of one decision in ``interval``; this computes the decision's reason."""
    context, action, decision = decided.context, decided.action, decided.decision()
    pattern = action.resource_pattern
    time, offset = datetime.fromtimestamp(decided.decided_s, UTC), decided.state.end_offset
    caller: str | UnsetType = UNSET
    caller_host: str | UnsetType = UNSET
    request_id: str | UnsetType = UNSET
    client_id: str | UnsetType = UNSET
    correlation_id: int | UnsetType = UNSET
    if isinstance(context, HttpRequestContext):
        request, caller, caller_host = context.request_name, str(context.caller), context.caller_address
        if context.request_id is not None:
            request_id = context.request_id
    else:
        request = api_key_name(context.request_type)
        if context.client_id:
            client_id, correlation_id = context.client_id, context.correlation_id
    return DecisionEvent(
        "1.0",
        "",
        source,
        EVENT_TYPE,
        time,
        principal,
        "application/json",
        interval if interval > 1 else UNSET,
        DecisionData(
            decision.result.value,
            principal,
            context.client_address,
            _OPERATIONS[action.operation],
            _RESOURCE_TYPES[pattern.resource_type],
            pattern.name,
            action.resource_reference_count,
            request,
            _LEVELS[decided.level],
            decision.rule.value,
            None if decision.acl is None else _acl(decision.acl),
            offset,
            caller,
            caller_host,
            request_id,
            client_id,
            correlation_id,
            UNSET if (cluster := decided.state.settings.cluster) is None else cluster,
            1,
            time,
            offset,
        ),
    )


def encode_event(event: DecisionEvent) -> bytes:
    """Encode an event as a line of JSON, without its end."""
    try:
        return _encode(event)
    except UnicodeEncodeError:  # an unpaired surrogate
        return json.dumps(msgspec.to_builtins(event), separators=(",", ":")).encode("ascii")


_encode: Final = msgspec.json.Encoder().encode


@lru_cache(maxsize=4096)  # a few ACLs decide most requests
def _acl(acl: AppliedAcl) -> dict[str, str]:
    return acl_json(acl.record)
