"""SidecarAuthorizer: answers the queries of a batch through a sidecar."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeVar

from authorizer.api.authorizer_api import AuthorizationResult
from authorizer.api.errors import SidecarError, SidecarRequestError
from authorizer.client import AuthorizationRequest, calls
from authorizer.engine.decisions.decision import Decision
from authorizer.engine.decisions.rules import Rule, require_literal
from records.acl import AclOperation
from records.columns.acl_table import AppliedAcl
from records.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext
    from authorizer.client import Client
    from authorizer.client.messages import Decision as Answer
    from authorizer.engine.decisions.state import AuthorizerState
    from records.acl import AclBinding, AclBindingFilter, ResourceType

_T = TypeVar("_T")


class SidecarAuthorizer:
    """Implements batch_query.BatchAuthorizer, on one state of a sidecar.

    Each call raises DecodeError for a query that the sidecar refuses or cannot answer. Other SidecarErrors
    are not about the query.
    """

    def __init__(self, client: Client, at_offset: int | None) -> None:
        """``at_offset``: answer on the state after this record; None for the newest state."""
        self._client = client
        self._at_offset = at_offset
        self._answers: dict[AuthorizationRequest, Answer | SidecarError] = {}

    @property
    def state(self) -> AuthorizerState:
        raise DecodeError(
            "a sidecar answers without the line of its audit log: remove `audit` from the query"
        )

    def prefetch(self, requests: Iterable[tuple[AuthorizableRequestContext, Action]]) -> None:
        """Get decisions that ``decide`` will need, many in one call."""
        sent = [_request(context, action) for context, action in requests]
        for start in range(0, len(sent), calls.REQUESTS_MAXIMUM):
            part = sent[start : start + calls.REQUESTS_MAXIMUM]
            answers = self._client.ask(calls.decisions(part, at_offset=self._at_offset))
            self._answers.update(zip(part, answers, strict=True))

    def decide(self, context: AuthorizableRequestContext, action: Action) -> Decision:
        require_literal(action)
        request = _request(context, action)
        if request not in self._answers:
            self.prefetch([(context, action)])
        answer = self._answers[request]
        if isinstance(answer, SidecarError):
            _refuse(answer)
        acl = None if answer.acl is None else AppliedAcl(answer.acl.record(), None, 0)
        result = AuthorizationResult.ALLOWED if answer.is_allowed else AuthorizationResult.DENIED
        return Decision(result, Rule(answer.rule), acl)

    def authorized_operations(
        self, context: AuthorizableRequestContext, resource_type: ResourceType, name: str
    ) -> tuple[AclOperation, ...]:
        call = calls.authorized_operations(
            context.principal, resource_type, name, host=context.client_address, at_offset=self._at_offset
        )
        return tuple(AclOperation[each] for each in self._ask(call).operations)

    def authorize_by_resource_type(
        self, context: AuthorizableRequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> AuthorizationResult:
        call = calls.by_resource_type(
            context.principal,
            operation,
            resource_type,
            host=context.client_address,
            at_offset=self._at_offset,
        )
        return AuthorizationResult(self._ask(call).result)

    def acls(self, acl_filter: AclBindingFilter) -> Iterator[AclBinding]:
        listing = self._ask(calls.listing(acl_filter, at_offset=self._at_offset))
        # An ACL with two ids (I8) is one binding.
        return iter(dict.fromkeys(acl.record().binding() for acl in listing.acls))

    def acl_count(self) -> int:
        if self._at_offset is None:
            return self._client.ask(calls.state()).acl_count
        return len(self._client.ask(calls.listing(at_offset=self._at_offset)).acls)

    def _ask(self, call: calls.Call[_T]) -> _T:
        try:
            return self._client.ask(call)
        except SidecarRequestError as error:
            _refuse(error)


def _request(context: AuthorizableRequestContext, action: Action) -> AuthorizationRequest:
    pattern = action.resource_pattern
    return AuthorizationRequest(
        context.principal,
        action.operation,
        pattern.resource_type,
        pattern.name,
        context.client_address,
        action.log_if_allowed,
        action.log_if_denied,
        explain=True,
    )


def _refuse(error: SidecarError) -> NoReturn:
    """Raise DecodeError for a wrong query, which fails its line only; other errors fail the command."""
    if isinstance(error, SidecarRequestError):
        raise DecodeError(str(error)) from error
    raise error
