"""The recorded answers of each release of Kafka (tests/data/oracle/releases), compared."""

from __future__ import annotations

from typing import Any

import pytest

from authorizer.api.kafka_version import KAFKA_VERSION_CONFIG, KafkaVersion
from authorizer.engine.batch_query import answer_query
from records.acl import AclOperation, ResourceType
from records.codecs.json import from_json
from records.entries import AccessControlEntryRecord
from records.ids import Uuid, uuid_to_string
from support.oracle import Replayed
from support.release_oracle import VERSIONS, Json, recorded, recorded_states


def replayed(state: Json, version: str | None) -> Replayed:
    """An authorizer with the ACLs and settings of a state; ``version`` None is an unknown release."""
    found = Replayed(
        {
            "super.users": state["superUsers"],
            "allow.everyone.if.no.acl.found": state["allowEveryone"],
            KAFKA_VERSION_CONFIG: version or "",
        }
    )
    records = []
    for number, acl in enumerate(state["acls"]):
        data = {"id": uuid_to_string(Uuid(number.to_bytes(16))), **acl}
        record = from_json({"type": "ACCESS_CONTROL_ENTRY_RECORD", "version": 0, "data": data})
        assert isinstance(record, AccessControlEntryRecord)
        records.append(record)
    found.apply(records)
    return found


def answers_of_aclog(state: Json, version: str | None) -> list[Any]:
    authorizer = replayed(state, version).authorizer
    answers = []
    for request in state["queries"]:
        kind = "authorize" if "resourceName" in request else "authorizeByResourceType"
        found = answer_query(authorizer, {"kind": kind, **request})
        answers.append(found.get("result", found.get("bits")))
    return answers


def release(version: str) -> KafkaVersion:
    return KafkaVersion(version.rpartition(".")[0])


def test_every_release_was_recorded() -> None:
    assert [release(version) for version in VERSIONS] == [*KafkaVersion]


@pytest.mark.parametrize("version", VERSIONS)
def test_supported_operations_are_those_of_the_release(version: str) -> None:
    table, _ = recorded(version)
    actual = {
        kind.name: {each.name for each in release(version).supported_operations(kind)}
        for kind in ResourceType
        if kind > ResourceType.ANY
    }
    assert actual == {kind: set(names) for kind, names in table.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_are_those_of_the_release(version: str) -> None:
    """Answers of authorize, authorizeByResourceType and authorizedOperations."""
    _, answers = recorded(version)
    for state, expected in zip(recorded_states(), answers, strict=True):
        assert answers_of_aclog(state, release(version).value) == expected


def test_an_unknown_release_gets_the_answer_of_all_releases() -> None:
    """A result is ALLOWED if all releases allow it; likewise an operation, of the releases that have it."""
    differing = 0
    for number, state in enumerate(recorded_states()):
        of_all = zip(*(recorded(version)[1][number] for version in VERSIONS), strict=True)
        for request, actual, recorded_answers in zip(
            state["queries"], answers_of_aclog(state, None), of_all, strict=True
        ):
            differing += len(set(recorded_answers)) > 1
            if isinstance(actual, str):
                assert actual == ("DENIED" if "DENIED" in recorded_answers else "ALLOWED")
            else:
                kind = request["resourceType"]
                expected = sum(
                    1 << AclOperation[name]
                    for name in recorded(VERSIONS[-1])[0][kind]
                    if all(
                        bits >> AclOperation[name] & 1
                        for version, bits in zip(VERSIONS, recorded_answers, strict=True)
                        if name in recorded(version)[0][kind]
                    )
                )
                assert actual == expected
    assert differing > 50
