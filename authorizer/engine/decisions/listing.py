"""Listing: the ACLs that match a filter, from one index, in Kafka's order: the answer of describeAcls.

A filter with a resource or a principal reads only the ACLs stored for it. Any other filter scans all ACLs by
column. Objects are created for matching ACLs only, in pieces.

Kafka orders ACLs by resource type, then name, the last name first, then entry. Texts are compared by UTF-16
code unit, as Java does; codes without a name count as UNKNOWN.
Source: AclBindingFilter.matches, StandardAcl.compareTo. Unlike Kafka, an ACL whose pattern type has no name
does not make a MATCH filter throw: it is matched as it decides, as a prefix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from authorizer.engine.index.pattern_keys import PREFIXED, PatternKey, known_codes
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl, row_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from authorizer.engine.index.acl_index import AclIndex
    from records.acl import AclBinding, AclBindingFilter, ResourcePatternFilter
    from records.columns.text_column import TextColumn

    _Rows = npt.NDArray[np.int32]
    from records.entries import AccessControlEntryRecord

#: Size of a row of an AclTable: its codes, id, offset, timestamp, and the texts of no other row.
_ROW_BYTES: Final = 64


class Listing:
    """ACLs of one state, in Kafka's order. Immutable.

    ``size_bytes``: approximate memory in addition to the state's.
    """

    __slots__ = ("_columns", "_rows", "size_bytes")

    def __init__(self, columns: AclTable, rows: _Rows, *, owns_columns: bool = False) -> None:
        """Create the listing of these rows, in this order.

        ``owns_columns``: the columns are not shared with the state.
        """
        self._columns = columns
        self._rows = rows
        self.size_bytes = rows.nbytes + (_ROW_BYTES * len(columns) if owns_columns else 0)

    def acls(self) -> Iterator[AppliedAcl]:
        for piece in row_chunks(self._rows):
            yield from self._columns.acls(piece)

    def __len__(self) -> int:
        return len(self._rows)

    def part(self, first: int, count: int) -> list[AppliedAcl]:
        """Return at most ``count`` ACLs from position ``first`` on."""
        return list(self._columns.acls(self._rows[first : first + count]))

    def containing(self, text: str) -> Listing:
        """Return the ACLs with a text in their principal, name or host, ignoring case."""
        requested, columns = text.casefold(), self._columns
        matches = np.zeros(len(self._rows), np.bool_)
        for column in (columns.principals, columns.names, columns.hosts):
            matches |= column.where(lambda each: requested in each.casefold())[self._rows]
        return Listing(columns, self._rows[matches])

    def distinct_rows(self) -> tuple[AclTable, _Rows]:
        """Return the columns and the listed rows, without the second of two equal ACLs, as `bindings`."""
        columns, rows = self._columns, self._rows
        differs = np.zeros(max(len(rows) - 1, 0), np.bool_)
        for text in (columns.names, columns.principals, columns.hosts):
            differs |= np.diff(text.codes[rows]) != 0
        for codes, named in (
            (columns.resource_types, ResourceType),
            (columns.pattern_types, PatternType),
            (columns.operations, AclOperation),
            (columns.permission_types, AclPermissionType),
        ):
            differs |= np.diff(known_codes(codes[rows], named)) != 0
        return columns, rows if differs.all() else rows[np.append(True, differs)]

    def bindings(self) -> Iterator[AclBinding]:
        """Yield the ACLs as Kafka's API has them. An ACL with two ids is one ACL here."""
        pattern = entry = None
        for piece in row_chunks(self._rows):
            for binding in self._columns.bindings(piece):
                # Entries first: most differ.
                if binding.entry != entry or binding.pattern != pattern:
                    yield binding
                pattern, entry = binding.pattern, binding.entry


def list_acls(index: AclIndex, acl_filter: AclBindingFilter) -> Listing:
    """Return the matching ACLs: by resource type, then name (the last name first), then entry."""
    rows, added = _candidates(index, acl_filter)
    columns: AclTable = index.rows.columns
    rows = rows[_matches_filter(columns, rows, acl_filter)]
    if added:
        added_table = AclTable.of(added)
        added_table = added_table.take(
            _matches_filter(added_table, np.arange(len(added_table), dtype=np.int32), acl_filter)
        )
        columns = AclTable.concat([columns.take(rows), added_table])
        rows = np.arange(len(columns), dtype=np.int32)
    return Listing(columns, sort_in_kafka_order(columns, rows), owns_columns=bool(added))


