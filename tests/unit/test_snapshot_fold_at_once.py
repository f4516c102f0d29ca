"""The fold of many records by column: each way in which an id can be known already."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import astuple

from records.entries import MetadataRecord, OtherRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support.column_logs import by_column, one_by_one, raw_batches
from support.digests import digest_of
from support.snapshots import acl as numbered_acl
from support.snapshots import contents, logged, replayed

TESTS = Path(__file__).parents[1]
STEP = 2
FOLD_AT = 4
PROVENANCE = Provenance(1000, 1, 0)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits above which records become rows, and are folded, for tests of a few records."""
    monkeypatch.setattr("snapshot.image._MERGE_MINIMUM", STEP)


def acl_id(number: int, tail: int = 0) -> Uuid:
    """Ids that are equal in their first eight bytes if the numbers are."""
    return Uuid(number.to_bytes(8, "big") + tail.to_bytes(8, "big"))


def acl(number: int, *, tail: int = 0, host: str = "*") -> MetadataRecord:
    return numbered_acl(number, id=acl_id(number, tail), host=host)


def removal(number: int) -> MetadataRecord:
    return RemoveAccessControlEntryRecord(acl_id(number))


def image_with_changes() -> AclsImage:
    """1 to 4 are rows of its columns; of these, 1 is changed and 2 is gone; 5 is in its changes only."""
    rows = replayed([acl(number) for number in range(1, 5)]).merged()
    image = replayed([acl(1, host="new"), removal(2)], rows)
    image = replayed([acl(5)], image)
    assert (len(image.columns), len(image.changes)) == (4, 3)
    return image


#: Made before the limits are small.
IMAGE_WITH_CHANGES = image_with_changes()


def folded(image: AclsImage, batches: Sequence[list[MetadataRecord]], by_itself: set[int]) -> AclsDelta:
    """By column, but for the batches that come by themselves; it must be what it is one by one."""
    raw = raw_batches(batches)
    (columns, _), (records, _) = by_column(raw), one_by_one(raw)
    by_columns, by_records = AclsDelta(image, fold_at=FOLD_AT), AclsDelta(image)
    for index, (column, record) in enumerate(zip(columns, records, strict=True)):
        by_columns.replay_batch(record if index in by_itself else column)
        by_records.replay_batch(record)
    made, expected = by_columns.apply(PROVENANCE), by_records.apply(PROVENANCE)
    assert contents(made) == contents(expected)
    assert (made.digest, len(made)) == (expected.digest, len(expected))
    assert made.digest == digest_of(found.record for found in made)
    assert by_columns.counts == by_records.counts
    for number in range(1, 20):
        assert made.get(acl_id(number)) == expected.get(acl_id(number))
        assert by_columns.get(acl_id(number)) == expected.get(acl_id(number))
    assert by_columns.changes == by_records.changes
    return by_columns


def cases() -> Iterator[tuple[str, AclsImage, list[list[MetadataRecord]], set[int]]]:
    nothing = AclsImage.EMPTY
    some = [acl(number) for number in range(11, 14)]
    yield "nothing", nothing, [], set()
    yield "nothing but others", nothing, [[OtherRecord(20, 0)] * 3], set()
    yield "new ones", nothing, [some], set()
    yield "one id twice", nothing, [[acl(1), *some, acl(1, host="h")]], set()
    yield "the same twice", nothing, [[acl(1), *some, acl(1)]], set()
    yield "removed", nothing, [[acl(1), *some, removal(1)]], set()
    yield "removed and back", nothing, [[acl(1), *some, removal(1), acl(1)]], set()
    yield "removed before it came", nothing, [[removal(1), *some, acl(1)]], set()
    yield "unknown removals", nothing, [[*some, removal(1), removal(1)]], set()
    twins = [acl(1, tail=tail) for tail in range(3)]
    yield "ids that begin alike", nothing, [[*twins, *some]], set()
    held = IMAGE_WITH_CHANGES
    yield "a row is replaced", held, [[*some, acl(3, host="h")]], set()
    yield "a row is repeated", held, [[*some, acl(3)]], set()
    yield "a row is removed", held, [[*some, removal(3)]], set()
    yield "a changed row is replaced", held, [[*some, acl(1, host="h")]], set()
    yield "a row that is gone comes back", held, [[*some, acl(2)]], set()
    yield "a change is replaced", held, [[*some, acl(5, host="h")]], set()
    yield "a change is removed", held, [[*some, removal(5)]], set()
    yield "few records", held, [[acl(3, host="h"), acl(11)]], set()
    more = [acl(number) for number in range(14, 19)]
    yield "added before and replaced", nothing, [[acl(1), *more], [acl(1, host="h"), *some]], set()
    yield "added before and repeated", nothing, [[acl(1), *more], [acl(1), *some]], set()
    yield "added before and removed", nothing, [[acl(1), *more], [removal(1), *some]], set()
    many = [acl(number) for number in range(6, 14)]
    last = [acl(number) for number in range(17, 20)]
    batches = [[acl(1), acl(2), *more[:3]], [acl(1, host="h"), *many], [acl(2, host="h"), *last]]
    yield "added before the last look and replaced", nothing, batches, set()
    yield "added, removed, back", nothing, [[acl(1), *more], [removal(1)], [acl(1), *some]], set()
    yield "added, then a few", nothing, [[acl(1), *more], [acl(1, host="h")]], set()
    yield "by itself before", nothing, [[acl(1)], [acl(1, host="h"), *some]], {0}
    yield "by itself after", nothing, [[acl(1), *some], [acl(1, host="h")]], {1}
    yield "by itself between", nothing, [[acl(1), *some], [acl(1, host="h")], [acl(1, host="i")]], {1}
    yield "the last by itself", nothing, [[*some, acl(1)], [acl(1, host="h")], [acl(2)]], {1}
    yield "the last removal by itself", nothing, [[*some, acl(1)], [removal(1)], [acl(2)]], {1}
    yield "removed between", nothing, [[acl(1), *some], [removal(1)], [acl(1)]], {1}
    yield "removed by itself after", nothing, [[acl(1), *some], [removal(1)]], {1}
    yield "others by themselves", nothing, [some, [OtherRecord(20, 0)], more], {1}


