"""Command lines of kafka-acls: their flags, and the ACLs that they mean.

Source: org.apache.kafka.tools.AclCommand 4.3.1; messages and texts are Kafka's to the letter, and a test runs
both side by side. Rules of this file:

- One difference in what is accepted: an operation may also be written as on the wire (``DESCRIBE_CONFIGS``).
- One difference in the messages: an operation that is refused is named.
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
        """AclCommandOptions.checkArgs: KafkaAclsUsageError with Kafka's message."""
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
        alone = self.consumer and not self.producer
        if self.consumer and (
            not self.topic or not self.group or (alone and (self.cluster or self.transactional_id))
        ):
            raise KafkaAclsUsageError(
                "With --consumer you must specify a --topic and a --group and no --cluster or "
                "--transactional-id option should be specified."
            )

    def _refuse(self, given: str, *others: str) -> None:
        for other in others:
            if getattr(self, other):
                raise KafkaAclsUsageError(
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
            raise KafkaAclsUsageError(
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
            refused = [
                name.translate(ESCAPED) for name in given if AclOperation.from_name(_trim(name)) not in valid
            ]
            raise KafkaAclsUsageError(
                f"ResourceType {where.resource_type.name} only supports operations [{names}], "
                f"not {', '.join(refused)}"
            )


def exactly(entry: AccessControlEntry) -> AccessControlEntryFilter:
    """The filter that matches this entry alone."""
    return AccessControlEntryFilter(entry.principal, entry.host, entry.operation, entry.permission_type)


BOOTSTRAP_FLAGS: Final = ("bootstrap-server", "bootstrap-controller")
COMMAND_CONFIG: Final = "command-config"
_PATTERN_TYPE: Final = "resource-pattern-type"


class _Values(Enum):
    """What comes after a flag."""

    NOTHING = "nothing"
    VALUE = "a value"
    PERHAPS = "perhaps a value"


#: The fields of AclsFlags that hold what was given, with their flags.
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
    """What a command line with --add, --remove or --list asks for, wherever it is sent.

    Raises:
        KafkaAclsUsageError: with kafka-acls' own message.
    """
    given = parse_arguments(args)
    return with_pattern_type(checked_flags(given), given)


def checked_flags(given: dict[str, list[str]]) -> AclsFlags:
    """Make and check flags. KafkaAclsUsageError: with the message of kafka-acls."""
    values: dict[str, Any] = {
        name: True if takes is _Values.NOTHING else tuple(given[flag])
        for name, flag, takes in _ACLS_FLAGS
        if flag in given
    }
    flags = AclsFlags(**values)
    flags.check()
    return flags


def with_pattern_type(flags: AclsFlags, given: dict[str, list[str]]) -> AclsFlags:
    """Set the pattern type. ThrownError: it has no such name."""
    text = single_value(given, _PATTERN_TYPE)
    if text is None:
        return flags
    pattern_type = PatternType.from_name(text)
    if pattern_type.is_unknown:
        raise ThrownError(f"Cannot parse argument '{text}' of option {_PATTERN_TYPE}")
    return replace(flags, resource_pattern_type=pattern_type)


def single_value(given: dict[str, list[str]], flag: str) -> str | None:
    """OptionSet.valueOf: the value of a flag that makes sense once."""
    values = given.get(flag, [])
    if len(values) > 1:
        raise ThrownError(f"Found multiple arguments for option {flag}, but you asked for only one")
    return values[0] if values else None


def parse_arguments(args: Sequence[str]) -> dict[str, list[str]]:
    """Flags with their values, as joptsimple.OptionParser finds them, abbreviations not allowed."""
    given: dict[str, list[str]] = {}
    rest = list(args)
    while rest and (argument := rest.pop(0)) != "--":
        if not _looks_like_a_flag(argument):
            continue
        is_long = argument.startswith("--")
        flag, _, value = argument.removeprefix("--" if is_long else "-").partition("=")
        takes = VALUES_BY_FLAG.get(flag)
        if takes is None:
            # joptsimple names the first of letters that are put together.
            raise KafkaAclsUsageError(f"{flag if is_long else flag[:1]} is not a recognized option")
        values = given.setdefault(flag, [])
        if takes is _Values.NOTHING:
            continue
        if not value and rest and (takes is _Values.VALUE or not _looks_like_a_flag(rest[0])):
            value = rest.pop(0)
        elif not value and takes is _Values.VALUE:
            raise KafkaAclsUsageError(f"Option {flag} requires an argument")
        if value or takes is _Values.VALUE:
            values.append(value)
    return given


def _looks_like_a_flag(argument: str) -> bool:
    return argument.startswith("-") and argument not in ("-", "--")
