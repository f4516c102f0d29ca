"""What becomes of ids that several records are about: what comes of one record after another."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from snapshot.outcomes import outcomes

#: Ids that are equal in their first half, in their second half, or in neither.
IDS = [bytes([high]) * 8 + bytes([low]) * 8 for high in (0, 1, 255) for low in (0, 2, 254)]
#: None removes the id.
contents = st.none() | st.integers(0, 2)
writings = st.lists(st.tuples(st.sampled_from(IDS), contents), max_size=40)
before = st.dictionaries(st.sampled_from(IDS), st.integers(0, 2))


def void(values: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(values), "V16")


def hash_of(acl_id: bytes, content: int) -> bytes:
    return bytes([content]) + acl_id[:7] + bytes([content]) + acl_id[8:15]


@given(before, writings, st.randoms())
def test_outcomes_are_those_of_one_after_another(
    held: dict[bytes, int], log: list[tuple[bytes, int | None]], random: Random
) -> None:
    """Which row is kept for an id, and how often what happened, in whatever order the rows are given."""
    rows = [(-1, acl_id, content) for acl_id, content in held.items()]
    rows += [(number, acl_id, content) for number, (acl_id, content) in enumerate(log) if content is not None]
    removals = [(number, acl_id) for number, (acl_id, content) in enumerate(log) if content is None]
    random.shuffle(rows)
    random.shuffle(removals)
    found = outcomes(
        void([acl_id for _, acl_id, _ in rows]),
        void([hash_of(acl_id, content) for _, acl_id, content in rows]),
        np.array([number for number, _, _ in rows], np.int64),
        void([acl_id for _, acl_id in removals]),
        np.array([number for number, _ in removals], np.int64),
    )
    in_force = {acl_id: (-1, content) for acl_id, content in held.items()}
    counts = dict.fromkeys(("added", "removed", "replaced", "repeated", "unknown_removals"), 0)
    for number, (acl_id, content) in enumerate(log):
        known = in_force.get(acl_id)
        if content is None:
            counts["unknown_removals" if known is None else "removed"] += 1
            in_force.pop(acl_id, None)
        elif known is not None and known[1] == content:
            counts["repeated"] += 1
        else:
            counts["added" if known is None else "replaced"] += 1
            in_force[acl_id] = number, content
    kept = [row for row, stays in zip(rows, found.kept, strict=True) if stays]
    expected = [(number, acl_id, content) for acl_id, (number, content) in in_force.items()]
    assert sorted(kept) == sorted(expected)
    assert {name: getattr(found, name) for name in counts} == counts
