"""ACLs, filters and a caller for tests of nodes."""

from __future__ import annotations

from collections.abc import Iterable

from authorizer.api.authorizer_api import Action, AuthorizationResult, Authorizer, RequestContext
from authorizer.engine.decisions.state import AuthorizerState
from authorizer.node.node import Node
from records.acl import (
    CLUSTER_NAME,
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
from records.principal import ANONYMOUS, KafkaPrincipal, parse_kafka_principal

ANY_ACL = AclBindingFilter()
CONTEXT = RequestContext(KafkaPrincipal("User", "a"), "10.0.0.1")
#: A host that no ACL of a test names.
ELSEWHERE = "10.9.9.9"


def acl(
    principal: str,
    operation: AclOperation,
    name: str,
    *,
    prefixed: bool = False,
    deny: bool = False,
    host: str = "*",
    kind: ResourceType = ResourceType.TOPIC,
) -> AclBinding:
    """Any ACL."""
    return AclBinding(
        ResourcePattern(kind, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL),
        AccessControlEntry(
            principal, host, operation, AclPermissionType.DENY if deny else AclPermissionType.ALLOW
        ),
    )


def on_cluster(operation: AclOperation) -> AclBinding:
    """An ACL on the cluster for callers on a plaintext listener."""
    return acl(str(ANONYMOUS), operation, CLUSTER_NAME, kind=ResourceType.CLUSTER)


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
    """A filter of all ACLs on the resources of that name."""
    return AclBindingFilter(ResourcePatternFilter(name=name))


def may(authorizer: Authorizer, name: str, operation: AclOperation = AclOperation.READ) -> bool:
    """Whether CONTEXT's principal may do this to the topic."""
    pattern = ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL)
    (result,) = authorizer.authorize(CONTEXT, [Action(operation, pattern)])
    return result is AuthorizationResult.ALLOWED


def is_allowed(
    node: Node,
    principal: str,
    operation: AclOperation,
    name: str,
    host: str = ELSEWHERE,
    state: AuthorizerState | None = None,
) -> bool:
    """Whether a principal may do this to the topic, by the library; by the node's state if None."""
    context = RequestContext(parse_kafka_principal(principal), host)
    action = Action(operation, ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL))
    return node.authorizer.answer(context, action, state).is_allowed


def names(bindings: Iterable[AclBinding]) -> set[str]:
    """The resource names."""
    return {binding.pattern.name for binding in bindings}