CASES = list(cases())


@pytest.mark.parametrize(("_name", "image", "batches", "by_itself"), CASES, ids=[case[0] for case in CASES])
def test_the_fold_at_once_is_the_fold(
    _name: str, image: AclsImage, batches: list[list[MetadataRecord]], by_itself: set[int]
) -> None:
    """Content, digest, counts, offsets and publications are those of the fold by record."""
    folded(image, batches, by_itself)


def test_added_acls_remain_rows() -> None:
    """No object is made of an ACL, whatever becomes of it later in the log."""
    delta = AclsDelta(AclsImage.EMPTY, fold_at=FOLD_AT)
    many = [acl(number) for number in range(5, 12)]
    batches, _ = by_column(
        raw_batches(
            [
                [acl(1), acl(2), acl(3), acl(3, host="h"), acl(4)],
                [*many, acl(1, host="h"), removal(2), acl(4)],
                [removal(3), acl(3), acl(2, host="h"), *many, removal(12), removal(5)],
            ]
        )
    )
    for batch in batches:
        delta.replay_batch(batch)
    image = delta.apply(PROVENANCE)
    assert (len(image.columns), dict(image.changes)) == (10, {})
    assert image.columns.acl(image.columns.row_of(acl_id(4)) or 0).offset == 4
    assert astuple(delta.counts) == (13, 3, 2, 8, 1, 0)


def test_ids_of_the_image_are_found() -> None:
    """Ids of its rows and changes: its columns are not written anew for each fold."""
    delta = AclsDelta(IMAGE_WITH_CHANGES)
    batches, _ = by_column(raw_batches([[acl(3, host="h"), acl(5, host="h"), *map(acl, range(11, 16))]]))
    delta.replay_batch(batches[0])
    assert delta.get(acl_id(14)) is not None
    assert len(delta.apply(PROVENANCE)) == 4 + 5


def test_a_look_before_the_end() -> None:
    """`get`, `changes` and `put` see the records that were only taken."""
    batches, _ = by_column(raw_batches([[acl(1), acl(2), acl(3)]]))
    deltas = [AclsDelta(AclsImage.EMPTY) for _ in range(3)]
    for delta in deltas:
        delta.replay_batch(batches[0])
    looked, changed, put = deltas
    found = looked.get(acl_id(2))
    assert found is not None
    assert found.record == acl(2)
    assert {after.record for _, after in changed.changed() if after is not None} == {acl(1), acl(2), acl(3)}
    put.put(found)
    assert (put.counts.added, put.counts.repeated) == (3, 1)


@pytest.mark.parametrize("rows", [(), (3, 4, 5)])
def test_the_delta_from_nothing(rows: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """What came and went is not told as removed, where the image still has a trace of it."""
    monkeypatch.setattr("snapshot.image._MERGE_MINIMUM", 100)
    image = replayed([acl(number) for number in rows]).merged()
    image = replayed([acl(1), acl(2)], image)
    image = replayed([removal(number) for number in (1, *rows[:1])], image)
    assert None in image.changes.values()
    delta = AclsDelta.between(AclsImage.EMPTY, image)
    assert delta.get(acl_id(1)) is None
    assert delta.get(acl_id(2)) == image.get(acl_id(2))
    assert delta.changes == contents(image)
    assert delta.counts.added == len(image)


def test_batches_that_are_left_out() -> None:
    """A part of one read may be left out, such as a batch that waits for a transaction."""
    batches, _ = by_column(raw_batches([[acl(1), acl(2)], [acl(3), removal(1)], [acl(4)]]))
    delta = AclsDelta(AclsImage.EMPTY, fold_at=FOLD_AT)
    delta.replay_batch(batches[0])
    delta.replay_batch(batches[2])
    assert {found.record for found in delta.apply(PROVENANCE)} == {acl(1), acl(2), acl(4)}


def test_one_by_one_after_the_fold() -> None:
    """Records that come when nothing waits any more find what was folded."""
    delta = AclsDelta(AclsImage.EMPTY, fold_at=FOLD_AT)
    batches, _ = by_column(raw_batches([[acl(number) for number in range(1, FOLD_AT + 3)]]))
    delta.replay_batch(batches[0])
    for entry in logged([acl(1, host="h"), removal(2), removal(2)], start=100):
        delta.replay(entry)
    counts = delta.counts
    assert (counts.added, counts.replaced, counts.removed, counts.unknown_removals) == (6, 1, 1, 1)
    assert acl_id(2) not in delta.changes
    assert len(delta.apply(PROVENANCE)) == 5


def test_pandas_is_not_loaded() -> None:
    """As where snapshots are read: it takes 0.2 s at a start, and memory, where it is installed."""
    program = """
import sys
from support.column_logs import by_column, raw_batches
from support.snapshots import acl
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
lists = [[acl(number) for number in range(start, start + 600)] for start in (0, 600)]
batches, _ = by_column(raw_batches(lists))
delta = AclsDelta(AclsImage.EMPTY)
delta.replay_batch(batches[0])
for logged in batches[1].records:
    delta.replay(logged)
assert len(delta.apply(Provenance(1200, 1, 0)).columns) == 1200
print("pandas" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=TESTS, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
