"""Kafka's ACL vocabulary with its wire codes.

Source: org.apache.kafka.common.acl.*, common.resource.*, kafka.security.authorizer.AclEntry (supported
operations). ``from_code`` never raises: a code that this build does not know becomes UNKNOWN, as in Kafka.
Values are msgspec Structs, which are created in a tenth of a dataclass's time.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache, cached_property
from typing import Final, Self

import msgspec

WILDCARD: Final = "*"
CLUSTER_NAME: Final = "kafka-cluster"


class _Code(IntEnum):
    """An int8 code of Kafka's protocol; unknown codes become UNKNOWN (0)."""

    @classmethod
    def from_code(cls, code: int) -> Self:
        # Not ``get(code, cls(0))``, which would create the default at each call.
        member = cls._value2member_map_.get(code)
        return cls(0) if member is None else member  # type: ignore[return-value]

    @classmethod
    def by_code(cls) -> list[Self]:
        """``from_code`` of each int8, as a lookup table; negative codes index it from the end."""
        return [cls.from_code(code) for code in range(1 << 8)]

    @classmethod
    def from_name(cls, text: str) -> Self:
        """The member with this name: any case, ``_`` optional (``TransactionalId``), else UNKNOWN."""
        by_name = _by_name(cls)
        member = by_name.get(text)
        if member is None:
            member = by_name.get(text.replace("_", "").replace("-", "").upper(), cls(0))
        return member  # type: ignore[return-value]

    @property
    def is_unknown(self) -> bool:
        """Whether the code had no name here."""
        return self.value == 0

    @cached_property
    def title(self) -> str:
        """The name as kafka-acls and the audit log write it: ``TransactionalId``, ``DescribeConfigs``."""
        return "".join(part.capitalize() for part in self.name.split("_"))


@cache
def _by_name(kind: type[_Code]) -> dict[str, _Code]:
    """Members by name, with and without ``_``. Cached: each HTTP request names two codes."""
    return {name: member for member in kind for name in (member.name, member.name.replace("_", ""))}


class ResourceType(_Code):
    """The type of the resource that an ACL protects."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How an ACL's resource name is compared with a resource. ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Code):
    """An operation of a request on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(_Code):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


#: KIP-430, AclEntry.supportedOperations: without ALL, in code order.
SUPPORTED_OPERATIONS: Final[dict[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        AclOperation.WRITE,
        AclOperation.DESCRIBE,
        AclOperation.TWO_PHASE_COMMIT,
    ),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}

#: ALLOW on these also allows DESCRIBE; DENY implies nothing.
IMPLIES_DESCRIBE: Final = frozenset(
    {
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    }
)
#: ALLOW on these also allows DESCRIBE_CONFIGS.
IMPLIES_DESCRIBE_CONFIGS: Final = frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS})


class ResourcePattern(msgspec.Struct, frozen=True, gc=False):
    """A resource type, a name, and how the name is compared."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType

    def __str__(self) -> str:
        return (
            f"ResourcePattern(resourceType={self.resource_type.name}, name={self.name}, "
            f"patternType={self.pattern_type.name})"
        )


class AccessControlEntry(msgspec.Struct, frozen=True, gc=False):
    """Principal P is allowed or denied operation O from host H."""

    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission_type.name})"
        )


class AclBinding(msgspec.Struct, frozen=True, gc=False):
    """An entry bound to a resource pattern: one ACL."""

    pattern: ResourcePattern
    entry: AccessControlEntry

    def __str__(self) -> str:
        return f"(pattern={self.pattern}, entry={self.entry})"


class ResourcePatternFilter(msgspec.Struct, frozen=True):
    """Selects patterns. ``name=None`` matches every name (ResourcePatternFilter.java)."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY

    @property
    def is_unknown(self) -> bool:
        """Whether any part is UNKNOWN: Kafka refuses such filters."""
        return self.resource_type.is_unknown or self.pattern_type.is_unknown

    def matches(self, pattern: ResourcePattern) -> bool:
        """Kafka's rule.

        Raises:
            ValueError: MATCH with a name, against a pattern that is neither LITERAL nor PREFIXED.
        """
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type in (PatternType.ANY, pattern.pattern_type):
            return self.name == pattern.name
        match pattern.pattern_type:
            case PatternType.LITERAL:
                return pattern.name in (self.name, WILDCARD)
            case PatternType.PREFIXED:
                return self.name.startswith(pattern.name)
            case other:
                raise ValueError(f"Unsupported PatternType: {other.name}")

    def __str__(self) -> str:
        return (
            f"ResourcePattern(resourceType={self.resource_type.name}, "
            f"name={'<any>' if self.name is None else self.name}, patternType={self.pattern_type.name})"
        )


class AccessControlEntryFilter(msgspec.Struct, frozen=True):
    """Selects entries; None and ANY match every value (AccessControlEntryFilter.java)."""

    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY

    @property
    def is_unknown(self) -> bool:
        """Whether any part is UNKNOWN: Kafka refuses such filters."""
        return self.operation.is_unknown or self.permission_type.is_unknown

    def matches(self, entry: AccessControlEntry) -> bool:
        """Kafka's rule: equality, field by field."""
        return (
            (self.principal is None or self.principal == entry.principal)
            and (self.host is None or self.host == entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission_type in (AclPermissionType.ANY, entry.permission_type)
        )

    def __str__(self) -> str:
        return (
            f"(principal={'<any>' if self.principal is None else self.principal}, "
            f"host={'<any>' if self.host is None else self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission_type.name})"
        )


class AclBindingFilter(msgspec.Struct, frozen=True):
    """Selects ACLs."""

    pattern_filter: ResourcePatternFilter = ResourcePatternFilter()
    entry_filter: AccessControlEntryFilter = AccessControlEntryFilter()

    @property
    def is_unknown(self) -> bool:
        """Whether any part is UNKNOWN: Kafka refuses such filters."""
        return self.pattern_filter.is_unknown or self.entry_filter.is_unknown

    def matches(self, binding: AclBinding) -> bool:
        """Whether both parts match. Raises ValueError as ResourcePatternFilter.matches."""
        return self.pattern_filter.matches(binding.pattern) and self.entry_filter.matches(binding.entry)

    def __str__(self) -> str:
        return f"(patternFilter={self.pattern_filter}, entryFilter={self.entry_filter})"


@cache  # an export calls this four times for each ACL
def code_to_name(kind: type[IntEnum], code: int) -> str:
    """``TOPIC``; ``99`` for a code without a name, which a newer Kafka may write."""
    return next((member.name for member in kind if member == code), str(code))


def code_from_name(kind: type[IntEnum], text: str) -> int:
    """The inverse of ``code_to_name``. Raises ValueError: neither a name nor a number."""
    known = kind.__members__.get(text)
    return int(text) if known is None else known.value
