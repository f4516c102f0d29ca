"""The ACLs of a table without repeats, in an order that what they say makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from authorizer.analysis.changed_acls import equal_acls
from records.columns.acl_table import CODES, TEXTS, AclTable
from records.columns.text_column import TextColumn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from records.ids import Uuid


class DistinctAcls(NamedTuple):
    """See the module.

    Attributes:
        table: of ACLs that are equal but for their ids one.
        ids: by row, of one that is there under several ids, all of these, in order.
    """

    table: AclTable
    ids: Mapping[int, tuple[Uuid, ...]]

    @classmethod
    def of(cls, table: AclTable) -> Self:
        columns = {name: _sorted(getattr(table, name)) for name in TEXTS}
        columns |= {name: getattr(table, name) for name in (*CODES, "offsets", "timestamps_ms")}
        ordered = AclTable(ids=table.ids, **columns)
        order, begins = equal_acls(ordered)
        counts = np.diff(begins, append=len(order))
        several = np.flatnonzero(counts > 1)
        ids = {
            row: tuple(sorted(ordered.id_of(each) for each in order[begins[row] :][: counts[row]].tolist()))
            for row in several.tolist()
        }
        return cls(ordered.taken(order[begins]), ids)


def _sorted(column: TextColumn) -> TextColumn:
    """The same rows, with codes that sort as their texts do."""
    texts = column.texts
    order = sorted(range(len(texts)), key=texts.__getitem__)
    ranks = np.empty(len(texts), np.int32)
    ranks[order] = np.arange(len(texts), dtype=np.int32)
    return TextColumn(tuple(texts[each] for each in order), ranks[column.codes])
