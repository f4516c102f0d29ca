"""AuthZEN's JSON, read into Kafka's terms. Pure: no state, no sockets.

Source: AuthZEN Authorization API 1.0; the mapping:

    subject   {"type": principal type ("User"; case matters), "id": name}
    resource  {"type": TOPIC | GROUP | CLUSTER | ... (any case), "id": name}
    action    {"name": an AclOperation (any case)}
    context   {"host": the client's IP address, "explain", "log_if_allowed", "log_if_denied",
               "min_offset", "at_offset"}

A vocabulary may have other names for types and operations.
Unknown fields are ignored, as the specification asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from authorizer.api.authorizer_api import Action, HttpRequestContext
from authorizer.api.http.answers.decisions import OperationName, TypedName
from authorizer.sidecar.http.errors import HttpError, invalid_request
from authorizer.sidecar.routes.query_requests import Offset
from records.acl import PatternType, ResourcePattern
from records.principal import KafkaPrincipal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.sidecar.auth.caller_authorization import Caller
    from authorizer.sidecar.routes.authzen_aliases import AuthzenAliases

# Looked up once, not for each evaluation.
_LITERAL: Final = PatternType.LITERAL

Semantic = Literal["execute_all", "deny_on_first_deny", "permit_on_first_permit"]


class Context(msgspec.Struct, gc=False):
    """The client's host, options of the answer and of the audit log, and the state to decide on."""

    host: str | None = None
    explain: bool = False
    log_if_allowed: bool = True
    log_if_denied: bool = True
    min_offset: Offset | None = None
    at_offset: Offset | None = None
    as_of: int | str | None = None


_NO_CONTEXT: Final = Context()


class Evaluation(msgspec.Struct, gc=False):
    """One evaluation; in a batch, missing parts come from the request's defaults."""

    subject: TypedName | None = None
    action: OperationName | None = None
    resource: TypedName | None = None
    context: Context | None = None


class Options(msgspec.Struct, gc=False):
    """Options of a batch."""

    evaluations_semantic: Semantic = "execute_all"


class EvaluationsRequest(Evaluation, gc=False):
    """A batch; without evaluations it is a single evaluation."""

    evaluations: list[Evaluation] | None = None
    options: Options | None = None


def with_defaults(batch: Sequence[Evaluation], defaults: Evaluation) -> Sequence[Evaluation]:
    """The batch with absent parts taken from ``defaults``; a part that is present replaces the whole."""
    parts = defaults.subject, defaults.action, defaults.resource, defaults.context
    if not any(parts):
        return batch
    subject, action, resource, context = parts
    return [
        Evaluation(
            item.subject or subject, item.action or action, item.resource or resource, item.context or context
        )
        for item in batch
    ]


def context_of(evaluation: Evaluation, aliases: AuthzenAliases, caller: Caller) -> HttpRequestContext:
    """The principal and its address, in Kafka's terms. HttpError 400 names the missing or invalid field."""
    subject, context, origin = evaluation.subject, evaluation.context, caller.origin
    if subject is None:
        raise _missing_error(evaluation)
    return HttpRequestContext(
        KafkaPrincipal(aliases.subjects.get(subject.type, subject.type), subject.id),
        aliases.addresses[context.host if context else None],
        request_name=caller.request_name,
        caller=origin.principal,
        caller_address=origin.address,
        request_id=origin.request_id,
    )


def action_of(evaluation: Evaluation, aliases: AuthzenAliases) -> Action:
    """The operation and the resource, in Kafka's terms; raises as ``context_of``."""
    action, resource = evaluation.action, evaluation.resource
    if evaluation.subject is None or action is None or resource is None:
        raise _missing_error(evaluation)
    context = evaluation.context or _NO_CONTEXT
    if context.as_of is not None:
        require_no_as_of(context)
    return Action(
        aliases.actions[action.name],
        ResourcePattern(aliases.resources[resource.type], resource.id, _LITERAL),
        1,
        context.log_if_allowed,
        context.log_if_denied,
    )


def _missing_error(evaluation: Evaluation) -> HttpError:
    missing = [name for name in ("subject", "action", "resource") if getattr(evaluation, name) is None]
    return invalid_request(f"the request has no {' and no '.join(missing)}")


def require_no_as_of(context: Context) -> None:
    """HttpError 400 for a request about the past: an answer about the present would be wrong."""
    if context.as_of is not None:
        raise invalid_request(
            "context.as_of is not supported here: context.at_offset names a state that the node holds, and "
            "`aclog check --at-offset` asks any of the log"
        )
