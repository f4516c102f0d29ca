"""Text output of kafka-acls: a block of ACLs for each resource. No I/O.

There may be hundreds of thousands of ACLs, so the code works by column: it escapes each text once and sorts
numbers instead of texts. Control characters in names are escaped, because a name could otherwise forge lines.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from authorizer.cli.rendering.output import shown
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType, code_to_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from enum import IntEnum

    import numpy.typing as npt

    from authorizer.analysis.files.kafka_acls_flags import Entries
    from records.acl import AclBinding, ResourcePattern, ResourcePatternFilter
    from records.columns.acl_table import AclTable
    from records.columns.text_column import TextColumn

#: ACLs in one piece of text: a few megabytes.
_PIECE_ROWS: Final = 20_000
# Number of int8 codes; numpy indexes a list of this length from its end for a negative code.
_CODES: Final = 256
_END: Final = "\n"


def listing(columns: AclTable) -> Iterator[str]:
    """``--list``, in pieces of any size. Equal ACLs under two ids are one line, as in Kafka."""
    order, begins = _in_order(columns)
    names, principals, hosts = (
        [*map(shown, column.texts)] for column in (columns.names, columns.principals, columns.hosts)
    )
    resource_types, pattern_types = _names_by_code(ResourceType), _names_by_code(PatternType)
    operations, permissions = _names_by_code(AclOperation), _names_by_code(AclPermissionType)
    for start in range(0, len(order), _PIECE_ROWS):
        rows = order[start : start + _PIECE_ROWS]
        titles = [""] * len(rows)
        first = np.flatnonzero(begins[start : start + _PIECE_ROWS])
        firsts = rows[first]
        for at, resource_type, name, pattern_type in zip(
            first.tolist(),
            columns.resource_types[firsts].tolist(),
            columns.names.codes[firsts].tolist(),
            columns.pattern_types[firsts].tolist(),
            strict=True,
        ):
            titles[at] = (
                f"{'' if start + at == 0 else _END}Current ACLs for resource `ResourcePattern(resourceType="
                f"{resource_types[resource_type]}, name={names[name]}, "
                f"patternType={pattern_types[pattern_type]})`:\n"
            )
        entries = (
            f"\t(principal={principals[principal]}, host={hosts[host]}, operation={operations[operation]}, "
            f"permissionType={permissions[permission]})\n"
            for principal, host, operation, permission in zip(
                columns.principals.codes[rows].tolist(),
                columns.hosts.codes[rows].tolist(),
                columns.operations[rows].tolist(),
                columns.permission_types[rows].tolist(),
                strict=True,
            )
        )
        yield "".join(chain.from_iterable(zip(titles, entries, strict=True)))
    if len(order):
        yield _END


def listing_of_principal(principal: str, columns: AclTable) -> Iterator[str]:
    """``--list --principal``: ACLs of exactly this principal, without wildcards."""
    texts = columns.principals.texts
    code = texts.index(principal) if principal in texts else -1
    yield f"ACLs for principal `{shown(principal)}`\n"
    yield from listing(columns.take(columns.principals.codes == code))


def _in_order(columns: AclTable) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Row numbers by resource, then entry, without duplicates; and whether each row begins a resource."""
    by = (  # np.lexsort sorts by the last key first
        columns.permission_types,
        columns.operations,
        _ranks(columns.hosts),
        _ranks(columns.principals),
        columns.pattern_types,
        _ranks(columns.names),
        columns.resource_types,
    )
    order = np.lexsort(by)
    entry_begins, resource_begins = (_begins([key[order] for key in keys]) for keys in (by, by[4:]))
    return order[entry_begins], resource_begins[entry_begins]


def _ranks(column: TextColumn) -> npt.NDArray[np.int32]:
    """For each row, the rank of its text among all texts."""
    ranks = np.empty(len(column.texts), np.int32)
    ranks[sorted(range(len(column.texts)), key=column.texts.__getitem__)] = np.arange(
        len(column.texts), dtype=np.int32
    )
    return ranks[column.codes]


def _begins(keys: Sequence[npt.NDArray[np.integer]]) -> npt.NDArray[np.bool_]:
    """Whether any key of a row differs from the previous row."""
    begins = np.zeros(len(keys[0]), np.bool_)
    begins[:1] = True
    for key in keys:
        begins[1:] |= key[1:] != key[:-1]
    return begins


def _names_by_code(kind: type[IntEnum]) -> list[str]:
    """Names by int8 code; negative codes index from the end."""
    codes = [*range(_CODES // 2), *range(-_CODES // 2, 0)]
    return [code_to_name(kind, code) for code in codes]


def adding(pattern: ResourcePattern, entries: Entries) -> str:
    """``--add``: the entries to add to one resource."""
    return f"Adding ACLs for resource `{shown(str(pattern))}`: \n {_tabbed(entries)}\n\n"


def already_there(binding: AclBinding) -> str:
    """``--add``: an ACL that exists."""
    return f"Acl {shown(str(binding))} already exists.\n"


def confirmation(where: ResourcePatternFilter, entries: Entries) -> str:
    """``--remove``: the prompt before a removal."""
    if not entries:
        return f"Are you sure you want to delete all ACLs for resource filter `{shown(str(where))}`? (y/n)\n"
    return (
        f"Are you sure you want to remove ACLs: \n {_tabbed(entries)}\n "
        f"from resource filter `{shown(str(where))}`? (y/n)\n"
    )


def _tabbed(entries: Entries) -> str:
    return "\n".join(f"\t{shown(str(entry))}" for entry in entries)
