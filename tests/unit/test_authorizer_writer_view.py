"""The writer's view of the ACLs: the replayed state with the records appended since."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from authorizer.node.writing.writer_view import WriterView
from records.columns.acl_table import AppliedAcl
from records.entries import AccessControlEntryRecord, AclRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance


def acl(number: int, name: str = "t") -> AccessControlEntryRecord:
    return AccessControlEntryRecord(Uuid(number.to_bytes(16, "big")), 2, name, 3, "User:a", "*", 3, 3)


def replay(view: WriterView, image: AclsImage, records: Sequence[AclRecord], end_offset: int) -> AclsImage:
    delta = AclsDelta(image)
    for record in records:
        if isinstance(record, AccessControlEntryRecord):
            delta.put(AppliedAcl(record, end_offset - 1, 0))
        else:
            delta._remove(record.id)
    after = delta.apply(Provenance(end_offset, 1, 0))
    view.on_replayed(delta, after)
    return after


def test_appended_records_are_visible_before_their_replay() -> None:
    """A creation is visible immediately, and so is the removal that follows it."""
    view = WriterView()
    image = replay(view, AclsImage.EMPTY, [acl(1)], 1)
    view.append([acl(2, "u")], 2)
    assert view.get(acl(2).id) == acl(2, "u")
    assert view.find(acl(2, "u").content) is not None
    assert list(view.frozen()) == [acl(1), acl(2, "u")]
    view.append([RemoveAccessControlEntryRecord(acl(1).id)], 3)
    assert view.get(acl(1).id) is None
    assert view.find(acl(1).content) is None
    # The replay of the first record does not affect the second.
    image = replay(view, image, [acl(2, "u")], 2)
    assert list(view.frozen()) == [acl(2, "u")]
    replay(view, image, [RemoveAccessControlEntryRecord(acl(1).id)], 3)
    assert list(view.frozen()) == [acl(2, "u")]


def test_an_append_that_was_replayed_first_leaves_nothing_behind() -> None:
    """The loader may replay a record before the writer has recorded its append."""
    view = WriterView()
    image = replay(view, AclsImage.EMPTY, [acl(1)], 1)
    view.append([acl(1)], 1)
    replay(view, image, [RemoveAccessControlEntryRecord(acl(1).id)], 2)
    assert view.get(acl(1).id) is None


def test_equal_content_exists_until_both_ids_are_removed() -> None:
    """I8, also in the index by content."""
    view = WriterView()
    replay(view, AclsImage.EMPTY, [acl(1), acl(2)], 2)
    assert view.find(acl(1).content) is not None
    view.append([RemoveAccessControlEntryRecord(acl(1).id)], 3)
    assert view.find(acl(1).content) is not None
    view.append([RemoveAccessControlEntryRecord(acl(2).id)], 4)
    assert view.find(acl(1).content) is None


def test_a_frozen_view_does_not_change() -> None:
    """A scan outside the lock sees one state."""
    view = WriterView()
    image = replay(view, AclsImage.EMPTY, [acl(1)], 1)
    view.append([acl(2)], 2)
    frozen = view.frozen()
    view.append([RemoveAccessControlEntryRecord(acl(2).id)], 3)
    replay(view, image, [RemoveAccessControlEntryRecord(acl(1).id)], 4)
    assert set(frozen) == {acl(1), acl(2)}


def test_a_reload_discards_appended_records() -> None:
    """I5: a delta on the empty image replaces the state and the index."""
    view = WriterView()
    replay(view, AclsImage.EMPTY, [acl(1), acl(2, "u")], 2)
    assert view.find(acl(1).content) is not None
    replay(view, AclsImage.EMPTY, [acl(2, "u"), acl(3, "v")], 5)
    assert [view.find(each.content) is not None for each in (acl(1), acl(2, "u"), acl(3, "v"))] == [
        False,
        True,
        True,
    ]


# An id, a name, and whether to remove the ACL with that id instead, if it exists.
CHANGES = st.tuples(st.integers(1, 6), st.sampled_from("ab"), st.booleans())
#: The records of one append, or the number of appended batches to replay.
STEPS = st.lists(st.lists(CHANGES, min_size=1, max_size=3) | st.integers(1, 4), max_size=40)


@settings(max_examples=100)
@given(STEPS)
def test_the_view_equals_a_dict_in_any_interleaving(steps: list[list[tuple[int, str, bool]] | int]) -> None:
    """With late and grouped replays the view equals a dict that applies every append immediately."""
    view, image, model = WriterView(), AclsImage.EMPTY, dict[Uuid, AccessControlEntryRecord]()
    pending: list[list[AclRecord]] = []
    end = replayed_end = 0
    for step in steps:
        if isinstance(step, int):
            lump = [record for batch in pending[:step] for record in batch]
            del pending[:step]
            replayed_end += len(lump)
            image = replay(view, image, lump, replayed_end)
        else:
            batch: list[AclRecord] = []
            for number, name, is_removed in step:
                record = acl(number, name)
                if is_removed and model.pop(record.id, None) is not None:
                    batch.append(RemoveAccessControlEntryRecord(record.id))
                else:
                    batch.append(record)
                    model[record.id] = record
            end += len(batch)
            view.append(batch, end)
            pending.append(batch)
        assert {record.id: record for record in view.frozen()} == model
        held = {record.content for record in model.values()}
        for name in "ab":
            assert (view.find(acl(1, name).content) is not None) == (acl(1, name).content in held)
