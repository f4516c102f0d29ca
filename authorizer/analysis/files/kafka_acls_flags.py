"""Command lines of kafka-acls: their flags, and the resulting ACLs.

Source: org.apache.kafka.tools.AclCommand 4.3.1; messages are exactly Kafka's, and a test compares both.
Rules of this file:

- More is accepted: an operation may also be written as on the wire (``DESCRIBE_CONFIGS``).
- One message has more: it names a refused operation.
- Kafka returns ACLs in the order of a Java HashMap; here they are sorted.
- Arguments are split as joptsimple does: ``-topic t`` and ``--topic=t`` are ``--topic t``, and arguments that
  belong to no flag are ignored (``--cluster kafka-cluster``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Final

from authorizer.api.control_characters import ESCAPED
from records.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AccessControlEntry,
    AccessControlEntryFilter,
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


class KafkaAclsUsageError(ValueError):
    """Wrong usage of kafka-acls; the message is Kafka's."""


class ThrownError(KafkaAclsUsageError):
    """Wrong usage that AclCommand does not check: other classes of Kafka throw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsFlags:
    """The flags of one kafka-acls command line; a repeatable flag without a value is empty."""

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
        """Raise KafkaAclsUsageError with Kafka's message, as AclCommandOptions.checkArgs."""
        if self.add + self.remove + self.list != 1:
            raise KafkaAclsUsageError("Command must include exactly one action: --list, --add, --remove. ")
        if self.list:
            self._refuse(
                "list", "producer", "consumer", "allow_host", "allow_principal", "deny_host", "deny_principal"
            )
        for shortcut in ("producer", "consumer"):
            if getattr(self, shortcut):
                self._refuse(shortcut, "operation", "deny_principal", "deny_host")
        if self.principal and not self.list:
            raise KafkaAclsUsageError("The --principal option is only available if --list is set")
        if self.producer and not self.topic:
            raise KafkaAclsUsageError("With --producer you must specify a --topic")
        if self.idempotent and not self.producer:
            raise KafkaAclsUsageError("The --idempotent option is only available if --producer is set")
        is_consumer_only = self.consumer and not self.producer
        if self.consumer and (
            not self.topic or not self.group or (is_consumer_only and (self.cluster or self.transactional_id))
        ):
            raise KafkaAclsUsageError(
                "With --consumer you must specify a --topic and a --group and no --cluster or "
                "--transactional-id option should be specified."
            )

    def _refuse(self, flag: str, *conflicting: str) -> None:
        for other in conflicting:
            if getattr(self, other):
                raise KafkaAclsUsageError(
                    f'Option "[{flag}]" can\'t be used with option "[{other.replace("_", "-")}]"'
                )

    def resource_filters(self) -> tuple[ResourcePatternFilter, ...]:
        """Return the named resources; none means all for --list, and is an error for --add and --remove."""
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
        """Return the principals of --list; none means all."""
        return _principals(self.principal)

    def bindings_to_add(self) -> dict[ResourcePattern, Entries]:
        if self.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise KafkaAclsUsageError(
                f"A '--resource-pattern-type' value of '{self.resource_pattern_type.name}' is not valid when "
                "adding acls."
            )
        entries = self.entries_by_resource()
        if not all(entries.values()):
            raise KafkaAclsUsageError(
                "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
            )
        return {
            ResourcePattern(pattern.resource_type, pattern.name or "", pattern.pattern_type): group
            for pattern, group in entries.items()
        }

    def entries_by_resource(self) -> dict[ResourcePatternFilter, Entries]:
        """Return the entries of each resource for --add and --remove; no entries mean all."""
        if not self.producer and not self.consumer:
            operations = tuple(AclOperation.from_name(_trim(name)) for name in self.operation)
            entries = self._entries(*(operations or (AclOperation.ALL,)))
            found = dict.fromkeys(self._resources(), entries)
        else:
            found = {}
        if self.producer:
            found |= self._producer()
        if self.consumer:
            for pattern, entries in self._consumer().items():
                found[pattern] = _merged(found.get(pattern, ()), entries)
        _check_operations(found, self.operation)
        return found

    def _resources(self) -> tuple[ResourcePatternFilter, ...]:
        filters = self.resource_filters()
        if not filters:
            raise KafkaAclsUsageError(
                "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
                "--delegation-token <Delegation Token ID>"
            )
        return filters

    def _producer(self) -> dict[ResourcePatternFilter, Entries]:
        entries_by_type = {
            ResourceType.TOPIC: self._entries(AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
            ResourceType.TRANSACTIONAL_ID: self._entries(AclOperation.WRITE, AclOperation.DESCRIBE),
        }
        found = {
            pattern: entries_by_type[pattern.resource_type]
            for pattern in self._resources()
            if pattern.resource_type in entries_by_type
        }
        if self.idempotent:
            # On the cluster, whatever the pattern type is.
            found[_CLUSTER] = self._entries(AclOperation.IDEMPOTENT_WRITE)
        return found

    def _consumer(self) -> dict[ResourcePatternFilter, Entries]:
        entries_by_type = {
            ResourceType.TOPIC: self._entries(AclOperation.READ, AclOperation.DESCRIBE),
            ResourceType.GROUP: self._entries(AclOperation.READ),
        }
        return {
            pattern: entries_by_type[pattern.resource_type]
            for pattern in self._resources()
            if pattern.resource_type in entries_by_type
        }

    def _entries(self, *operations: AclOperation) -> Entries:
        if AclOperation.ANY in operations and (self.allow_principal or self.deny_principal):
            # Kafka throws in the constructor of AccessControlEntry.
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


def _principals(texts: Iterable[str]) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(str(parse_kafka_principal(_trim(text))) for text in texts))
    except ValueError as error:
        raise ThrownError(str(error)) from error


