"""Decisions for an unknown release: ALLOWED if and only if every release allows the request."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from authorizer.analysis.permissions.decision_changes import decision_changes_between
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.api.authorizer_api import Action, AuthorizationResult, RequestContext
from authorizer.api.ip_address import host_address
from authorizer.api.kafka_version import KafkaVersion
from authorizer.engine.decisions.authorize import authorize_action
from authorizer.engine.decisions.notes import release_difference
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import AclOperation, PatternType, ResourcePattern, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from records.principal import parse_kafka_principal
from support.decisions import Fed

HOSTS = (
    "*",
    "10.0.0.1",
    "10.0.0.0/8",
    "10.0.0.0/24",
    "10.0.1.0/24",
    "0.0.0.0/0",
    "2001:db8::/32",
    "10.0.0.0/33",
)
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.1.7", "11.0.0.1", "2001:db8::1")
NAMES = ("a", "ab", "hardcode", "x")
PRINCIPALS = ("User:a", "User:b")
VERSIONS = (KafkaVersion.V4_3, KafkaVersion.V4_4)


@st.composite
def acl(draw: st.DrawFn) -> AccessControlEntryRecord:
    """Few names and hosts, so that several ACLs match one request."""
    return AccessControlEntryRecord(
        Uuid(draw(st.binary(min_size=16, max_size=16))),
        2,
        draw(st.sampled_from(("a", "ab", "h", "hardcode", "*"))),
        draw(st.sampled_from((3, 4))),
        draw(st.sampled_from(("User:a", "User:*"))),
        draw(st.sampled_from(HOSTS)),
        draw(st.sampled_from((2, 3, 8))),
        draw(st.sampled_from((2, 3))),
    )


ACLS = st.lists(acl(), max_size=7, unique_by=lambda record: record.content)


def fed(
    first: list[AccessControlEntryRecord],
    then: list[AccessControlEntryRecord],
    version: KafkaVersion | None,
    *,
    allow_everyone: bool,
) -> Fed:
    """An authorizer with these ACLs: in its columns, and as changes to them."""
    made = Fed(
        *first,
        allow_everyone_if_no_acl_found=str(allow_everyone).lower(),
        aclog_kafka_version="" if version is None else version.value,
    )
    made.publish(*then)
    return made


@given(ACLS, ACLS, st.booleans())
@settings(deadline=None, max_examples=60)
def test_an_answer_is_allowed_if_every_release_allows_it(
    first: list[AccessControlEntryRecord],
    then: list[AccessControlEntryRecord],
    allow_everyone: bool,
) -> None:
    """For one name, for any name of the type, and with the note about each release."""
    unknown, *known = (fed(first, then, each, allow_everyone=allow_everyone) for each in (None, *VERSIONS))
    operations = AclOperation.READ, AclOperation.DESCRIBE
    for principal, host, operation in product(PRINCIPALS, ADDRESSES, operations):
        context = RequestContext(parse_kafka_principal(principal), host_address(host))
        for name in NAMES:
            action = Action(operation, ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL))
            by_release = [each.authorizer.decide(context, action).is_allowed for each in known]
            decision = unknown.authorizer.decide(context, action)
            assert decision.is_allowed is all(by_release), (principal, host, name)
            difference = release_difference(authorize_action(unknown.authorizer.state, context, action))
            reported = None if difference is None else [*difference]
            assert reported == (None if by_release[0] is by_release[1] else by_release)
        of_type = [
            each.authorizer.authorize_by_resource_type(context, operation, ResourceType.TOPIC)
            for each in (unknown, *known)
        ]
        is_allowed, *by_release = (each is AuthorizationResult.ALLOWED for each in of_type)
        assert is_allowed is all(by_release), (principal, host)


@given(ACLS, st.booleans())
@settings(deadline=None, max_examples=60)
def test_the_permissions_are_those_of_all_releases(
    records: list[AccessControlEntryRecord],
    allow_everyone: bool,
) -> None:
    """No release revokes any of them; a request that only one release allows is denied by another."""
    table = AclTable.of([AppliedAcl(record, None, 0) for record in records])
    unknown = AuthorizerSettings(allow_everyone=allow_everyone)
    meaning = EffectivePermissions.of(table, unknown)
    for version, other in (VERSIONS, VERSIONS[::-1]):
        denying = fed(records, [], other, allow_everyone=allow_everyone)
        for flip in decision_changes_between(
            meaning, EffectivePermissions.of(table, unknown.with_version(version))
        ):
            assert flip.direction == "granted"
            witness = flip.request_class.witness
            pattern = ResourcePattern(witness.resource_type, witness.name, PatternType.LITERAL)
            for operation in flip.request_class.operations:
                assert not denying.allows(witness.principal, operation, pattern, witness.host), flip
