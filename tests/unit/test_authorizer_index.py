"""AclIndex: what it makes, when, and what it shares; that it is right is a property (tests/property)."""

from __future__ import annotations

import pytest

from authorizer.engine.index import limits
from authorizer.engine.index.acl_index import AclIndex
from authorizer.engine.index.masks import leaf_mask
from authorizer.engine.index.pattern_keys import PREFIXED
from authorizer.engine.index.principal_index import PrincipalRights
from authorizer.engine.index.rights import (
    NO_RIGHTS_OF_TYPE,
    ChangedRights,
    ListableRights,
    MaterializedRights,
    Rights,
    RowRights,
    cover_of,
)
from records.columns.acl_table import AppliedAcl
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.log_batch import LogRecord
from records.principal import parse_kafka_principal
from snapshot.columns import AclColumns
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support.decisions import GROUP, READ, TOPIC, WRITE, allow, group, topic, topics


class Changing:
    """An index of rows, and the images that it follows."""

    def __init__(self, *acls: AccessControlEntryRecord) -> None:
        columns = AclColumns.of([AppliedAcl(acl, 0, 0) for acl in acls])
        self.image = AclsImage.restored(columns, digest=0, provenance=Provenance(1, 0, 0))
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
        self.index = self.index.with_delta(delta, self.image)
        return self.index


def rights_of(index: AclIndex, principal: str) -> PrincipalRights | None:
    """All of them, made now if they are not."""
    return index.principals.rights_of(principal)


def topic_rights(index: AclIndex, principal: str) -> ListableRights:
    """There are some."""
    mine = rights_of(index, principal)
    assert mine is not None
    assert mine[TOPIC] is not NO_RIGHTS_OF_TYPE
    return mine[TOPIC]


def names_in(rights: ListableRights) -> set[str]:
    """All names and prefixes."""
    return {cover.name for cover in rights.covers()}


def asked(index: AclIndex, principal: str) -> Rights:
    """The principal's own rights to topics, as a question finds them."""
    own, _ = index.principals.rights_for(parse_kafka_principal(principal))
    return own[TOPIC]


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


