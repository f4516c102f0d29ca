"""How many of the states that follow one another may be held, by the columns that they stand on.

States share what did not change, so some thousand of them take little more memory than one. But each set of
columns that they stand on (snapshot.image) is whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from snapshot.columns import AclColumns


def count_to_evict(columns: Sequence[AclColumns], rows_maximum: int) -> int:
    """How many of the first states stand on too many rows of earlier columns, or come before these.

    Args:
        columns: those of each state; the newest last, whose rows do not count.
        rows_maximum: of all earlier columns together.
    """
    rows = 0
    for at in range(len(columns) - 1, 0, -1):
        if columns[at - 1] is not columns[at]:
            rows += len(columns[at - 1])
            if rows > rows_maximum:
                return at
    return 0