def _merged(*groups: Iterable[AccessControlEntry]) -> Entries:
    return tuple(sorted({entry for group in groups for entry in group}, key=_entry_order))


def _entry_order(entry: AccessControlEntry) -> tuple[str, str, int, int]:
    return entry.principal, entry.host, int(entry.operation), int(entry.permission_type)


def _check_operations(found: Mapping[ResourcePatternFilter, Entries], texts: Iterable[str]) -> None:
    # kafka-acls is stricter than the controller, which accepts any operation on any resource type.
    for pattern, entries in found.items():
        valid = (AclOperation.ALL, *SUPPORTED_OPERATIONS.get(pattern.resource_type, ()))
        if any(entry.operation not in valid for entry in entries):
            names = ", ".join(operation.name for operation in valid)
            refused = [
                name.translate(ESCAPED) for name in texts if AclOperation.from_name(_trim(name)) not in valid
            ]
            raise KafkaAclsUsageError(
                f"ResourceType {pattern.resource_type.name} only supports operations [{names}], "
                f"not {', '.join(refused)}"
            )


def exactly(entry: AccessControlEntry) -> AccessControlEntryFilter:
    """Return the filter that matches only this entry."""
    return AccessControlEntryFilter(entry.principal, entry.host, entry.operation, entry.permission_type)


BOOTSTRAP_FLAGS: Final = ("bootstrap-server", "bootstrap-controller")
COMMAND_CONFIG: Final = "command-config"
_PATTERN_TYPE: Final = "resource-pattern-type"


class _Values(Enum):
    """Whether a flag has a value."""

    NOTHING = "nothing"
    VALUE = "a value"
    PERHAPS = "perhaps a value"


#: The fields of AclsFlags with their flags.
_ACLS_FLAGS: Final = tuple(
    (field.name, field.name.replace("_", "-"), _Values.NOTHING if field.default is False else _Values.VALUE)
    for field in fields(AclsFlags)
    if field.name != "resource_pattern_type"
)
#: Every flag of AclCommandOptions.
VALUES_BY_FLAG: Final = {
    **{flag: takes for _, flag, takes in _ACLS_FLAGS},
    **dict.fromkeys((_PATTERN_TYPE, *BOOTSTRAP_FLAGS), _Values.VALUE),
    **dict.fromkeys(("force", "help", "version"), _Values.NOTHING),
    COMMAND_CONFIG: _Values.PERHAPS,
}


def flags_of(args: Sequence[str]) -> AclsFlags:
    """Parse and check a command line with --add, --remove or --list. KafkaAclsUsageError as kafka-acls."""
    values_by_flag = parse_arguments(args)
    return with_pattern_type(checked_flags(values_by_flag), values_by_flag)


def checked_flags(values_by_flag: dict[str, list[str]]) -> AclsFlags:
    """Create and check the flags. KafkaAclsUsageError: wrong usage."""
    values: dict[str, Any] = {
        name: True if takes is _Values.NOTHING else tuple(values_by_flag[flag])
        for name, flag, takes in _ACLS_FLAGS
        if flag in values_by_flag
    }
    flags = AclsFlags(**values)
    flags.check()
    return flags


def with_pattern_type(flags: AclsFlags, values_by_flag: dict[str, list[str]]) -> AclsFlags:
    """Set the pattern type. ThrownError: its name is unknown."""
    text = single_value(values_by_flag, _PATTERN_TYPE)
    if text is None:
        return flags
    pattern_type = PatternType.from_name(text)
    if pattern_type.is_unknown:
        raise ThrownError(f"Cannot parse argument '{text}' of option {_PATTERN_TYPE}")
    return replace(flags, resource_pattern_type=pattern_type)


def single_value(values_by_flag: dict[str, list[str]], flag: str) -> str | None:
    """Return the value of a flag that may occur once, as OptionSet.valueOf."""
    values = values_by_flag.get(flag, [])
    if len(values) > 1:
        raise ThrownError(f"Found multiple arguments for option {flag}, but you asked for only one")
    return values[0] if values else None


def parse_arguments(args: Sequence[str]) -> dict[str, list[str]]:
    """Return the flags with their values, as joptsimple.OptionParser without abbreviations."""
    values_by_flag: dict[str, list[str]] = {}
    rest = list(args)
    while rest and (argument := rest.pop(0)) != "--":
        if not _is_flag(argument):
            continue
        is_long = argument.startswith("--")
        flag, _, value = argument.removeprefix("--" if is_long else "-").partition("=")
        takes = VALUES_BY_FLAG.get(flag)
        if takes is None:
            # joptsimple names the first letter of combined short flags.
            raise KafkaAclsUsageError(f"{flag if is_long else flag[:1]} is not a recognized option")
        values = values_by_flag.setdefault(flag, [])
        if takes is _Values.NOTHING:
            continue
        if not value and rest and (takes is _Values.VALUE or not _is_flag(rest[0])):
            value = rest.pop(0)
        elif not value and takes is _Values.VALUE:
            raise KafkaAclsUsageError(f"Option {flag} requires an argument")
        if value or takes is _Values.VALUE:
            values.append(value)
    return values_by_flag


def _is_flag(argument: str) -> bool:
    return argument.startswith("-") and argument not in ("-", "--")
