"""ChangeFeed: who follows it knows every state, or knows that it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizer.api.acl_json import acl_json
from authorizer.node import change_feed
from authorizer.node.change_feed import Change, ChangeFeed, RetainedChanges
from records.entries import AccessControlEntryRecord, OtherRecord, RemoveAccessControlEntryRecord
from snapshot.image import AclsImage
from support.acl_strategies import IDS, acls
from support.decisions import READ, allow, topic
from support.update_publisher import UpdatePublisher

record = acls() | st.sampled_from(IDS).map(RemoveAccessControlEntryRecord) | st.just(OtherRecord(12, 0))
batches = st.lists(record, max_size=4)
Record = AccessControlEntryRecord | RemoveAccessControlEntryRecord | OtherRecord


class Follower:
    """Holds the ACLs as the changes leave them, and lists them anew where it has to."""

    def __init__(self) -> None:
        self.held: set[AccessControlEntryRecord] = set()
        self.generation, self.offset = 0, 0
        self.reloads = 0

    def catch_up(self, known: RetainedChanges, image: AclsImage) -> None:
        changes = known.since(self.offset) if known.generation == self.generation else None
        if changes is None:
            self.held = {acl.record for acl in image}
            self.generation, self.offset = known.generation, known.end
            self.reloads += 1
            return
        for change in changes:
            assert change.base >= self.offset
            removed, new = ({acl.record for acl in acls} for acls in (change.removed, change.added))
            assert removed <= self.held
            self.held = (self.held - removed) | new
            self.offset = change.offset


@given(
    st.lists(st.tuples(st.sampled_from(["batch", "batch", "reload"]), batches, st.booleans()), max_size=15)
)
def test_a_follower_has_every_state(steps: list[tuple[str, list[Record], bool]]) -> None:
    """Through updates, empty updates and reloads, at any poll interval."""
    feed, follower = ChangeFeed(), Follower()
    published = UpdatePublisher(feed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(change_feed, "CHANGES_MAX", 3)
        patch.setattr(change_feed, "ACLS_MAX", 5)
        published.batch()
        for kind, records, looks in [*steps, ("batch", [], True)]:
            if kind == "batch":
                published.batch(*records)
            else:
                published.reload(*records)
            assert sum(map(len, feed.retained.changes)) <= 5
            assert len(feed.retained.changes) <= 3
            if looks:
                follower.catch_up(feed.retained, published.image)
                assert follower.held == {acl.record for acl in published.image}


def test_a_replaced_acl_is_removed_as_it_was_and_added_as_it_is() -> None:
    before = allow("User:a", READ, topic("t"))
    after = AccessControlEntryRecord(before.id, 2, "u", 3, "User:a", "*", 3, 3)
    feed = ChangeFeed()
    published = UpdatePublisher(feed)
    published.batch(before)
    published.batch(after)
    (change,) = feed.retained.changes
    assert [acl.record for acl in change.removed] == [before]
    assert [acl.record for acl in change.added] == [after]
    assert (change.base, change.offset) == (1, 2)
    assert acl_json(before)["id"].encode() in change.json()


def test_an_offset_within_an_update_is_refused() -> None:
    """Between two records of an update the ACLs may differ from those before and after it."""
    changes = (Change(3, 5, (), ()), Change(7, 9, (), ()))
    known = RetainedChanges(1, 2, 10, changes)
    expected = [None, None, 2, 2, None, 1, 1, 1, None, 0, 0, None]
    found = [known.since(offset) for offset in range(12)]
    assert [None if later is None else len(later) for later in found] == expected


def test_a_large_update_creates_no_objects() -> None:
    """The follower lists the ACLs again."""
    feed = ChangeFeed()
    published = UpdatePublisher(feed)
    published.batch()
    published.batch(allow("User:a", READ, topic("t")))
    published.batch(*(allow("User:a", READ, topic(f"t{number}")) for number in range(10_001)))
    assert (feed.retained.since(1), feed.retained.since(published.end_offset)) == (None, ())
