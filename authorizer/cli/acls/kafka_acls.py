"""What kafka-acls means by its flags, and how it prints: no I/O.

Source: org.apache.kafka.tools.AclCommand 4.3.1; messages and texts are Kafka's to the letter, and a test runs
both side by side. Rules of this file:

- One difference in what is accepted: an operation may also be written as on the wire (``DESCRIBE_CONFIGS``).
- Two differences in what is printed: control characters in names are escaped, for a name from a log could
  otherwise forge lines; and an operation that is refused is named.
- Kafka prints in the order of a Java HashMap; here everything is sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import click

from authorizer.cli.rendering.output import shown
from records.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from records.principal import parse_kafka_principal

Entries = tuple[AccessControlEntry, ...]

_CLUSTER: Final = ResourcePatternFilter(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
# String.trim() of Java: everything up to and including the space.
_JAVA_SPACE: Final = "".join(map(chr, range(0x21)))


class ThrownError(click.UsageError):
    """Wrong usage that AclCommand does not look for: classes of Kafka's throw when they meet it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsFlags:
    """The flags of one kafka-acls command line, as given; a repeatable flag not given is empty."""

    add: bool = False
    remove: bool = False
    list: bool = False
    topic: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    cluster: bool = False
    transactional_id: tuple[str, ...] = ()
    delegation_token: tuple[str, ...] = ()
    user_principal: tuple[str, ...] = ()
    resource_pattern_type: PatternType = PatternType.LITERAL
    allow_principal: tuple[str, ...] = ()
    deny_principal: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    deny_host: tuple[str, ...] = ()
    operation: tuple[str, ...] = ()
    principal: tuple[str, ...] = ()
    producer: bool = False
    consumer: bool = False
    idempotent: bool = False

    def check(self) -> None:
        """AclCommandOptions.checkArgs: click.UsageError with Kafka's message."""
        if self.add + self.remove + self.list != 1:
            raise click.UsageError("Command must include exactly one action: --list, --add, --remove. ")
        if self.list:
            self._refuse(
                "list", "producer", "consumer", "allow_host", "allow_principal", "deny_host", "deny_principal"
            )
        for shortcut in ("producer", "consumer"):
            if getattr(self, shortcut):
                self._refuse(shortcut, "operation", "deny_principal", "deny_host")
        if self.principal and not self.list:
            raise click.UsageError("The --principal option is only available if --list is set")
        if self.producer and not self.topic:
            raise click.UsageError("With --producer you must specify a --topic")
        if self.idempotent and not self.producer:
            raise click.UsageError("The --idempotent option is only available if --producer is set")
        alone = self.consumer and not self.producer
        if self.consumer and (
            not self.topic or not self.group or (alone and (self.cluster or self.transactional_id))
        ):
            raise click.UsageError(
                "With --consumer you must specify a --topic and a --group and no --cluster or "
                "--transactional-id option should be specified."
            )

    def _refuse(self, given: str, *others: str) -> None:
        for other in others:
            if getattr(self, other):
                raise click.UsageError(
                    f'Option "[{given}]" can\'t be used with option "[{other.replace("_", "-")}]"'
                )

    def resource_filters(self) -> tuple[ResourcePatternFilter, ...]:
        """Which resources are named; none means every one (--list) or is an error (the others)."""
        pattern_type = self.resource_pattern_type
        named = (
            (ResourceType.TOPIC, map(_trim, self.topic)),
            (ResourceType.GROUP, map(_trim, self.group)),
            # Kafka does not trim this one.
            (ResourceType.TRANSACTIONAL_ID, self.transactional_id),
            (ResourceType.DELEGATION_TOKEN, map(_trim, self.delegation_token)),
            (ResourceType.USER, map(_trim, self.user_principal)),
        )
        filters = [
            ResourcePatternFilter(resource_type, name, pattern_type)
            for resource_type, names in named
            for name in names
        ]
        if pattern_type is PatternType.LITERAL and (self.cluster or self.idempotent):
            filters.append(_CLUSTER)
        return tuple(dict.fromkeys(filters))

    def principals_listed(self) -> tuple[str, ...]:
        """--list: whose ACLs; none means everyone's."""
        return _principals(self.principal)

    def bindings_to_add(self) -> dict[ResourcePattern, Entries]:
        """--add: the ACLs of each resource."""
        if self.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise click.UsageError(
                f"A '--resource-pattern-type' value of '{self.resource_pattern_type.name}' is not valid when "
                "adding acls."
            )
        entries = self.entries_by_resource()
        if not all(entries.values()):
            raise click.UsageError(
                "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
            )
        return {
            ResourcePattern(where.resource_type, where.name or "", where.pattern_type): group
            for where, group in entries.items()
        }

    def entries_by_resource(self) -> dict[ResourcePatternFilter, Entries]:
        """--add and --remove: which entries of which resources; no entries at all means every one."""
        if not self.producer and not self.consumer:
            operations = tuple(AclOperation.from_name(_trim(name)) for name in self.operation)
            entries = self._entries(*(operations or (AclOperation.ALL,)))
            found = dict.fromkeys(self._resources(), entries)
        else:
            found = {}
        if self.producer:
            found |= self._producer()
        if self.consumer:
            for where, entries in self._consumer().items():
                found[where] = _merged(found.get(where, ()), entries)
        _check_operations(found, self.operation)
        return found

    def _resources(self) -> tuple[ResourcePatternFilter, ...]:
        filters = self.resource_filters()
        if not filters:
            raise click.UsageError(
                "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
                "--delegation-token <Delegation Token ID>"
            )
        return filters

    def _producer(self) -> dict[ResourcePatternFilter, Entries]:
        on = {
            ResourceType.TOPIC: self._entries(AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
            ResourceType.TRANSACTIONAL_ID: self._entries(AclOperation.WRITE, AclOperation.DESCRIBE),
        }
        found = {where: on[where.resource_type] for where in self._resources() if where.resource_type in on}
        if self.idempotent:
            # On the cluster, whatever the pattern type is.
            found[_CLUSTER] = self._entries(AclOperation.IDEMPOTENT_WRITE)
        return found

    def _consumer(self) -> dict[ResourcePatternFilter, Entries]:
        on = {
            ResourceType.TOPIC: self._entries(AclOperation.READ, AclOperation.DESCRIBE),
            ResourceType.GROUP: self._entries(AclOperation.READ),
        }
        return {where: on[where.resource_type] for where in self._resources() if where.resource_type in on}

    def _entries(self, *operations: AclOperation) -> Entries:
        if AclOperation.ANY in operations and (self.allow_principal or self.deny_principal):
            # The constructor of Kafka's AccessControlEntry does.
            raise ThrownError("operation must not be ANY")
        sides = (
            (AclPermissionType.ALLOW, self.allow_principal, self.allow_host),
            (AclPermissionType.DENY, self.deny_principal, self.deny_host),
        )
        return _merged(
            AccessControlEntry(principal, host, operation, permission)
            for permission, principals, hosts in sides
            for principal in _principals(principals)
            for host in (map(_trim, hosts) if hosts else (WILDCARD,))
            for operation in operations
        )


def _trim(text: str) -> str:
    return text.strip(_JAVA_SPACE)


def _principals(given: Iterable[str]) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(str(parse_kafka_principal(_trim(text))) for text in given))
    except ValueError as error:
        raise ThrownError(str(error)) from error


