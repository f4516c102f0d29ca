"""Overlays keep what they promise about cost; what they hold is a property (tests/property)."""

from __future__ import annotations

from authorizer.index.overlay import COPY_MAXIMUM, MERGE_SHARE, Overlay, Table, with_entries


def test_small_tables_stay_dicts_and_large_ones_are_never_copied() -> None:
    """Up to COPY_MAXIMUM entries a change is a copy; above, the base is shared."""
    small: Table[int, int] = dict.fromkeys(range(COPY_MAXIMUM), 1)
    assert isinstance(with_entries(small, {0: 2}), dict)
    base = dict.fromkeys(range(COPY_MAXIMUM + 1), 1)
    large = with_entries(base, {0: 2})
    assert isinstance(large, Overlay)
    assert large._base is base


def test_changes_are_merged_before_they_outgrow_the_base() -> None:
    """Look-ups stay two, whatever has changed."""
    size = 2 * COPY_MAXIMUM
    table: Table[int, int] = dict.fromkeys(range(size), 1)
    truth = dict(table.items())
    for key in range(3 * size):
        entries = {key: None if key % 3 == 0 else key + 1}
        table = with_entries(table, entries)
        truth.pop(key, None)
        if key % 3:
            truth[key] = key + 1
        if isinstance(table, Overlay):
            assert len(table._changes) <= len(table._base) // MERGE_SHARE
    assert (dict(table.items()), len(table)) == (truth, len(truth))
