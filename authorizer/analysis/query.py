"""A request of a log, to be decided again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.api.authorizer_api import Action, RequestContext
from records.acl import PatternType, ResourcePattern
from records.principal import parse_kafka_principal

if TYPE_CHECKING:
    from records.request_line import Request


def question_of(request: Request) -> tuple[RequestContext, Action]:
    """The same request."""
    pattern = ResourcePattern(request.resource_type, request.resource_name, PatternType.LITERAL)
    context = RequestContext(parse_kafka_principal(request.principal), request.host)
    return context, Action(request.operation, pattern)