def _merged(*groups: Iterable[AccessControlEntry]) -> Entries:
    return tuple(sorted({entry for group in groups for entry in group}, key=_entry_order))


def _entry_order(entry: AccessControlEntry) -> tuple[str, str, int, int]:
    return entry.principal, entry.host, int(entry.operation), int(entry.permission_type)


def _check_operations(found: Mapping[ResourcePatternFilter, Entries], given: Iterable[str]) -> None:
    # kafka-acls is stricter here than the controller, which takes any operation on any resource type.
    for where, entries in found.items():
        valid = (AclOperation.ALL, *SUPPORTED_OPERATIONS.get(where.resource_type, ()))
        if any(entry.operation not in valid for entry in entries):
            names = ", ".join(operation.name for operation in valid)
            refused = [shown(name) for name in given if AclOperation.from_name(_trim(name)) not in valid]
            raise click.UsageError(
                f"ResourceType {where.resource_type.name} only supports operations [{names}], "
                f"not {', '.join(refused)}"
            )


def adding(pattern: ResourcePattern, entries: Entries) -> str:
    """``--add``: what is being added to one resource."""
    return f"Adding ACLs for resource `{shown(str(pattern))}`: \n {_tabbed(entries)}\n\n"


def already_there(binding: AclBinding) -> str:
    """``--add``: an ACL that needs no adding."""
    return f"Acl {shown(str(binding))} already exists.\n"


def confirmation(where: ResourcePatternFilter, entries: Entries) -> str:
    """``--remove``: the question asked before."""
    if not entries:
        return f"Are you sure you want to delete all ACLs for resource filter `{shown(str(where))}`? (y/n)\n"
    return (
        f"Are you sure you want to remove ACLs: \n {_tabbed(entries)}\n "
        f"from resource filter `{shown(str(where))}`? (y/n)\n"
    )


def _tabbed(entries: Entries) -> str:
    return "\n".join(f"\t{shown(str(entry))}" for entry in entries)
