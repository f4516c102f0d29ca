"""A decision as a CloudEvent 1.0 in JSON; docs/decision-log.md has the fields.

The package ``cloudevents`` keeps attributes in dictionaries and encodes by ``json``: it takes more time than
everything else that an event costs here. An event is a struct, which msgspec encodes.
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
#: Of a message that is an event (CloudEvents' JSON format and Kafka binding).
EVENT_CONTENT_TYPE: Final = "application/cloudevents+json; charset=UTF-8"

# Looked up once, as in decisions.audit.
_RESOURCE_TYPES: Final = tuple(resource_type.name for resource_type in ResourceType)
_OPERATIONS: Final = tuple(operation.name for operation in AclOperation)
_LEVELS: Final = {level: name for name, level in AUDIT_LEVELS.items()}


class DecisionData(msgspec.Struct, gc=False):
    """What was asked, by whom, what the answer was and why.

    Attributes:
        level: at which the audit log has the decision.
        acl: the one that decided, as ``acl_json`` has it; null where none did.
        offset: end offset of the state that decided.
        caller: of a question over HTTP, who sent it, as ``caller_host`` is from where.
        request_id: what the caller called its request (X-Request-ID).
        cluster: of a fleet, the one that was asked about.
        count: how many decisions the event is: more than one where repeats are folded.
        last_time: when the last of them was made, in UTC.
        last_offset: end offset of the state that made it.
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
    cluster: str | UnsetType
    count: int
    last_time: datetime
    last_offset: int


class DecisionEvent(msgspec.Struct, gc=False):
    """The event: CloudEvents' attributes by their names. ``id`` is given to it when it is written.

    Attributes:
        sampledrate: of how many decisions one is an event, where a rule says that (an extension).
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


def decision_event(decided: DecidedAction, principal: str, source: str, one_in: int) -> DecisionEvent:
    """The event of one decision, whose reason is looked for now; ``principal`` is the asker, as text."""
    context, action, decision = decided.context, decided.action, decided.decision()
    pattern = action.resource_pattern
    at, offset = datetime.fromtimestamp(decided.decided_s, UTC), decided.state.end_offset
    caller: str | UnsetType = UNSET
    caller_host: str | UnsetType = UNSET
    request_id: str | UnsetType = UNSET
    if isinstance(context, HttpRequestContext):
        request, caller, caller_host = context.request_name, str(context.caller), context.caller_address
        if context.request_id is not None:
            request_id = context.request_id
    else:
        request = api_key_name(context.request_type)
    return DecisionEvent(
        "1.0",
        "",
        source,
        EVENT_TYPE,
        at,
        principal,
        "application/json",
        one_in if one_in > 1 else UNSET,
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
            UNSET if (cluster := decided.state.settings.cluster) is None else cluster,
            1,
            at,
            offset,
        ),
    )


def encode_event(event: DecisionEvent) -> bytes:
    """One line of JSON, without its end."""
    try:
        return _encode(event)
    except UnicodeEncodeError:  # half a surrogate pair, which no codec but UTF-16 has
        return json.dumps(msgspec.to_builtins(event), separators=(",", ":")).encode("ascii")


_encode: Final = msgspec.json.Encoder().encode


@lru_cache(maxsize=4096)  # a few ACLs decide most of what is asked
def _acl(acl: AppliedAcl) -> dict[str, str]:
    return acl_json(acl.record)
