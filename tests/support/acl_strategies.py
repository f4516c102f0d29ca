"""Hypothesis strategies for ACLs and requests that usually match one another.

They include unusual names, principals and codes.
"""

from __future__ import annotations

import uuid

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from authorizer.api.authorizer_api import Action, RequestContext
from records.acl import (
    AccessControlEntryFilter,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from records.principal import KafkaPrincipal
from support import naive

IDS = tuple(Uuid(uuid.UUID(int=number).bytes) for number in range(1, 25))

# Below `*`, the last code point, and two letters that UTF-16 sorts the other way round.
ODD_NAMES = ("", "!", "!a", "\U0010ffff", "a\U0010ffff", "\U0010ffff\U0010ffff", "\uff61", "\U0001f600a", "é")
FEW_PRINCIPALS = ("User:a", "User:a", "User:*", "User:b")
PRINCIPALS = (*FEW_PRINCIPALS, "Group:a", "Group:*", "User:a:b", "User:", ":", "nobody", "")
FEW_HOSTS = ("*", "10.0.0.1", "10.0.0.2")
HOSTS = (*FEW_HOSTS, "0:0:0:0:0:0:0:1", "")


FEW_OPERATIONS = (AclOperation.READ, AclOperation.ALL, AclOperation.DESCRIBE)


def names() -> SearchStrategy[str]:
    """Names that are often equal to, or prefixes of, one another."""
    few = st.sampled_from(["a", "a", "ab", "*", "abc"])
    return few | few | st.text("ab*", max_size=3) | st.sampled_from(ODD_NAMES)


def codes(*usual: int) -> SearchStrategy[int]:
    """One of the usual codes or, rarely, any int8."""
    often = st.sampled_from(usual)
    return st.one_of(often, often, often, often, often, often, often, st.integers(-128, 127))


def acls() -> SearchStrategy[AccessControlEntryRecord]:
    """One ACL under one of a few ids."""
    return st.builds(
        AccessControlEntryRecord,
        st.sampled_from(IDS),
        codes(ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP),
        names(),
        codes(PatternType.LITERAL, PatternType.PREFIXED),
        st.sampled_from(FEW_PRINCIPALS) | st.sampled_from(FEW_PRINCIPALS) | st.sampled_from(PRINCIPALS),
        st.sampled_from(FEW_HOSTS) | st.sampled_from(HOSTS),
        st.sampled_from(FEW_OPERATIONS) | codes(*range(AclOperation.ALL, AclOperation.TWO_PHASE_COMMIT + 1)),
        codes(AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY),
    )


def naive_requests() -> SearchStrategy[naive.Request]:
    """Requests of any principal on any resource; a session principal's type may contain a colon."""
    sessions = [*map(split, PRINCIPALS), ("User:a", "b")]
    return st.builds(
        lambda session, host, operation, resource_type, name: naive.Request(
            session[0], session[1], host, operation, resource_type, name
        ),
        st.just(("User", "a")) | st.just(("User", "a")) | st.sampled_from(sessions),
        st.sampled_from(HOSTS[1:]),
        st.sampled_from(FEW_OPERATIONS) | st.sampled_from(AclOperation),
        st.just(ResourceType.TOPIC) | st.just(ResourceType.TOPIC) | st.sampled_from(ResourceType),
        names(),
    )


def split(principal: str) -> tuple[str, str]:
    """Split a principal at its first colon."""
    principal_type, _, name = principal.partition(":")
    return principal_type, name


def filters() -> SearchStrategy[AclBindingFilter]:
    """Filters of every kind."""
    return st.builds(
        AclBindingFilter,
        st.builds(
            ResourcePatternFilter,
            st.sampled_from([ResourceType.ANY, ResourceType.TOPIC, *ResourceType]),
            st.none() | names(),
            st.sampled_from([PatternType.MATCH, *PatternType]),
        ),
        st.builds(
            AccessControlEntryFilter,
            st.none() | st.none() | st.sampled_from(PRINCIPALS),
            st.none() | st.none() | st.sampled_from(HOSTS),
            st.just(AclOperation.ANY) | st.sampled_from(AclOperation),
            st.just(AclPermissionType.ANY) | st.sampled_from(AclPermissionType),
        ),
    )


def request_of(request: naive.Request) -> tuple[RequestContext, Action]:
    """The request in the authorizer's types."""
    return (
        RequestContext(KafkaPrincipal(request.principal_type, request.principal_name), request.host),
        Action(request.operation, ResourcePattern(request.resource_type, request.name, PatternType.LITERAL)),
    )
