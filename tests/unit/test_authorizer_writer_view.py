"""The writer's view of the ACLs: what is replayed, and on top what was appended since."""

from __future__ import annotations

import random
from collections.abc import Sequence

from authorizer.writing.writer_view import WriterView
from records.entries import AccessControlEntryRecord, AclRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from snapshot.rows import AppliedAcl


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
    view.replayed(delta, after)
    return after


def test_what_was_appended_counts_before_it_is_replayed() -> None:
    """A creation is seen at once, and so is the removal that follows it."""
    view = WriterView()
    image = replay(view, AclsImage.EMPTY, [acl(1)], 1)
    view.append([acl(2, "u")], 2)
    assert view.get(acl(2).id) == acl(2, "u")
    assert view.holds(acl(2, "u").content)
    assert list(view.frozen()) == [acl(1), acl(2, "u")]
    view.append([RemoveAccessControlEntryRecord(acl(1).id)], 3)
    assert view.get(acl(1).id) is None
    assert not view.holds(acl(1).content)
    # The replay of the first says nothing about the second.
    image = replay(view, image, [acl(2, "u")], 2)
    assert list(view.frozen()) == [acl(2, "u")]
    replay(view, image, [RemoveAccessControlEntryRecord(acl(1).id)], 3)
    assert list(view.frozen()) == [acl(2, "u")]


def test_an_append_that_was_replayed_first_leaves_nothing_behind() -> None:
    """The loader may be quicker than the writer's own bookkeeping."""
    view = WriterView()
    image = replay(view, AclsImage.EMPTY, [acl(1)], 1)
    view.append([acl(1)], 1)
    replay(view, image, [RemoveAccessControlEntryRecord(acl(1).id)], 2)
    assert view.get(acl(1).id) is None


def test_equal_content_under_two_ids_is_held_until_both_are_gone() -> None:
    """I8, also in the index by content."""
    view = WriterView()
    replay(view, AclsImage.EMPTY, [acl(1), acl(2)], 2)
    assert view.holds(acl(1).content)
    view.append([RemoveAccessControlEntryRecord(acl(1).id)], 3)
    assert view.holds(acl(1).content)
    view.append([RemoveAccessControlEntryRecord(acl(2).id)], 4)
    assert not view.holds(acl(1).content)


def test_a_frozen_view_stays_as_it_was() -> None:
    """A scan outside the lock sees one moment."""
    view = WriterView()
    image = replay(view, AclsImage.EMPTY, [acl(1)], 1)
    view.append([acl(2)], 2)
    frozen = view.frozen()
    view.append([RemoveAccessControlEntryRecord(acl(2).id)], 3)
    replay(view, image, [RemoveAccessControlEntryRecord(acl(1).id)], 4)
    assert set(frozen) == {acl(1), acl(2)}


def test_the_whole_state_anew_forgets_what_was_held() -> None:
    """I5: a delta on the empty image replaces everything, and the index with it."""
    view = WriterView()
    replay(view, AclsImage.EMPTY, [acl(1), acl(2, "u")], 2)
    assert view.holds(acl(1).content)
    replay(view, AclsImage.EMPTY, [acl(2, "u"), acl(3, "v")], 5)
    assert [view.holds(each.content) for each in (acl(1), acl(2, "u"), acl(3, "v"))] == [False, True, True]


def test_view_equals_a_plain_dict_in_any_interleaving() -> None:
    """Random appends, replayed late and in lumps, always look like a dict that took every append at once."""
    rng = random.Random(7)
    for _ in range(60):
        view, image, model = WriterView(), AclsImage.EMPTY, dict[Uuid, AccessControlEntryRecord]()
        pending: list[list[AclRecord]] = []
        end = replayed_end = 0
        for _ in range(40):
            if rng.random() < 0.6:
                batch: list[AclRecord] = []
                for _ in range(rng.randint(1, 3)):
                    record = acl(rng.randint(1, 6), rng.choice("ab"))
                    if record.id in model and rng.random() < 0.5:
                        batch.append(RemoveAccessControlEntryRecord(record.id))
                        del model[record.id]
                    else:
                        batch.append(record)
                        model[record.id] = record
                end += len(batch)
                view.append(batch, end)
                pending.append(batch)
            elif pending:
                lump = [pending.pop(0) for _ in range(rng.randint(1, len(pending)))]
                replayed_end += sum(map(len, lump))
                image = replay(view, image, [record for batch in lump for record in batch], replayed_end)
            assert {record.id: record for record in view.frozen()} == model
            held = {record.content for record in model.values()}
            for name in "ab":
                assert view.holds(acl(1, name).content) == (acl(1, name).content in held)
