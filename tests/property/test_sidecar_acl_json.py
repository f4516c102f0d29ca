"""JSON requests and answers of /v1/acls: the other side decodes what was sent."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from authorizer.api.authorizer_api import AclBindingDeleteResult, AclCreateResult, AclDeleteResult
from authorizer.api.errors import InvalidRequestError
from authorizer.api.http.acl_requests import creation_body, deletion_body, listing_query
from authorizer.api.http.answers.acls import CreationResult, DeletionResult
from authorizer.sidecar.routes.request_bodies import bindings_of, filters_of, listing_of
from records.acl import AclBindingFilter
from records.entries import AccessControlEntryRecord
from support.acl_strategies import acls, filters


@given(st.lists(acls(), max_size=4))
def test_new_acls_arrive_unchanged(records: list[AccessControlEntryRecord]) -> None:
    """All codes with a name, also ANY and MATCH, which Kafka's checks refuse."""
    bindings = [binding for binding in map(AccessControlEntryRecord.binding, records) if is_named(binding)]
    assert bindings_of(creation_body(bindings)) == bindings


def is_named(binding: object) -> bool:
    return "UNKNOWN" not in str(binding)


@given(st.lists(filters().filter(lambda each: not each.is_unknown), max_size=4))
def test_filters_of_removals_and_listings_arrive_unchanged(expected: list[AclBindingFilter]) -> None:
    """A missing name and an empty name are different."""
    assert filters_of(deletion_body(expected)) == expected
    for each in expected:
        assert listing_of(listing_query(each).encode("ascii")) == (each, None, None)


_Answer = TypeVar("_Answer", CreationResult, DeletionResult)


def decoded(answer: _Answer) -> _Answer:
    """The answer as the client decodes it."""
    return msgspec.json.decode(msgspec.json.encode(answer), type=type(answer))


@given(st.none() | acls())
def test_results_of_a_creation_arrive_unchanged(record: AccessControlEntryRecord | None) -> None:
    """Codes without a name do not change."""
    result = decoded(CreationResult.of(AclCreateResult(record=record))).value()
    assert (result.exception, result.record) == (None, record)


@given(st.lists(acls(), max_size=3))
def test_results_of_a_removal_arrive_unchanged(records: list[AccessControlEntryRecord]) -> None:
    deleted = tuple(AclBindingDeleteResult(record.binding(), record=record) for record in records)
    result = decoded(DeletionResult.of(AclDeleteResult(deleted))).value()
    assert result == AclDeleteResult(deleted)
    assert [each.record for each in result.acl_binding_delete_results] == records


def test_errors_arrive_as_the_same_exceptions() -> None:
    error = InvalidRequestError("Invalid operation ANY")
    created, deleted = AclCreateResult(error), AclDeleteResult(exception=error)
    assert msgspec.to_builtins(CreationResult.of(created)) == {
        "error": {
            "name": "InvalidRequestException",
            "code": "INVALID_REQUEST",
            "message": "Invalid operation ANY",
        }
    }
    for back in (decoded(CreationResult.of(created)).value(), decoded(DeletionResult.of(deleted)).value()):
        assert type(back.exception) is InvalidRequestError
        assert str(back.exception) == str(error)
