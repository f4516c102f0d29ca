"""The rules of deciding, in their order: the single definition of a request's answer.

    1. resource      a request must name a LITERAL resource              `require_literal`
    2. super user    a principal of super.users is allowed everything    `is_super_user`
    3. not ready     no other answer before all ACLs are loaded          `require_ready`
    4. ACLs          those that match in every field decide:             `verdict`
                     one DENY denies, else one ALLOW allows
    5. default       if no ACL of any principal covers the resource,     `verdict`
                     allow.everyone.if.no.acl.found decides
    6. otherwise     denied

An ACL matches if each field does:

    principal        the caller's, or User:*                             `acl_principals`
    host             equal, or *; a network from Kafka 4.4 on            `api.ip_address.host_matches`
    resource         the same type, and an equal literal name, the       `index.covers`
                     literal *, or a prefix of the name
    operation        equal, or ALL; an ALLOW also implies others         `covers_operation`

Sources: StandardAuthorizerData.authorize (1-3), findAclRule and findResult (4), DefaultRule (5, 6) in
org.apache.kafka.metadata.authorizer; AclEntry (implied operations); KIP-290 (prefixes), KIP-1276 (networks).

The hot path (`authorize.authorize_actions`) reads rule 4 from precomputed masks (`index.masks`), in which a
deny bit beats each allow bit. tests/property/test_authorizer_rules.py checks that both give one answer.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from authorizer.api.errors import AuthorizerNotReadyError
from records.acl import (
    IMPLIES_DESCRIBE,
    IMPLIES_DESCRIBE_CONFIGS,
    AclOperation,
    AclPermissionType,
    PatternType,
)
from records.principal import WILDCARD_PRINCIPAL, KafkaPrincipal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from authorizer.api.authorizer_api import Action
    from records.entries import AccessControlEntryRecord

# Read once, not for each ACL: a member of an Enum class costs as much as two dict look-ups.
_ALL: Final = AclOperation.ALL
_UNKNOWN: Final = AclOperation.UNKNOWN
_ALLOW: Final = AclPermissionType.ALLOW

_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: IMPLIES_DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS: IMPLIES_DESCRIBE_CONFIGS,
}


class Rule(StrEnum):
    """The rule that decided, by its name in the audit log."""

    SUPER_USER = "SuperUser"
    MATCHING_ACL = "MatchingAcl"
    DEFAULT_ALLOW = "DefaultAllow"
    DEFAULT_DENY = "DefaultDeny"


def require_literal(action: Action) -> None:
    """Rule 1. Raise ValueError with Kafka's message for a resource that is not LITERAL."""
    pattern_type = action.resource_pattern.pattern_type
    if pattern_type is not PatternType.LITERAL:
        raise ValueError(f"Only literal resources are supported. Got: {pattern_type.name}")


def is_super_user(super_names: Mapping[str, frozenset[str]], principal: KafkaPrincipal) -> bool:
    """Rule 2; ``super_names``: the names of the super users by principal type."""
    return principal.name in super_names.get(principal.principal_type, ())


def require_ready(reason: str | None) -> None:
    """Rule 3. Raise AuthorizerNotReadyError, without a message as Kafka's; the reason becomes its note.

    ``reason``: why the ACLs are not complete yet; None: they are.
    """
    if reason is not None:
        error = AuthorizerNotReadyError()
        error.add_note(reason)
        raise error


def verdict(
    matching: Iterable[AccessControlEntryRecord], *, is_covered: bool, allow_everyone: bool
) -> tuple[bool, Rule]:
    """Rules 4 to 6. Return whether the request is allowed, and by which rule.

    ``matching`` match in every field; ``is_covered``: any ACL of any principal covers the resource.
    """
    permissions = [allows(record) for record in matching]
    if permissions:
        return all(permissions), Rule.MATCHING_ACL  # one DENY beats every ALLOW
    if allow_everyone and not is_covered:
        return True, Rule.DEFAULT_ALLOW
    return False, Rule.DEFAULT_DENY


def acl_principals(principal: KafkaPrincipal) -> tuple[str, ...]:
    """Return the principals that a matching ACL can have. An ACL's principal type ends at its first colon."""
    if ":" in principal.principal_type:
        return (WILDCARD_PRINCIPAL,)
    text = str(principal)
    return (text,) if text == WILDCARD_PRINCIPAL else (text, WILDCARD_PRINCIPAL)


def allows(record: AccessControlEntryRecord) -> bool:
    """Return whether the ACL allows; any other permission type denies."""
    return record.permission_type == _ALLOW


def covers_operation(record: AccessControlEntryRecord, operation: AclOperation) -> bool:
    """Return whether the ACL's operation matches. Only an ALLOW implies other operations."""
    code = record.operation
    if code in (_ALL, operation):
        return True
    if operation is _UNKNOWN:
        return AclOperation.from_code(code) is operation
    return allows(record) and code in _IMPLIED_BY.get(operation, ())
