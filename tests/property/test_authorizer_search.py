"""Searches, compared with the definition: every permitted candidate and no other, with and without pages."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from authorizer.api.authorizer_api import RequestContext
from authorizer.engine.decisions.search import (
    Subjects,
    allowed_names,
    allowed_prefixes,
    exceptional_names,
    mentioned_names,
)
from authorizer.node.standard_authorizer import StandardAuthorizer
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from support import naive
from support.acl_strategies import IDS, acls, naive_requests, names, request_of
from support.decisions import Fed

SUPER_USERS = frozenset({"User:b", "Group:z", "User:a:b"})
TYPES = ("User", "Group", "User:a", "")

histories = st.lists(st.lists(acls() | st.sampled_from(IDS), max_size=12), max_size=3)
History = list[list[AccessControlEntryRecord | Uuid]]


def authorizer_of(
    history: History, *, allow_everyone: bool
) -> tuple[StandardAuthorizer, list[AccessControlEntryRecord]]:
    """An authorizer after a history, and the ACLs that are in force."""
    fed = Fed(
        super_users=";".join(SUPER_USERS),
        allow_everyone_if_no_acl_found=str(allow_everyone),
    )
    acls: dict[Uuid, AccessControlEntryRecord] = {}
    for changes in history:
        for change in changes:
            if isinstance(change, AccessControlEntryRecord):
                acls[change.id] = change
            else:
                acls.pop(change, None)
        removed = RemoveAccessControlEntryRecord
        fed.publish(
            *(each if isinstance(each, AccessControlEntryRecord) else removed(each) for each in changes)
        )
    return fed.authorizer, list(acls.values())


def named(acls: Iterable[AccessControlEntryRecord], principal_type: str) -> set[str]:
    """The principals of a type that ACLs or super.users name."""
    found = set()
    for principal in {acl.principal for acl in acls} - {"User:*"}:
        own_type, colon, name = principal.partition(":")
        if colon and own_type == principal_type:
            found.add(name)
    prefix = f"{principal_type}:"
    return found | {each.removeprefix(prefix) for each in SUPER_USERS if each.startswith(prefix)}


@given(histories, naive_requests(), st.sampled_from(TYPES), st.booleans(), st.integers(0, 5))
def test_subject_search_finds_every_permitted_principal(
    history: History, request: naive.Request, principal_type: str, allow_everyone: bool, at: int
) -> None:
    """The named principals that are permitted, and whether an unnamed one is."""
    authorizer, truth = authorizer_of(history, allow_everyone=allow_everyone)
    settings = naive.Settings(SUPER_USERS, allow_everyone)

    def may(name: str) -> bool:
        return naive.decide(truth, as_principal(request, principal_type, name), settings)[0]

    context, action = request_of(request)
    search = Subjects(authorizer.state, principal_type, context.client_address, action)
    expected = sorted(filter(may, named(truth, principal_type)))
    assert list(search.names()) == expected
    assert search.is_anyone_allowed is may("not named anywhere")
    for after in expected[at : at + 1]:
        assert list(search.names(after)) == expected[at + 1 :]


def as_principal(request: naive.Request, principal_type: str, name: str) -> naive.Request:
    return naive.Request(
        principal_type, name, request.host, request.operation, request.resource_type, request.name
    )


def about(request: naive.Request, name: str) -> naive.Request:
    return naive.Request(
        request.principal_type,
        request.principal_name,
        request.host,
        request.operation,
        request.resource_type,
        name,
    )


@given(histories, naive_requests(), st.booleans(), st.none() | st.sets(names()), st.integers(0, 5))
def test_resource_search_finds_every_permitted_name(
    history: History, request: naive.Request, allow_everyone: bool, given: set[str] | None, at: int
) -> None:
    """The names that exist, or those that literal ACLs in force mention."""
    authorizer, truth = authorizer_of(history, allow_everyone=allow_everyone)
    settings = naive.Settings(SUPER_USERS, allow_everyone)
    mentioned = {
        acl.resource_name
        for acl in truth
        if (acl.resource_type, acl.pattern_type) == (request.resource_type, 3) and acl.resource_name != "*"
    }
    assert mentioned_names(authorizer.state.index, request.resource_type) == mentioned
    candidates = mentioned if given is None else given
    expected = sorted(name for name in candidates if naive.decide(truth, about(request, name), settings)[0])
    context, _ = request_of(request)

    def found(after: str | None) -> list[str]:
        kind, operation = request.resource_type, request.operation
        return list(allowed_names(authorizer.state, context, operation, kind, candidates, after))

    assert found(None) == expected
    for after in expected[at : at + 1]:
        assert found(after) == expected[at + 1 :]


@given(
    histories, naive_requests(), st.booleans(), st.lists(names() | st.text("abc*", max_size=5), max_size=10)
)
def test_listed_prefixes_and_exceptions_decide_every_name(
    history: History, request: naive.Request, allow_everyone: bool, candidates: list[str]
) -> None:
    """The longest listed prefix decides every name, except for the listed exceptions.

    Each exception is listed once, and only where the prefixes give another answer.
    """
    authorizer, truth = authorizer_of(history, allow_everyone=allow_everyone)
    settings = naive.Settings(SUPER_USERS, allow_everyone)
    context, _ = request_of(request)
    assert isinstance(context, RequestContext)
    search = authorizer.state, context, request.operation, request.resource_type
    allowed, denied = allowed_prefixes(*search)
    assert not set(allowed) & set(denied)
    existing = set(candidates[:3])
    exceptional = exceptional_names(*search, existing, (allowed, denied))
    assert not existing & {*exceptional[0], *exceptional[1]}
    literal = {acl.resource_name for acl in truth if acl.pattern_type == 3 and acl.resource_name != "*"}
    prefixes = [acl.resource_name for acl in truth if acl.pattern_type != 3]
    for name in {*candidates, *literal, *(f"{prefix}q" for prefix in prefixes), "q"} - existing:
        listed = [prefix for prefix in (*allowed, *denied) if name.startswith(prefix)]
        is_allowed = bool(listed) and max(listed, key=len) in allowed
        for answer, names_of in zip((True, False), exceptional, strict=True):
            if name in names_of:
                assert is_allowed is not answer
                is_allowed = answer
        assert is_allowed is naive.decide(truth, about(request, name), settings)[0], name
