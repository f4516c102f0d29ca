"""AclIndex: when it creates structures and which it shares; tests/property checks its answers."""

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


class ChangingIndex:
    """An index of rows, and its current image."""

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
    """The rights of the principal, created if necessary."""
    return index.principals.rights_of(principal)


def topic_rights(index: AclIndex, principal: str) -> ListableRights:
    """The principal's rights to topics, which must exist."""
    rights_of_a = rights_of(index, principal)
    assert rights_of_a is not None
    assert rights_of_a[TOPIC] is not NO_RIGHTS_OF_TYPE
    return rights_of_a[TOPIC]


def names_in(rights: ListableRights) -> set[str]:
    """All names and prefixes of the rights."""
    return {cover.name for cover in rights.covers()}


def requested_rights(index: AclIndex, principal: str) -> Rights:
    """The principal's rights to topics, as a request gets them."""
    principal_rights, _ = index.principals.rights_for(parse_kafka_principal(principal))
    return principal_rights[TOPIC]


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows for which objects are created during the test."""
    created: list[int] = []
    one, many = AclColumns.acl, AclColumns.acls

    def acl(columns: AclColumns, row: int) -> AppliedAcl:
        created.append(row)
        return one(columns, row)

    def acls(columns: AclColumns, rows: object) -> list[AppliedAcl]:
        found = many(columns, rows)
        created.extend(range(len(found)))
        return found

    monkeypatch.setattr(AclColumns, "acl", acl)
    monkeypatch.setattr(AclColumns, "acls", acls)
    return created


def test_rights_are_created_after_enough_requests_of_a_principal(
    objects: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are created once, without ACL objects; before that, rows give the answers."""
    monkeypatch.setattr(limits, "PATTERNS_PER_REQUEST", 1)
    patterns = (topic("t"), topics("t"), group("t"))
    acls = [
        allow(f"User:{name}", READ, each, host) for name in "ab*" for each in patterns for host in ("*", "h")
    ]
    index = ChangingIndex(*acls).index
    everyone = index.principals.wildcard_rights[TOPIC]
    assert isinstance(everyone, MaterializedRights)
    assert everyone.caches_names
    kinds = [type(requested_rights(index, "User:a")) for _ in range(4)]
    assert kinds == [RowRights, RowRights, MaterializedRights, MaterializedRights]
    assert requested_rights(index, "User:a") is requested_rights(index, "User:a")
    assert isinstance(requested_rights(index, "User:b"), RowRights)
    assert requested_rights(index, "User:c") is NO_RIGHTS_OF_TYPE
    assert objects == []


def test_each_action_of_a_call_counts_as_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rights may be created during a call with many actions, for its later actions."""
    monkeypatch.setattr(limits, "PATTERNS_PER_REQUEST", 1)
    index = ChangingIndex(*(allow("User:a", READ, topic(name)) for name in "abc")).index
    principal_rights, _ = index.principals.rights_for(parse_kafka_principal("User:a"))
    kinds = [type(principal_rights[TOPIC]) for _ in range(6)]
    assert kinds == [RowRights] * 2 + [MaterializedRights] * 4


def test_rights_of_a_principal_with_few_acls_are_created_immediately() -> None:
    """Their creation takes no longer than an answer from the rows."""
    index = ChangingIndex(allow("User:a", READ, topic("t"))).index
    rights = requested_rights(index, "User:a")
    assert isinstance(rights, MaterializedRights)
    assert not rights.caches_names


def test_rows_and_created_rights_give_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for ACLs added and removed after the rows, before the principal's first request."""
    monkeypatch.setattr(limits, "PATTERNS_PER_REQUEST", 0)
    removed_acls = [allow("User:a", READ, pattern) for pattern in (topic("gone"), topics("gone"), topic("*"))]
    remaining_acls = [
        allow("User:a", WRITE, pattern, "h") for pattern in (topic("kept"), topics("ke"), topics(""))
    ]
    changing_index = ChangingIndex(*removed_acls, *remaining_acls)
    changing_index.put(allow("User:a", READ, topics("new")), allow("User:a", READ, topic("kept"), "h"))
    index = changing_index.remove(*removed_acls)
    names = ("*", "gone", "gone1", "kept", "kep", "k", "new", "new1", "", "other")
    looked_up = requested_rights(index, "User:a")
    assert isinstance(looked_up, RowRights)
    rights = topic_rights(index, "User:a")
    assert isinstance(rights, ChangedRights)
    for name in names:
        one, other = cover_of(looked_up, name), cover_of(rights, name)
        assert [(each.prefixed, each.name, each.leaf) for each in one] == [
            (each.prefixed, each.name, each.leaf) for each in other
        ]
        for host in ("h", "other"):
            assert leaf_mask(one.combined, host) == leaf_mask(other.combined, host)


