"""Fix: the flags of kafka-acls that turn a denial into an ALLOW; ``aclog acls`` takes the same flags.

The caller chooses one of the two commands, and names the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.engine.decisions.rules import allows
from authorizer.engine.index.pattern_keys import has_unknown_code
from records.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, AclOperation, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext
    from records.columns.acl_table import AppliedAcl
    from records.entries import AccessControlEntryRecord

_NAME_FLAGS: Final = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}


def fix_flags(
    context: AuthorizableRequestContext, action: Action, matching: Sequence[AppliedAcl]
) -> tuple[tuple[str, ...], ...]:
    """Return the arguments of each command: remove each matching DENY; add an ALLOW if none matches yet.

    Empty if kafka-acls cannot express one: a resource type, operation or permission without a name, or an
    operation that the resource type does not have.
    """
    pattern, operation = action.resource_pattern, action.operation
    denials = [acl.record for acl in matching if not allows(acl.record)]
    flags = _resource_flags(pattern.resource_type, pattern.name)
    if flags is None or not _has_operation(pattern.resource_type, operation):
        return ()
    commands: list[tuple[str, ...]] = []
    for record in dict.fromkeys(denials):
        removal = removal_flags(record)
        if removal is None:
            return ()
        commands.append(removal)
    if len(denials) == len(matching):
        principal = str(context.principal)
        commands.append(("--add", "--allow-principal", principal, "--operation", operation.title, *flags))
    return tuple(commands)


def removal_flags(record: AccessControlEntryRecord) -> tuple[str, ...] | None:
    """Return the arguments that remove an ACL; None for one that kafka-acls cannot express."""
    flags = change_flags(record)
    return None if flags is None else ("--remove", *flags, "--force")


def change_flags(record: AccessControlEntryRecord) -> tuple[str, ...] | None:
    """Return the arguments that describe one ACL; None for one that kafka-acls cannot express."""
    kind, operation = ResourceType.from_code(record.resource_type), AclOperation.from_code(record.operation)
    flags = _resource_flags(kind, record.resource_name)
    if (
        flags is None
        or has_unknown_code(record)
        or not _has_operation(kind, operation)
        or ":" not in record.principal
    ):
        return None
    if record.pattern_type == PatternType.PREFIXED:
        flags = [*flags, "--resource-pattern-type", "prefixed"]
    permission = "allow" if allows(record) else "deny"
    entry = [f"--{permission}-principal", record.principal, f"--{permission}-host", record.host]
    return (*entry, "--operation", operation.title, *flags)


def _has_operation(resource_type: ResourceType, operation: AclOperation) -> bool:
    return operation in (AclOperation.ALL, *SUPPORTED_OPERATIONS[resource_type])


def _resource_flags(resource_type: ResourceType, name: str) -> list[str] | None:
    if resource_type is ResourceType.CLUSTER:
        return ["--cluster"] if name == CLUSTER_NAME else None
    flag = _NAME_FLAGS.get(resource_type)
    return None if flag is None else [flag, name]