def test_rights_are_made_when_a_principal_has_asked_often_enough(
    objects: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of codes, without objects for ACLs, once. Before, the rows are asked. Those of everyone are there."""
    monkeypatch.setattr(limits, "PATTERNS_PER_REQUEST", 1)
    patterns = (topic("t"), topics("t"), group("t"))
    acls = [
        allow(f"User:{name}", READ, each, host) for name in "ab*" for each in patterns for host in ("*", "h")
    ]
    index = Changing(*acls).index
    everyone = index.principals.wildcard_rights[TOPIC]
    assert isinstance(everyone, MaterializedRights)
    assert everyone.caches_names
    kinds = [type(asked(index, "User:a")) for _ in range(4)]
    assert kinds == [RowRights, RowRights, MaterializedRights, MaterializedRights]
    assert asked(index, "User:a") is asked(index, "User:a")
    assert isinstance(asked(index, "User:b"), RowRights)
    assert asked(index, "User:c") is NO_RIGHTS_OF_TYPE
    assert objects == []


def test_actions_of_one_call_count_as_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rights are made in the middle of a call with many actions, and serve the rest of it."""
    monkeypatch.setattr(limits, "PATTERNS_PER_REQUEST", 1)
    index = Changing(*(allow("User:a", READ, topic(name)) for name in "abc")).index
    own, _ = index.principals.rights_for(parse_kafka_principal("User:a"))
    kinds = [type(own[TOPIC]) for _ in range(6)]
    assert kinds == [RowRights] * 2 + [MaterializedRights] * 4


def test_a_principal_with_few_acls_gets_its_rights_at_once() -> None:
    """Making them takes no longer than an answer from the rows."""
    index = Changing(allow("User:a", READ, topic("t"))).index
    rights = asked(index, "User:a")
    assert isinstance(rights, MaterializedRights)
    assert not rights.caches_names


def test_answers_from_the_rows_are_those_of_made_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of what was added and removed since the rows, before the principal first asked."""
    monkeypatch.setattr(limits, "PATTERNS_PER_REQUEST", 0)
    gone = [allow("User:a", READ, pattern) for pattern in (topic("gone"), topics("gone"), topic("*"))]
    kept = [allow("User:a", WRITE, pattern, "h") for pattern in (topic("kept"), topics("ke"), topics(""))]
    changing = Changing(*gone, *kept)
    changing.put(allow("User:a", READ, topics("new")), allow("User:a", READ, topic("kept"), "h"))
    index = changing.remove(*gone)
    names = ("*", "gone", "gone1", "kept", "kep", "k", "new", "new1", "", "other")
    looked_up = asked(index, "User:a")
    assert isinstance(looked_up, RowRights)
    made = topic_rights(index, "User:a")
    assert isinstance(made, ChangedRights)
    for name in names:
        one, other = cover_of(looked_up, name), cover_of(made, name)
        assert [(each.prefixed, each.name, each.leaf) for each in one] == [
            (each.prefixed, each.name, each.leaf) for each in other
        ]
        for host in ("h", "other"):
            assert leaf_mask(one.combined, host) == leaf_mask(other.combined, host)


def test_rights_in_very_many_places_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No question waits for them."""
    assert limits.LAZY_PATTERNS >= 1_000
    monkeypatch.setattr(limits, "PATTERNS_PER_REQUEST", 0)
    monkeypatch.setattr(limits, "LAZY_PATTERNS", 2)
    acls = [allow(f"User:{count}", READ, topic(str(at))) for count in (2, 3) for at in range(count)]
    index = Changing(*acls).index
    assert isinstance(asked(index, "User:2"), RowRights)
    assert isinstance(asked(index, "User:3"), MaterializedRights)


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
    mine, others = rights_of(before, "User:1"), rights_of(before, "User:2")
    after = changing.put(allow("User:1", WRITE, topics("u")))
    changed = rights_of(after, "User:1")
    assert changed is not None
    assert mine is not None
    assert after.rows is before.rows
    assert rights_of(after, "User:2") is others
    assert after.principals.wildcard_rights is before.principals.wildcard_rights
    assert changed[GROUP] is mine[GROUP]
    assert changed[TOPIC] is not mine[TOPIC]
    assert rights_of(before, "User:1") is mine


def test_an_update_makes_no_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A principal that does not ask costs no tables, however often its ACLs change."""
    monkeypatch.setattr(limits, "PATTERNS_PER_REQUEST", 0)
    changing = Changing(allow("User:a", READ, topic("t")))
    for number in range(100):
        changing.put(allow("User:a", READ, topic(str(number))))
    assert isinstance(asked(changing.index, "User:a"), RowRights)
    assert names_in(topic_rights(changing.index, "User:a")) == {"t", *map(str, range(100))}


def test_a_principal_that_lost_all_is_not_made_of_its_rows_again() -> None:
    """The rows still have it; what changed since says that there is nothing."""
    acls = [allow("User:a", READ, topic("t")), allow("User:*", READ, topic("t"))]
    changing = Changing(*acls)
    before = changing.index
    after = changing.remove(*acls)
    for _ in range(2):
        for all_rights in (rights_of(after, "User:a") or (), after.principals.wildcard_rights):
            assert not any(map(names_in, all_rights))
        mine = rights_of(before, "User:a")
        assert mine is not None
        assert names_in(mine[TOPIC])
    assert names_in(before.principals.wildcard_rights[TOPIC])
    assert after.resources.count == 0
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
    assert rights_of(changing.put(*came), "User:new") is not None
    index = changing.remove(*came)
    assert rights_of(index, "User:new") is None
    assert rights_of(index, "Other:new") is None
    assert [list(named) for named in index.principals._changed.values()] == [["a"], []]
    assert isinstance(topic_rights(index, "User:a"), MaterializedRights)
    mine = rights_of(index, "User:a")
    assert mine is not None
    assert mine[GROUP] is NO_RIGHTS_OF_TYPE
    assert index.resources.changed_names(TOPIC) == index.resources.changed_names(GROUP) == set()
    assert (index.resources.names(TOPIC), index.resources.names(GROUP)) == ({"t"}, set())
    assert index.resources.count == 1


def test_rights_that_are_as_before_are_those_of_before() -> None:
    """A principal whose ACLs came and went is no longer among those that changed, if its rights are made."""
    changing = Changing(allow("User:a", READ, topic("t")))
    before = rights_of(changing.index, "User:a")
    came = [allow("User:a", WRITE, topic("u")), allow("User:a", WRITE, topics("u"))]
    assert rights_of(changing.put(*came), "User:a") is not before
    index = changing.remove(*came)
    assert rights_of(index, "User:a") is before
    assert not any(index.principals._changed.values())


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
    assert rights_of(index, "User:7") is not None
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
    after = before.with_delta(delta, merged)
    assert after.rows is not before.rows
    assert after.resources.count == before.resources.count == 3
    assert after.resources.changed_names(TOPIC) == set()
    for principal in ("User:a", "User:b"):
        one, other = topic_rights(before, principal), topic_rights(after, principal)
        assert names_in(one) == names_in(other)


def test_two_indexes_may_follow_one() -> None:
    """As when a publisher fails on an update, which is then given again, or another in its place."""
    changing = Changing(allow("User:a", READ, topic("t")))
    before, image = changing.index, changing.image
    one = changing.put(allow("User:a", READ, topic("one")), allow("User:b", READ, topics("one")))
    changing.index, changing.image = before, image
    other = changing.put(allow("User:a", READ, topic("other")), allow("User:b", READ, topics("other")))
    for index, names in ((one, {"t", "one"}), (other, {"t", "other"}), (before, {"t"})):
        assert index.resources.names(TOPIC) == names
        assert names_in(topic_rights(index, "User:a")) == names
        assert (rights_of(index, "User:b") is None) is (index is before)


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