def test_rights_on_many_patterns_are_created_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request waits for them."""
    assert limits.LAZY_PATTERNS >= 1_000
    monkeypatch.setattr(limits, "PATTERNS_PER_REQUEST", 0)
    monkeypatch.setattr(limits, "LAZY_PATTERNS", 2)
    acls = [allow(f"User:{count}", READ, topic(str(at))) for count in (2, 3) for at in range(count)]
    index = ChangingIndex(*acls).index
    assert isinstance(requested_rights(index, "User:2"), RowRights)
    assert isinstance(requested_rights(index, "User:3"), MaterializedRights)


def test_an_update_shares_unchanged_structures() -> None:
    """Rows, other principals and other types are the same objects."""
    changing_index = ChangingIndex(
        *(
            allow(f"User:{number}", READ, pattern)
            for number in range(5)
            for pattern in (topic("t"), group("g"))
        )
    )
    before = changing_index.index
    rights_of_a, rights_of_b = rights_of(before, "User:1"), rights_of(before, "User:2")
    after = changing_index.put(allow("User:1", WRITE, topics("u")))
    changed = rights_of(after, "User:1")
    assert changed is not None
    assert rights_of_a is not None
    assert after.rows is before.rows
    assert rights_of(after, "User:2") is rights_of_b
    assert after.principals.wildcard_rights is before.principals.wildcard_rights
    assert changed[GROUP] is rights_of_a[GROUP]
    assert changed[TOPIC] is not rights_of_a[TOPIC]
    assert rights_of(before, "User:1") is rights_of_a


def test_an_update_creates_no_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A principal without requests gets no rights, however often its ACLs change."""
    monkeypatch.setattr(limits, "PATTERNS_PER_REQUEST", 0)
    changing_index = ChangingIndex(allow("User:a", READ, topic("t")))
    for number in range(100):
        changing_index.put(allow("User:a", READ, topic(str(number))))
    assert isinstance(requested_rights(changing_index.index, "User:a"), RowRights)
    assert names_in(topic_rights(changing_index.index, "User:a")) == {"t", *map(str, range(100))}


def test_removed_rows_do_not_come_back_in_new_rights() -> None:
    """The rows still have its ACLs; the changes remove all of them."""
    acls = [allow("User:a", READ, topic("t")), allow("User:*", READ, topic("t"))]
    changing_index = ChangingIndex(*acls)
    before = changing_index.index
    after = changing_index.remove(*acls)
    for _ in range(2):
        for all_rights in (rights_of(after, "User:a") or (), after.principals.wildcard_rights):
            assert not any(map(names_in, all_rights))
        rights_of_a = rights_of(before, "User:a")
        assert rights_of_a is not None
        assert names_in(rights_of_a[TOPIC])
    assert names_in(before.principals.wildcard_rights[TOPIC])
    assert after.resources.count == 0
    assert not after.resources.covers(TOPIC, "t")
    assert before.resources.covers(TOPIC, "t")


def test_added_and_removed_acls_leave_nothing_behind() -> None:
    """Memory depends on the ACLs in force, not on the number of changes between two merges."""
    changing_index = ChangingIndex(allow("User:a", READ, topic("t")))
    added_acls = [
        allow(principal, READ, pattern)
        for principal in ("User:a", "User:new", "Other:new", "nocolon")
        for pattern in (topic("t"), topics("t"), topics("tt"), group("g"))
    ]
    assert rights_of(changing_index.put(*added_acls), "User:new") is not None
    index = changing_index.remove(*added_acls)
    assert rights_of(index, "User:new") is None
    assert rights_of(index, "Other:new") is None
    assert [list(named) for named in index.principals._changed.values()] == [["a"], []]
    assert isinstance(topic_rights(index, "User:a"), MaterializedRights)
    rights_of_a = rights_of(index, "User:a")
    assert rights_of_a is not None
    assert rights_of_a[GROUP] is NO_RIGHTS_OF_TYPE
    assert index.resources.changed_names(TOPIC) == index.resources.changed_names(GROUP) == set()
    assert (index.resources.names(TOPIC), index.resources.names(GROUP)) == ({"t"}, set())
    assert index.resources.count == 1


def test_an_undone_change_restores_the_earlier_rights() -> None:
    """A principal with undone changes is no longer among the changed ones, if its rights exist."""
    changing_index = ChangingIndex(allow("User:a", READ, topic("t")))
    before = rights_of(changing_index.index, "User:a")
    added_acls = [allow("User:a", WRITE, topic("u")), allow("User:a", WRITE, topics("u"))]
    assert rights_of(changing_index.put(*added_acls), "User:a") is not before
    index = changing_index.remove(*added_acls)
    assert rights_of(index, "User:a") is before
    assert not any(index.principals._changed.values())


