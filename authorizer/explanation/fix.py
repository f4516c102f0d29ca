"""What would turn a denial into an ALLOW: flags of kafka-acls, which ``aclog acls`` takes as well.

The caller chooses between the two, and names the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.decisions.reason import allows
from authorizer.index.places import is_odd
from records.acl import SUPPORTED_OPERATIONS, AclOperation, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.api import Action, AuthorizableRequestContext
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
    """The words of each command: remove each DENY that matches; add an ALLOW if none matches yet.

    None at all for what kafka-acls cannot say: a resource type, operation or permission without a name, or an
    operation that the resource type does not have.
    """
    pattern, operation = action.resource_pattern, action.operation
    denials = [acl.record for acl in matching if not allows(acl.record)]
    flags = _resource_flags(pattern.resource_type, pattern.name)
    if flags is None or any(map(is_odd, denials)):
        return ()
    # A DENY that matches is of this operation or of all.
    if operation not in (AclOperation.ALL, *SUPPORTED_OPERATIONS[pattern.resource_type]):
        return ()
    commands = [_removal(record) for record in dict.fromkeys(denials)]
    if len(denials) == len(matching):
        principal = str(context.principal)
        words = ["--add", "--allow-principal", principal, "--operation", operation.title, *flags]
        commands.append(tuple(words))
    return tuple(commands)


def _removal(record: AccessControlEntryRecord) -> tuple[str, ...]:
    flags = _resource_flags(ResourceType.from_code(record.resource_type), record.resource_name) or []
    if record.pattern_type == PatternType.PREFIXED:
        flags = [*flags, "--resource-pattern-type", "prefixed"]
    operation = AclOperation.from_code(record.operation).title
    who = ["--deny-principal", record.principal, "--deny-host", record.host, "--operation", operation]
    return ("--remove", *who, *flags, "--force")


def _resource_flags(resource_type: ResourceType, name: str) -> list[str] | None:
    if resource_type is ResourceType.CLUSTER:
        return ["--cluster"]
    flag = _NAME_FLAGS.get(resource_type)
    return None if flag is None else [flag, name]
