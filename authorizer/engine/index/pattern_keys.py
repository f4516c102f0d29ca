"""Pattern keys: a resource type and a name, or a prefix of names.

A *kind* is a resource type, with PREFIXED added if the name is a prefix; a *pattern key* is a kind and a
name. A resource type without a name counts as UNKNOWN, a pattern type other than LITERAL as PREFIXED, as
Kafka decides them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import IntEnum

    import numpy.typing as npt

    from records.entries import AccessControlEntryRecord

#: Added to the resource type where the name is a prefix.
PREFIXED: Final = len(ResourceType)

PatternKey = tuple[int, str]

LITERAL_PATTERN: Final = int(PatternType.LITERAL)
#: The pattern types and permission types that an ACL can have.
PATTERNS: Final = (int(PatternType.LITERAL), int(PatternType.PREFIXED))
PERMISSIONS: Final = (int(AclPermissionType.DENY), int(AclPermissionType.ALLOW))

# Indexed by int8 codes; a negative code counts from the end.
_KNOWN: Final[Mapping[type[IntEnum], npt.NDArray[np.int8]]] = {
    named: np.array(named.by_code(), np.int8)
    for named in (ResourceType, PatternType, AclOperation, AclPermissionType)
}


def pattern_key(record: AccessControlEntryRecord) -> PatternKey:
    """Return the pattern key of an ACL."""
    kind = record.resource_type
    if not 0 <= kind < PREFIXED:
        kind = 0
    return (kind if record.pattern_type == LITERAL_PATTERN else kind + PREFIXED), record.resource_name


def has_unknown_code(record: AccessControlEntryRecord) -> bool:
    """Return whether the pattern or permission type is only for filters, or unknown to Kafka."""
    return record.pattern_type not in PATTERNS or record.permission_type not in PERMISSIONS


def known_codes(codes: npt.NDArray[np.int8], named: type[IntEnum]) -> npt.NDArray[np.int8]:
    """Return the codes, with the unknown ones replaced as `from_code` does."""
    return _KNOWN[named][codes]