def _candidates(index: AclIndex, acl_filter: AclBindingFilter) -> tuple[_Rows, list[AppliedAcl]]:
    """Rows of the index's columns, and added ACLs: all that match the filter, and some that do not."""
    patterns, principal = acl_filter.pattern_filter, acl_filter.entry_filter.principal
    if patterns.name is None:
        return index.rows_of(principal), [*index.added_of(principal)]
    resources = index.resources
    keys = [*_keys_for(index, patterns, patterns.name)]
    rows = [resources.rows_at(key, principal) for key in keys]
    added = [acl for key in keys for acl in resources.added_at(key, principal)]
    return np.concatenate(rows), added


def _keys_for(index: AclIndex, patterns: ResourcePatternFilter, name: str) -> Iterator[PatternKey]:
    """The patterns of all ACLs that match the filter, and a few more."""
    requested = patterns.resource_type
    for resource_type in ResourceType if requested is ResourceType.ANY else (requested,):
        if patterns.pattern_type is PatternType.MATCH:
            yield from index.resources.covering_keys(resource_type, name)
        else:
            yield int(resource_type), name
            yield resource_type + PREFIXED, name


def _matches_filter(columns: AclTable, rows: _Rows, acl_filter: AclBindingFilter) -> npt.NDArray[np.bool_]:
    patterns, entries = acl_filter.pattern_filter, acl_filter.entry_filter
    matches = np.ones(len(rows), np.bool_)
    for codes, named, requested in (
        (columns.resource_types, ResourceType, patterns.resource_type),
        (columns.pattern_types, PatternType, patterns.pattern_type),
        (columns.operations, AclOperation, entries.operation),
        (columns.permission_types, AclPermissionType, entries.permission_type),
    ):
        # By identity: codes of different kinds are equal numbers.
        if requested is not named.ANY and requested is not PatternType.MATCH:
            matches &= known_codes(codes[rows], named) == requested
    if entries.host is not None:
        matches &= _is_text(columns.hosts, rows, entries.host)
    if patterns.name is not None and patterns.pattern_type is PatternType.MATCH:
        # The pattern type of an ACL may be MATCH itself: this filter then compares the names.
        is_match = columns.pattern_types[rows] == PatternType.MATCH
        if is_match.any():
            matches &= ~is_match | _is_text(columns.names, rows, patterns.name)
    return matches


def _is_text(column: TextColumn, rows: _Rows, text: str) -> npt.NDArray[np.bool_]:
    codes = column.codes[rows]
    if len(codes) < len(column.texts):
        return np.array([column.texts[code] == text for code in codes.tolist()], np.bool_)
    code = column.texts.index(text) if text in column.texts else -1
    is_text: npt.NDArray[np.bool_] = codes == code
    return is_text


_PATTERN_TYPES: Final = [*map(int, PatternType.by_code())]
_OPERATIONS: Final = [*map(int, AclOperation.by_code())]
_PERMISSION_TYPES: Final = [*map(int, AclPermissionType.by_code())]


def utf16(text: str) -> str:
    """Return a sort key with one character for each UTF-16 code unit, by which Java compares strings."""
    if text.isascii():
        return text
    return "".join(map(chr, memoryview(text.encode("utf-16", "surrogatepass")).cast("H")[1:]))


def entry_order(record: AccessControlEntryRecord) -> tuple[int, int, str, str, int]:
    """Return the sort key of an ACL among those of one resource type and name."""
    return (
        _PATTERN_TYPES[record.pattern_type],
        _OPERATIONS[record.operation],
        utf16(record.principal),
        utf16(record.host),
        _PERMISSION_TYPES[record.permission_type],
    )


def sort_in_kafka_order(columns: AclTable, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the rows in that order; rows of equal ACLs stay in the given order."""
    order = np.lexsort(
        (  # the last key is the primary one
            known_codes(columns.permission_types[rows], AclPermissionType),
            _ranks(columns.hosts, rows),
            _ranks(columns.principals, rows),
            known_codes(columns.operations[rows], AclOperation),
            known_codes(columns.pattern_types[rows], PatternType),
            -_ranks(columns.names, rows),
            known_codes(columns.resource_types[rows], ResourceType),
        )
    )
    return rows[order]


def _ranks(column: TextColumn, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """For each row, the rank of its text among the texts of all rows."""
    codes = column.codes[rows]
    if (codes == codes[:1]).all():
        return codes  # all rows have one text
    codes, code_of = np.unique(codes, return_inverse=True)
    texts = [column.texts[code] for code in codes.tolist()]
    # ASCII texts, which most are, compare the same in both encodings.
    keys = texts if all(map(str.isascii, texts)) else [*map(utf16, texts)]
    ranks = np.empty(len(keys), np.int32)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys), dtype=np.int32)
    return ranks[code_of]
