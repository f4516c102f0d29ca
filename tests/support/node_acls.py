"""ACLs, filters and a caller for tests of whole nodes."""

from __future__ import annotations

from collections.abc import Iterable

from authorizer.api import Action, AuthorizationResult, Authorizer, RequestContext
from records.acl import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from records.principal import KafkaPrincipal

ANY_ACL = AclBindingFilter()
CONTEXT = RequestContext(KafkaPrincipal("User", "a"), "10.0.0.1")


def topic_acl(
    name: str,
    *,
    operation: AclOperation = AclOperation.READ,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    """User:a may (or may not) do this to the topic."""
    return AclBinding(
        ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL),
        AccessControlEntry("User:a", "*", operation, permission),
    )


def named(name: str) -> AclBindingFilter:
    """Everything on the resources of that name."""
    return AclBindingFilter(ResourcePatternFilter(name=name))


def may(authorizer: Authorizer, name: str, operation: AclOperation = AclOperation.READ) -> bool:
    """Whether CONTEXT's principal may do this to the topic."""
    pattern = ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL)
    (result,) = authorizer.authorize(CONTEXT, [Action(operation, pattern)])
    return result is AuthorizationResult.ALLOWED


def names(bindings: Iterable[AclBinding]) -> set[str]:
    """The resource names."""
    return {binding.pattern.name for binding in bindings}
