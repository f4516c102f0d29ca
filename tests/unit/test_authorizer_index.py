"""AclIndex: what it makes, when, and what it shares; that it is right is a property (tests/property)."""

from __future__ import annotations

import pytest

import authorizer.index.acl_index
from authorizer.index.acl_index import LAZY_PLACES_MAXIMUM, AclIndex
from authorizer.index.lazy_rights import LazyRights
from authorizer.index.places import PREFIXED
from authorizer.index.rights import Rights
from records.columns.acl_table import AppliedAcl
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.log_batch import LogRecord
from snapshot.columns import AclColumns
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support.decisions import GROUP, READ, TOPIC, WRITE, allow, group, topic, topics


class Changing:
    """An index of rows, and the images that it follows."""

    def __init__(self, *acls: AccessControlEntryRecord) -> None:
        columns = AclColumns.of([AppliedAcl(acl, 0, 0) for acl in acls])
        self.image = AclsImage.restored(columns, digest=0, features={}, provenance=Provenance(1, 0, 0))
        self.index = AclIndex.of(self.image)

    def put(self, *acls: AccessControlEntryRecord) -> AclIndex:
        return self._publish(*acls)

    def remove(self, *acls: AccessControlEntryRecord) -> AclIndex:
        return self._publish(*(RemoveAccessControlEntryRecord(acl.id) for acl in acls))

    def _publish(self, *records: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> AclIndex:
        delta = AclsDelta(self.image)
        for record in records:
            delta.replay(LogRecord(self.image.provenance.end_offset, 0, record))
        self.image = delta.apply(Provenance(self.image.provenance.end_offset + 1, 0, 0))
        self.index = self.index.advanced(delta, self.image)
        return self.index


def topic_rights(index: AclIndex, principal: str) -> Rights:
    """There are some."""
    mine = index.rights_of(principal)
    assert mine is not None
    rights = mine[TOPIC]
    assert rights is not None
    return rights


def lazy_rights(index: AclIndex, principal: str) -> LazyRights:
    """What the index has for a principal, made or not."""
    principal_type, _, name = principal.partition(":")
    lazy = index.principals[principal_type].get(name)
    assert lazy is not None
    return lazy


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows that are made into objects meanwhile."""
    made: list[int] = []
    one, many = AclColumns.acl, AclColumns.acls

    def acl(columns: AclColumns, row: int) -> AppliedAcl:
        made.append(row)
        return one(columns, row)

    def acls(columns: AclColumns, rows: object) -> list[AppliedAcl]:
        found = many(columns, rows)
        made.extend(range(len(found)))
        return found

    monkeypatch.setattr(AclColumns, "acl", acl)
    monkeypatch.setattr(AclColumns, "acls", acls)
    return made


def test_rights_are_made_at_the_first_question(objects: list[int]) -> None:
    """For whoever asks, once; of codes, without objects for ACLs. Those of everyone are there at once."""
    index = Changing(
        *(allow(f"User:{name}", READ, topic("t"), host) for name in "ab*" for host in ("*", "h"))
    ).index
    assert index.everyone is lazy_rights(index, "User:*").rights
    assert (lazy_rights(index, "User:a").rights, lazy_rights(index, "User:b").rights) == (None, None)
    first = index.rights_of("User:a")
    assert first is not None
    assert index.rights_of("User:a") is first is lazy_rights(index, "User:a").rights
    assert lazy_rights(index, "User:b").rights is None
    assert objects == []


def test_rights_in_very_many_places_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's first question waits for them."""
    assert LAZY_PLACES_MAXIMUM >= 1_000
    monkeypatch.setattr(authorizer.index.acl_index, "LAZY_PLACES_MAXIMUM", 2)
    acls = [allow(f"User:{count}", READ, topic(str(at))) for count in (2, 3) for at in range(count)]
    index = Changing(*acls).index
    assert lazy_rights(index, "User:2").rights is None
    assert lazy_rights(index, "User:3").rights is not None


def test_an_update_shares_what_it_does_not_touch() -> None:
    """However large the rest is: rows, other principals and other types are the very same objects."""
    changing = Changing(
        *(
            allow(f"User:{number}", READ, pattern)
            for number in range(5)
            for pattern in (topic("t"), group("g"))
        )
    )
    before = changing.index
    mine, others = before.rights_of("User:1"), before.rights_of("User:2")
    after = changing.put(allow("User:1", WRITE, topics("u")))
    changed = after.rights_of("User:1")
    assert changed is not None
    assert mine is not None
    assert after.rows is before.rows
    assert after.principals["User"].newest is before.principals["User"].newest
    assert lazy_rights(after, "User:1") is not lazy_rights(before, "User:1")
    assert lazy_rights(after, "User:2") is lazy_rights(before, "User:2")
    assert after.rights_of("User:2") is others
    assert changed[GROUP] is mine[GROUP]
    assert changed[TOPIC] is not mine[TOPIC]
    assert before.rights_of("User:1") is mine


def test_an_update_makes_no_rights_unless_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A principal that never asks costs no tables; what waits for its question stays little."""
    monkeypatch.setattr(authorizer.index.acl_index, "_WAITING_MAXIMUM", 3)
    changing = Changing(allow("User:a", READ, topic("t")))
    for number in range(3):
        lazy = lazy_rights(changing.put(allow("User:a", READ, topic(str(number)))), "User:a")
        assert (lazy.rights, lazy.waiting) == (None, number + 1)
    lazy = lazy_rights(changing.put(allow("User:a", READ, topic("3"))), "User:a")
    assert lazy.rights is not None
    assert lazy.waiting == 0
    assert set(dict(topic_rights(changing.index, "User:a").literals())) == {"t", "0", "1", "2", "3"}


def test_a_principal_that_lost_all_is_not_made_of_its_rows_again() -> None:
    """The rows still have it; what changed since says that there is nothing."""
    acls = [allow("User:a", READ, topic("t")), allow("User:*", READ, topic("t"))]
    changing = Changing(*acls)
    before = changing.index
    after = changing.remove(*acls)
    for _ in range(2):
        for all_rights in (after.rights_of("User:a") or (), after.everyone):
            rights = [each for each in all_rights if each is not None]
            assert not any(dict(each.literals()) or each.prefixes for each in rights)
        mine = before.rights_of("User:a")
        assert mine is not None
        assert mine[TOPIC] is not None
    assert before.everyone[TOPIC] is not None
    assert after.count == 0
    assert not after.resources.covers(TOPIC, "t")
    assert before.resources.covers(TOPIC, "t")


def test_nothing_is_left_of_acls_that_came_and_went() -> None:
    """Memory follows what is in force, however many come and go between two merges."""
    changing = Changing(allow("User:a", READ, topic("t")))
    came = [
        allow(principal, READ, pattern)
        for principal in ("User:a", "User:new", "Other:new", "nocolon")
        for pattern in (topic("t"), topics("t"), topics("tt"), group("g"))
    ]
    assert changing.put(*came).rights_of("User:new") is not None
    index = changing.remove(*came)
    assert index.rights_of("User:new") is None
    assert index.rights_of("Other:new") is None
    assert [list(named.copy()) for named in index.principals.values()] == [["a"], []]
    assert [named.newest for named in index.principals.values()] == [
        named.copy() for named in index.principals.values()
    ]
    assert topic_rights(index, "User:a").prefixes is None
    mine = index.rights_of("User:a")
    assert mine is not None
    assert mine[GROUP] is None
    assert index.resources.changed_names(TOPIC) == index.resources.changed_names(GROUP) == set()
    assert (index.resources.names(TOPIC), index.resources.names(GROUP)) == ({"t"}, set())
    assert index.count == 1


def test_a_name_that_very_many_share_is_neither_scanned_nor_copied(objects: list[int]) -> None:
    """One principal's ACLs there, and an update, look at few rows, whatever the rest."""
    crowd = [allow(f"User:{number}", READ, topic("t")) for number in range(2_000)]
    changing = Changing(*crowd)
    place = (int(TOPIC), "t")
    found = changing.index.resources.acls_for(place, "User:7", "h")
    assert [acl.record for acl in found] == [crowd[7]]
    changing.put(allow("User:7", WRITE, topic("t"), "h"))
    changing.remove(crowd[7], crowd[8])
    index = changing.index
    assert index.rights_of("User:7") is not None
    assert index.resources.covers(TOPIC, "t")
    assert [acl.record.host for acl in index.resources.acls_for(place, "User:7", "h")] == ["h"]
    assert len(objects) < 20
    assert len(list(index.resources.acls(place))) == len(crowd) - 1


def test_covering_makes_no_objects(objects: list[int]) -> None:
    """allow.everyone.if.no.acl.found asks for every decision: rows, what came since and what went."""
    gone = [allow("User:a", READ, topics("gone-")), allow("User:b", READ, topics("gone-"))]
    changing = Changing(allow("User:a", READ, topic("t")), allow("User:a", READ, topics("kept-")), *gone)
    changing.remove(gone[0])
    assert changing.index.resources.covers(TOPIC, "gone-1")
    changing.remove(gone[1])
    changing.put(allow("User:a", READ, topics("new-")))
    objects.clear()
    covers = changing.index.resources.covers
    names = ("t", "t1", "kept-", "kept-1", "gone-1", "new-1", "")
    assert [name for name in names if covers(TOPIC, name)] == ["t", "kept-", "kept-1", "new-1"]
    assert not any(covers(GROUP, name) for name in names)
    assert [*changing.index.resources.prefixes_of(TOPIC, "kept-1")] == ["kept-"]
    assert objects == []


def test_new_columns_make_a_new_index() -> None:
    """A merge replaces rows and changes; what they say together is as it was."""
    changing = Changing(allow("User:a", READ, topic("t")))
    before = changing.put(allow("User:a", READ, topic("u")), allow("User:b", READ, topic("t")))
    delta = AclsDelta(changing.image)
    merged = changing.image.merged()
    after = before.advanced(delta, merged)
    assert after.rows is not before.rows
    assert after.count == before.count == 3
    assert after.resources.changed_names(TOPIC) == set()
    for principal in ("User:a", "User:b"):
        one, other = topic_rights(before, principal), topic_rights(after, principal)
        assert dict(one.literals()) == dict(other.literals())


def test_two_indexes_may_follow_one() -> None:
    """As when a publisher fails on an update, which is then given again, or another in its place."""
    changing = Changing(allow("User:a", READ, topic("t")))
    before, image = changing.index, changing.image
    one = changing.put(allow("User:a", READ, topic("one")), allow("User:b", READ, topics("one")))
    changing.index, changing.image = before, image
    other = changing.put(allow("User:a", READ, topic("other")), allow("User:b", READ, topics("other")))
    for index, names in ((one, {"t", "one"}), (other, {"t", "other"}), (before, {"t"})):
        assert index.resources.names(TOPIC) == names
        assert set(dict(topic_rights(index, "User:a").literals())) == names
        assert (index.rights_of("User:b") is None) is (index is before)


def test_kinds_do_not_meet() -> None:
    """A literal and a prefix of one name, and the same name of another type, are different places."""
    index = Changing(allow("User:a", READ, topic("t")), allow("User:b", READ, topics("t"))).index
    resources = index.resources
    assert [acl.record.principal for acl in resources.acls((int(TOPIC), "t"))] == ["User:a"]
    assert [acl.record.principal for acl in resources.acls((TOPIC + PREFIXED, "t"))] == ["User:b"]
    assert [*resources.acls((int(GROUP), "t"))] == []


def test_a_principals_acls_are_rows_in_force_and_what_was_added() -> None:
    """Also those of a principal without a colon, which matches nobody; older indexes list what they did."""
    gone = [allow(principal, READ, topic("gone")) for principal in ("User:a", "nocolon")]
    kept = [allow(principal, READ, topic("kept")) for principal in ("User:a", "nocolon")]
    changing = Changing(*gone, *kept)
    before = changing.index
    added = [allow(principal, READ, topic("added")) for principal in ("User:a", "nocolon")]
    changing.put(*added)
    index = changing.remove(*gone)
    for number, principal in enumerate(("User:a", "nocolon")):
        columns = index.rows.columns
        assert [acl.record for acl in columns.acls(index.rows_of(principal))] == [kept[number]]
        assert [acl.record for acl in index.added_of(principal)] == [added[number]]
        earlier = sorted(acl.record.resource_name for acl in columns.acls(before.rows_of(principal)))
        assert earlier == ["gone", "kept"]
        assert list(before.added_of(principal)) == []
    assert sorted(acl.record.principal for acl in index.added_of(None)) == ["User:a", "nocolon"]
