"""Query lines: fields, defaults, errors; tests/oracle compares the answers with Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from authorizer.engine.batch_query import answer_query
from records.errors import DecodeError
from support.decisions import READ, Fed, allow, topic

QUESTION = {
    "principal": "User:a",
    "host": "10.0.0.1",
    "operation": "READ",
    "resourceType": "TOPIC",
    "resourceName": "t",
}


def test_names_and_codes_mean_the_same() -> None:
    """Names may be in any case; codes are those of the protocol."""
    fed = Fed(allow("User:a", READ, topic("t")))
    expected = answer_query(fed.authorizer, QUESTION)
    assert expected["result"] == "ALLOWED"
    for fields in ({"operation": 3, "resourceType": 2}, {"operation": "read", "patternType": "LITERAL"}):
        assert answer_query(fed.authorizer, {**QUESTION, **fields}) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "nothing"}, "kind is one of authorize, authorizedOperations, .* not `nothing`"),
        ({"operation": "FLY"}, "`FLY` is no AclOperation; there are UNKNOWN, ANY, ALL"),
        ({"resourceType": None}, "`None` is no ResourceType"),
    ],
)
def test_an_invalid_query_is_bad_data(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        answer_query(Fed().authorizer, {**QUESTION, **changes})


@pytest.mark.parametrize("field", sorted(QUESTION.keys() - {"host"}))
def test_a_missing_field_is_named(field: str) -> None:
    query = {key: value for key, value in QUESTION.items() if key != field}
    with pytest.raises(DecodeError, match=f"kind authorize has no field '{field}'"):
        answer_query(Fed().authorizer, query)


def test_a_query_that_kafka_refuses_has_its_error() -> None:
    """Class and message; a null message where Java's is null."""
    assert answer_query(Fed(ready=False).authorizer, QUESTION) == {
        "error": "AuthorizerNotReadyException: null"
    }
    assert answer_query(Fed().authorizer, {**QUESTION, "patternType": "PREFIXED"}) == {
        "error": "IllegalArgumentException: Only literal resources are supported. Got: PREFIXED"
    }
    expected = "expected a string in format principalType:principalName but got nocolon"
    assert answer_query(Fed().authorizer, {**QUESTION, "principal": "nocolon"}) == {
        "error": f"IllegalArgumentException: {expected}"
    }


def test_a_normalized_host_is_shown() -> None:
    """The answer has the text that ACLs are compared with; a host name is an error."""
    assert answer_query(Fed().authorizer, {**QUESTION, "host": "::1"})["hostAddress"] == "0:0:0:0:0:0:0:1"
    assert "hostAddress" not in answer_query(Fed().authorizer, QUESTION)
    assert answer_query(Fed().authorizer, {**QUESTION, "host": "localhost"}) == {
        "error": "IllegalArgumentException: `localhost` is not an IP address"
    }
