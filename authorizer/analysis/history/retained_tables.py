"""Memory limit of retained states, by the tables of ACLs that they share.

States share unchanged ACLs, so a thousand of them need little more memory than one. Each table of columns
(snapshot.image) is stored once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from snapshot.columns import AclColumns


def count_to_evict(columns: Sequence[AclColumns], rows_maximum: int) -> int:
    """Return how many of the oldest states to evict, for at most `rows_maximum` rows in older tables.

    ``columns``: the table of each state, oldest first; the newest one's rows do not count.
    """
    rows = 0
    for position in range(len(columns) - 1, 0, -1):
        if columns[position - 1] is not columns[position]:
            rows += len(columns[position - 1])
            if rows > rows_maximum:
                return position
    return 0
