"""KIP-430: which of a resource type's operations a principal may do to one resource.

Source: AuthHelper.authorizedOperations; the operations are AclEntry.supportedOperations of the release
(kafka_version). Each operation is authorized with both audit flags off: no access is granted or asked for, so
the audit log has it at TRACE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.api.authorizer_api import Action, AuthorizationResult
from records.acl import PatternType, ResourcePattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from authorizer.api.authorizer_api import AuthorizableRequestContext
    from records.acl import AclOperation, ResourceType


def authorized_operations(
    authorize: Callable[[AuthorizableRequestContext, Sequence[Action]], list[AuthorizationResult]],
    context: AuthorizableRequestContext,
    resource_type: ResourceType,
    name: str,
    operations: Sequence[AclOperation],
) -> tuple[AclOperation, ...]:
    """Those of ``operations`` that are allowed, in their order; ``authorize``: an Authorizer's.

    Raises:
        AuthorizerNotReadyError: not loaded, and the principal is not a super user.
    """
    pattern = ResourcePattern(resource_type, name, PatternType.LITERAL)
    actions = [Action(each, pattern, log_if_allowed=False, log_if_denied=False) for each in operations]
    results = authorize(context, actions)
    return tuple(
        operation
        for operation, result in zip(operations, results, strict=True)
        if result is AuthorizationResult.ALLOWED
    )


def to_bit_field(operations: Iterable[AclOperation]) -> int:
    """As the protocol carries them: bit c is the operation with code c (Utils.to32BitField)."""
    return sum(1 << operation for operation in set(operations))