def test_a_name_with_very_many_acls_is_neither_scanned_nor_copied(objects: list[int]) -> None:
    """A query for one principal's ACLs on it, and an update, read few rows."""
    shared_acls = [allow(f"User:{number}", READ, topic("t")) for number in range(2_000)]
    changing_index = ChangingIndex(*shared_acls)
    place = (int(TOPIC), "t")
    found = changing_index.index.resources.acls_for(place, "User:7", "h")
    assert [acl.record for acl in found] == [shared_acls[7]]
    changing_index.put(allow("User:7", WRITE, topic("t"), "h"))
    changing_index.remove(shared_acls[7], shared_acls[8])
    index = changing_index.index
    assert rights_of(index, "User:7") is not None
    assert index.resources.covers(TOPIC, "t")
    assert [acl.record.host for acl in index.resources.acls_for(place, "User:7", "h")] == ["h"]
    assert len(objects) < 20
    assert len(list(index.resources.acls(place))) == len(shared_acls) - 1


def test_covering_creates_no_objects(objects: list[int]) -> None:
    """allow.everyone.if.no.acl.found checks it for every decision, in rows and changes."""
    removed_acls = [allow("User:a", READ, topics("gone-")), allow("User:b", READ, topics("gone-"))]
    changing_index = ChangingIndex(
        allow("User:a", READ, topic("t")), allow("User:a", READ, topics("kept-")), *removed_acls
    )
    changing_index.remove(removed_acls[0])
    assert changing_index.index.resources.covers(TOPIC, "gone-1")
    changing_index.remove(removed_acls[1])
    changing_index.put(allow("User:a", READ, topics("new-")))
    objects.clear()
    covers = changing_index.index.resources.covers
    names = ("t", "t1", "kept-", "kept-1", "gone-1", "new-1", "")
    assert [name for name in names if covers(TOPIC, name)] == ["t", "kept-", "kept-1", "new-1"]
    assert not any(covers(GROUP, name) for name in names)
    assert [*changing_index.index.resources.prefixes_of(TOPIC, "kept-1")] == ["kept-"]
    assert objects == []


def test_merged_columns_give_an_equal_index() -> None:
    """A merge replaces rows and changes, and every answer is the same."""
    changing_index = ChangingIndex(allow("User:a", READ, topic("t")))
    before = changing_index.put(allow("User:a", READ, topic("u")), allow("User:b", READ, topic("t")))
    delta = AclsDelta(changing_index.image)
    merged = changing_index.image.merged()
    after = before.with_delta(delta, merged)
    assert after.rows is not before.rows
    assert after.resources.count == before.resources.count == 3
    assert after.resources.changed_names(TOPIC) == set()
    for principal in ("User:a", "User:b"):
        one, other = topic_rights(before, principal), topic_rights(after, principal)
        assert names_in(one) == names_in(other)


def test_two_indexes_can_derive_from_one() -> None:
    """A publisher may fail on an update and get it again, or get another one."""
    changing_index = ChangingIndex(allow("User:a", READ, topic("t")))
    before, image = changing_index.index, changing_index.image
    one = changing_index.put(allow("User:a", READ, topic("one")), allow("User:b", READ, topics("one")))
    changing_index.index, changing_index.image = before, image
    other = changing_index.put(allow("User:a", READ, topic("other")), allow("User:b", READ, topics("other")))
    for index, names in ((one, {"t", "one"}), (other, {"t", "other"}), (before, {"t"})):
        assert index.resources.names(TOPIC) == names
        assert names_in(topic_rights(index, "User:a")) == names
        assert (rights_of(index, "User:b") is None) is (index is before)


def test_pattern_types_and_resource_types_are_separate() -> None:
    """A literal and a prefix of one name, and one name of two types, are different patterns."""
    index = ChangingIndex(allow("User:a", READ, topic("t")), allow("User:b", READ, topics("t"))).index
    resources = index.resources
    assert [acl.record.principal for acl in resources.acls((int(TOPIC), "t"))] == ["User:a"]
    assert [acl.record.principal for acl in resources.acls((TOPIC + PREFIXED, "t"))] == ["User:b"]
    assert [*resources.acls((int(GROUP), "t"))] == []


def test_the_acls_of_a_principal_are_its_rows_and_changes() -> None:
    """Also for a principal without a colon, which matches no caller; older indexes do not change."""
    removed_acls = [allow(principal, READ, topic("gone")) for principal in ("User:a", "nocolon")]
    remaining_acls = [allow(principal, READ, topic("kept")) for principal in ("User:a", "nocolon")]
    changing_index = ChangingIndex(*removed_acls, *remaining_acls)
    before = changing_index.index
    added = [allow(principal, READ, topic("added")) for principal in ("User:a", "nocolon")]
    changing_index.put(*added)
    index = changing_index.remove(*removed_acls)
    for number, principal in enumerate(("User:a", "nocolon")):
        columns = index.rows.columns
        assert [acl.record for acl in columns.acls(index.rows_of(principal))] == [remaining_acls[number]]
        assert [acl.record for acl in index.added_of(principal)] == [added[number]]
        earlier = sorted(acl.record.resource_name for acl in columns.acls(before.rows_of(principal)))
        assert earlier == ["gone", "kept"]
        assert list(before.added_of(principal)) == []
    assert sorted(acl.record.principal for acl in index.added_of(None)) == ["User:a", "nocolon"]
