"""Access changes of random histories: those of a comparison of the complete states around each change."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from operator import attrgetter
from typing import NamedTuple

import msgspec
import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from authorizer.analysis.history.access_history import AccessStep, AclPeriods, Bounds, access_steps
from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.permissions.decision_changes import DecisionChange, decision_changes_by
from authorizer.analysis.permissions.witness import Witness, decide_witness
from authorizer.api.kafka_version import KafkaVersion
from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
from records.acl import AclOperation, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from snapshot.image import image_of
from support.snapshots import acl, acl_id

STILL = np.iinfo(np.int64).max
OFFSETS = 12


class Period(NamedTuple):
    record: AccessControlEntryRecord
    begin: int
    end: int


RECORDS = st.builds(
    acl,
    st.integers(0, 3),
    resource_type=st.sampled_from([int(ResourceType.TOPIC), int(ResourceType.GROUP)]),
    resource_name=st.sampled_from(["a", "ab", "*"]),
    pattern_type=st.sampled_from([3, 4]),
    principal=st.sampled_from(["User:a", "User:b", "User:c", "User:*"]),
    host=st.sampled_from(["*", "10.0.0.1", "10.0.0.0/24"]),
    operation=st.sampled_from([2, 3, 8]),
    permission_type=st.sampled_from([2, 3, 3]),
)
#: Several may begin or end at one offset, as in a metadata transaction.
PERIODS = st.lists(
    st.builds(
        lambda record, begin, length: Period(record, begin, begin + length if length else int(STILL)),
        RECORDS,
        st.integers(-1, OFFSETS),
        st.integers(0, OFFSETS),
    ),
    max_size=10,
)
SETTINGS = st.builds(
    AuthorizerSettings,
    super_users=st.sampled_from([frozenset(), frozenset({"User:c"})]),
    allow_everyone=st.booleans(),
)


def table_of(periods: Sequence[Period]) -> AclTable:
    # Unique ids: an image has one ACL for each id.
    records = [
        msgspec.structs.replace(record, id=acl_id(number)) for number, (record, _, _) in enumerate(periods)
    ]
    return AclTable.of([AppliedAcl(record, None, 0) for record in records])


def state_at(periods: Sequence[Period], offset: int) -> AclTable:
    return table_of([period for period in periods if period.begin <= offset < period.end])


def steps_of(
    periods: Sequence[Period], first: int, configured: AuthorizerSettings, bounds: Bounds | None = None
) -> list[AccessStep]:
    begins, ends = (np.array([period[at] for period in periods], np.int64) for at in (1, 2))
    return list(access_steps(AclPeriods(table_of(periods), begins, ends), first, configured, bounds))


@given(PERIODS, st.integers(0, 4), SETTINGS)
@settings(max_examples=30, deadline=None)
def test_each_step_is_the_comparison_of_the_states_around_it(
    periods: list[Period], first: int, configured: AuthorizerSettings
) -> None:
    found: dict[int, set[DecisionChange]] = {}
    for step in steps_of(periods, first, configured):
        assert step.offset not in found
        assert not step.omitted_principals
        assert not step.omitted_classes
        found[step.offset] = set(step.changes)
        assert len(step.changes) == len(found[step.offset])
    for offset in sorted({each for period in periods for each in period[1:] if first <= each < STILL}):
        before = state_at(periods, offset - 1)
        changed = ChangedAcls.between(before, state_at(periods, offset))
        expected = decision_changes_by(changed, before, configured)
        assert found.pop(offset, set()) == set(expected)
    assert not found


@given(PERIODS, SETTINGS, st.integers(0, 600))
@settings(max_examples=25, deadline=None)
def test_later_calls_analyse_what_was_deferred(
    periods: list[Period], configured: AuthorizerSettings, work: int
) -> None:
    """Each change has one complete step in the end, with the classes of an unbounded analysis."""
    begins, ends = (np.array([period[at] for period in periods], np.int64) for at in (1, 2))
    columns = AclPeriods(table_of(periods), begins, ends)
    steps = list(access_steps(columns, 0, configured, Bounds(work=work)))
    while deferred := [step.offset for step in steps if step.is_deferred]:
        bounds = Bounds(work=0, deferred_work=2_000)
        later = list(access_steps(columns, 3 * OFFSETS, configured, bounds, deferred=deferred))
        assert sorted(step.offset for step in later) == sorted(deferred)
        assert not all(step.is_deferred for step in later)
        steps = [step for step in steps if not step.is_deferred] + later
    by_offset = attrgetter("offset")
    assert sorted(steps, key=by_offset) == sorted(steps_of(periods, 0, configured), key=by_offset)


def test_each_change_is_analysed_by_the_release_at_its_offset() -> None:
    """Before the brokers had 4.4 the ACL of a network allowed no request."""
    network = acl(0, resource_name="t", host="10.0.0.0/24", operation=3)
    periods = AclPeriods(table_of([Period(network, 1, 3)]), np.array([1]), np.array([3]))

    def at(offset: int) -> AuthorizerSettings:
        return AuthorizerSettings(kafka_version=KafkaVersion.V4_3 if offset < 2 else KafkaVersion.V4_4)

    found = [(step.offset, bool(step.changes)) for step in access_steps(periods, 0, at(0), settings_at=at)]
    assert found == [(1, False), (3, True)]


@given(PERIODS, SETTINGS, st.integers(0, 600), st.integers(0, 300))
@settings(max_examples=25, deadline=None, phases=[Phase.generate])
def test_a_bounded_step_is_marked_and_what_it_lists_is_true(
    periods: list[Period], configured: AuthorizerSettings, work: int, change_work: int
) -> None:
    """Each listed class has a witness with these answers, whose principal has no separate answer."""
    complete = {step.offset: step for step in steps_of(periods, 0, configured)}
    for step in steps_of(periods, 0, configured, Bounds(work, 0, change_work, 2)):
        expected = complete.pop(step.offset)
        assert len(step.changes) <= 2
        if step.is_deferred:
            assert (step.principals, step.changes) == (expected.principals, ())
        elif step.changes != expected.changes:
            assert step.omitted_principals or step.omitted_classes
        for change in step.changes:
            witness = change.request_class.witness
            if change.version is not None:
                continue
            states = [state_at(periods, offset) for offset in (step.offset - 1, step.offset)]
            if step.omitted_principals:
                assert witness.principal not in {period.record.principal for period in periods}
            for operation, rules in product(
                change.request_class.operations, configured.for_each_possible_release(has_networks=True)
            ):
                before, after = (is_allowed(state, witness, operation, rules) for state in states)
                assert (before, after) == (change.direction == "revoked", change.direction == "granted")
    assert not complete


def is_allowed(
    table: AclTable, witness: Witness, operation: AclOperation, configured: AuthorizerSettings
) -> bool:
    index = configured.index(image_of(table))
    state = AuthorizerState(index, configured, is_ready=True, not_ready_reason="")
    return decide_witness(state, witness, operation).is_allowed


def test_a_change_for_every_principal_beyond_the_bound_lists_principals_without_acls() -> None:
    """2,000 principals with ACLs on the name: one class, and a mark with their number."""
    denied = [
        Period(acl(number, resource_name="t", principal=f"User:{number}", permission_type=2), 0, int(STILL))
        for number in range(2_000)
    ]
    opened = Period(acl(2_000, resource_name="t", principal="User:*", operation=3), 1, int(STILL))
    (step,) = steps_of([*denied, opened], 1, AuthorizerSettings())
    (change,) = step.changes
    assert change.direction == "granted"
    assert (step.omitted_principals, step.omitted_classes) == (2_000, 0)
    assert change.request_class.principals.principal is None
    assert change.request_class.operations == (AclOperation.READ, AclOperation.DESCRIBE)
