"""The palette's search: the best principals and names of each word."""

from __future__ import annotations

from typing import Any

from authorizer.analysis.matrix.matrix import Matrix
from authorizer.analysis.matrix.teams import Teams
from authorizer.console.routes.name_search import found_names
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import AclOperation, ResourceType
from records.columns.acl_table import AppliedAcl
from records.entries import AccessControlEntryRecord
from records.java_pattern import JavaPattern
from snapshot.delta import AclsDelta
from snapshot.image import NOWHERE, AclsImage
from support.node_acls import acl

SETTINGS = AuthorizerSettings()
TEAMS = Teams(JavaPattern.compile("User:(m?al)ice.*"))


def found(text: str, count: int = 5) -> list[dict[str, Any]]:
    bindings = [
        acl("User:alice", AclOperation.READ, "orders"),
        acl("User:malice", AclOperation.READ, "orders.v1"),
        acl("User:ALICE-2", AclOperation.READ, "all-orders", prefixed=True),
        acl("User:bob", AclOperation.READ, "orders", kind=ResourceType.GROUP),
    ]
    delta = AclsDelta(AclsImage.EMPTY)
    for number, binding in enumerate(bindings):
        record = AccessControlEntryRecord.from_binding(number.to_bytes(16), binding)  # type: ignore[arg-type]
        delta.put(AppliedAcl(record, None, 0))
    index = SETTINGS.index(delta.apply(NOWHERE))
    types = (ResourceType.TOPIC, ResourceType.GROUP)
    return found_names(text, [Matrix.of(index, SETTINGS, each) for each in types], count, TEAMS)


def test_an_equal_name_comes_first_then_those_that_begin_with_the_word() -> None:
    (word,) = found("alice")
    assert word["principals"] == ["User:alice", "User:ALICE-2", "User:malice"]
    assert word["teams"] == []
    (word,) = found("AL")
    assert word["teams"] == ["al", "mal"]
    (word,) = found("ORDERS")
    assert word["names"] == [
        {"type": "TOPIC", "text": "orders", "is_name": True},
        {"type": "GROUP", "text": "orders", "is_name": True},
        {"type": "TOPIC", "text": "orders.v1", "is_name": True},
        {"type": "TOPIC", "text": "all-orders", "is_name": False},
    ]


def test_each_word_is_searched_and_only_the_first_three() -> None:
    words = found("bob v1 user:m four")
    assert [each["word"] for each in words] == ["bob", "v1", "user:m"]
    assert words[0]["principals"] == ["User:bob"]
    assert words[2]["principals"] == ["User:malice"]
    assert found("   ") == []


def test_at_most_as_many_as_wanted_are_found() -> None:
    (word,) = found("o", 2)
    assert len(word["names"]) == 2
