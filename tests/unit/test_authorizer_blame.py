"""Blame: every decision change in a history, compared with the state at each of its offsets."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from authorizer.analysis.history.blame import (
    AclSubject,
    AnswerChange,
    Change,
    DecisionTracker,
    NewRelease,
    RequestSubject,
)
from authorizer.api.authorizer_api import Action, RequestContext
from authorizer.api.kafka_version import KafkaVersion
from authorizer.engine.decisions.authorize import decide
from authorizer.engine.decisions.decision import Decision
from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
from records.acl import AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRecord,
    EndTransactionRecord,
    MetadataRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
    SupportedLevels,
)
from records.log.base import READ_BYTES_MAX
from records.log_batch import LogBatch
from records.principal import parse_kafka_principal
from records.transactions import is_open_after
from replay.clock import SystemClock
from replay.errors import LogGapError, ReplayError
from replay.load_image import load_image
from replay.steps import Beginning, Step, first_state, steps
from snapshot.image import AclsImage
from support.acl_strategies import IDS
from support.column_logs import by_column, raw_batches
from support.sim_log import SimLog, identity
from support.sim_store import SimSnapshot, SimStore


class ColumnLog(SimLog):
    """A log that returns batches by column, like long reads."""

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[LogBatch]:
        found = super().read(offset, max_bytes=max_bytes)
        if not found:
            return found
        lists = [[logged.record for logged in batch.records] for batch in found]
        batches, error = by_column(raw_batches(lists, start=found[0].base_offset))  # type: ignore[arg-type]
        assert error is None
        return batches


def random_acl(rng: random.Random) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        rng.choice(IDS[:12]),
        rng.choice([ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP]),
        rng.choice(["*", "a", "ab", "abc", "", "b"]),
        rng.choice([PatternType.LITERAL, PatternType.PREFIXED]),
        rng.choice(["User:a", "User:a", "User:*", "User:b"]),
        rng.choice(["*", "*", "10.0.0.1", "10.0.0.2", "10.0.0.0/8"]),
        rng.choice([AclOperation.READ, AclOperation.WRITE, AclOperation.ALL, AclOperation.DESCRIBE]),
        rng.choice([AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY]),
    )


def registered(broker_id: int, highest: int) -> BrokerRecord:
    """A registration with the highest supported metadata.version: 29 is 4.2, 30 is 4.3, 32 is 4.4."""
    return BrokerRecord(0, 3, broker_id, SupportedLevels(7, highest))


def random_broker(rng: random.Random) -> BrokerRecord:
    """A registration, or an unregistration."""
    broker_id, highest = rng.randrange(2), rng.choice([29, 30, 32, 32, None])
    return BrokerRecord(1, 0, broker_id, None) if highest is None else registered(broker_id, highest)


def random_batches(rng: random.Random, count: int) -> list[list[MetadataRecord]]:
    """Batches with transactions, which may end and begin within a batch, or are aborted."""
    is_open = False
    batches: list[list[MetadataRecord]] = []
    for _ in range(count):
        batch: list[MetadataRecord] = []
        for _ in range(rng.randrange(1, 4)):
            kind = rng.random()
            if kind < 0.1:
                if not is_open:
                    batch.append(BeginTransactionRecord())
                elif rng.random() < 0.7:
                    batch.append(EndTransactionRecord())
                else:
                    batch.append(AbortTransactionRecord())
                is_open = not is_open
            elif kind < 0.15:
                batch.append(OtherRecord(2, 0))
            elif kind < 0.25:
                batch.append(random_broker(rng))
            elif kind < 0.5:
                batch.append(RemoveAccessControlEntryRecord(rng.choice(IDS[:12])))
            else:
                batch.append(random_acl(rng))
        batches.append(batch)
    return [*batches, [EndTransactionRecord()]] if is_open else batches


def random_subject(rng: random.Random) -> RequestSubject | AclSubject:
    kind = rng.random()
    if kind < 0.1:
        return AclSubject(id=rng.choice(IDS[:12]))
    if kind < 0.2:
        return AclSubject(content=random_acl(rng).content)
    return RequestSubject(
        RequestContext(parse_kafka_principal(rng.choice(["User:a", "User:a", "User:super"])), "10.0.0.1"),
        Action(
            rng.choice([AclOperation.READ, AclOperation.DESCRIBE]),
            ResourcePattern(ResourceType.TOPIC, rng.choice(["a", "abc", "z"]), PatternType.LITERAL),
        ),
        AuthorizerSettings(
            frozenset(["User:super"]),
            allow_everyone=rng.random() < 0.5,
            kafka_version=rng.choice([None, None, None, KafkaVersion.V4_3]),
        ),
    )


def decision_changes_of(
    log: SimLog, subject: RequestSubject | AclSubject, beginning: Beginning | None = None
) -> tuple[DecisionTracker, list[tuple[Step, AnswerChange | None]]]:
    beginning = beginning or first_state(log, [], SystemClock())
    followed = DecisionTracker(subject, [acl for acl in beginning.image if subject.is_related(acl.record)])
    found = steps(log, beginning, subject, followed.ids, lambda done, total: None)
    return followed, [(step, followed.apply(step.records)) for step in found]


def expected_at(image: AclsImage, subject: RequestSubject | AclSubject) -> object:
    """The decision by the complete state, or the equal ACLs that are in force."""
    if isinstance(subject, AclSubject):
        return {(acl.record.id, acl.offset) for acl in image if subject.is_related(acl.record)}
    state = AuthorizerState(
        subject.settings.index(image), subject.settings, is_ready=True, not_ready_reason=""
    )
    return reason_of(decide(state, subject.context, subject.action))


def reason_of(decision: Decision) -> object:
    """The reason without the ACL's id: either of two equal ACLs may be named."""
    acl = decision.acl
    return decision.rule, decision.result, None if acl is None else acl.record.content


def visible_states(log: SimLog) -> Iterator[tuple[int, AclsImage]]:
    """The end offset of each batch, and the visible image there, at batch ends outside of transactions."""
    is_open, image = False, AclsImage.EMPTY
    for batch in log.read(0):
        for logged in batch.records:
            is_open = is_open_after(logged.record, is_open=is_open)
        if not is_open:
            image = load_image(log, at_offset=batch.end_offset - 1).image
        yield batch.end_offset, image


def reported(followed: DecisionTracker) -> object:
    answer = followed.answer
    if answer.decision is None:
        return {(acl.record.id, acl.offset) for acl in answer.by}
    return reason_of(answer.decision)


@pytest.mark.parametrize("kind", [SimLog, ColumnLog])
def test_blame_reports_the_decision_at_every_offset(kind: type[SimLog]) -> None:
    """The reported decision is that of the complete state; between two steps it does not change."""
    rng = random.Random(29)
    flips = 0
    for _ in range(10):
        log = kind()
        for batch in random_batches(rng, 30):
            log.append(batch)
        images = dict(visible_states(log))
        log.read_bytes_max = 700
        for _ in range(6):
            subject = random_subject(rng)
            beginning = first_state(log, [], SystemClock())
            assert beginning.is_whole
            followed = DecisionTracker(subject, ())
            found = {
                step.end_offset: step for step in steps(log, beginning, subject, (), lambda done, total: None)
            }
            for end, image in images.items():
                if (step := found.get(end)) is not None:
                    assert step.unknown_from is None
                    turn = followed.apply(step.records)
                    flips += turn is not None and turn.is_decision_change
                    assert turn is None or turn.changes
                assert reported(followed) == expected_at(image, subject)
    assert flips > 40


def of_alice(**other: Any) -> AccessControlEntryRecord:
    values: dict[str, Any] = {
        "resource_name": "t",
        "permission_type": int(AclPermissionType.ALLOW),
        "id": IDS[0],
        "host": "*",
    } | other
    return AccessControlEntryRecord(
        resource_type=2, pattern_type=3, principal="User:alice", operation=3, **values
    )


ALICE = RequestSubject(
    RequestContext(parse_kafka_principal("User:alice"), "10.0.0.1"),
    Action(AclOperation.READ, ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL)),
    AuthorizerSettings(),
)


@pytest.mark.parametrize("kind", [SimLog, ColumnLog])
def test_blame_follows_the_release_at_each_offset(kind: type[SimLog]) -> None:
    """The release of the brokers, every release before the first registration, or the configured one."""
    log = kind()
    log.append([of_alice(host="10.0.0.0/8")])
    log.append([registered(1, 30)])
    log.append([registered(2, 32)])
    log.append([registered(1, 32), OtherRecord(2, 0)])
    log.append([BeginTransactionRecord(), registered(2, 29)])
    log.append([AbortTransactionRecord(), BrokerRecord(1, 0, 1, None)])
    followed, found = decision_changes_of(log, ALICE)
    new, old = KafkaVersion.V4_4, KafkaVersion.V4_3
    flips = [(turn.after.holds, turn.changes) for _, turn in found if turn is not None]
    assert flips == [(True, (NewRelease(3, time_of(3, log), "4.4", "4.3 to 4.4"),))]
    assert followed.answer.holds
    for version, holds in ((old, False), (new, True)):
        configured = replace(ALICE, settings=AuthorizerSettings(kafka_version=version))
        followed, found = decision_changes_of(log, configured)
        assert followed.answer.holds is holds
        assert sum(turn is not None for _, turn in found) == holds
    # Without earlier records the brokers at the beginning count.
    image = load_image(log, at_offset=2).image
    later = Beginning(image=image, origin="offset 3", end=log.high_watermark())
    followed = DecisionTracker(ALICE, [*image], image.metadata)
    assert not followed.answer.holds
    for step in steps(log, later, ALICE, followed.ids, lambda done, total: None):
        followed.apply(step.records)
    assert followed.answer.holds


def time_of(offset: int, log: SimLog) -> int:
    records = [logged for batch in log.read(0) for logged in batch.records]
    return next(logged.timestamp_ms for logged in records if logged.offset == offset)


def test_the_history_of_a_trimmed_log_begins_with_its_oldest_snapshot() -> None:
    """Earlier states are reported as unknown; without a snapshot there is no history."""
    log, store = SimLog(), SimStore()
    log.append([of_alice()])
    log.append([OtherRecord(2, 0)])
    for _ in range(2):
        image = load_image(log).image
        store.snapshots.append(SimSnapshot(identity(), image, 0))
        log.append([OtherRecord(2, 0)])
    log.append([RemoveAccessControlEntryRecord(IDS[0])])
    log.trim(2)
    with pytest.raises(LogGapError):
        first_state(log, [], SystemClock())
    beginning = first_state(log, [store], SystemClock())
    assert (beginning.image.provenance.end_offset, beginning.is_whole) == (2, False)
    followed, ((step, turn),) = decision_changes_of(log, ALICE, beginning)
    assert turn is not None
    assert turn.before.holds
    ((change),) = turn.changes
    assert isinstance(change, Change)
    assert (step.end_offset, change.kind, change.offset) == (5, "removed", 4)
    assert not followed.answer.holds


def test_after_a_gap_the_decision_is_unknown_until_the_end() -> None:
    """I6: compacted records may have changed the decision."""
    log = SimLog()
    log.append([of_alice()])
    log.append([RemoveAccessControlEntryRecord(IDS[0])])
    log.append([of_alice(), OtherRecord(2, 0)])
    log.append([of_alice(id=IDS[1])])
    log.compact(3)
    followed, found = decision_changes_of(log, ALICE)
    ((step, turn),) = found
    assert (step.unknown_from, step.end_offset) == (0, 5)
    assert turn is not None
    assert turn.after.holds
    assert len(followed.answer.by) == 2


def test_after_a_gap_and_in_a_transaction_the_decision_is_unknown() -> None:
    log = SimLog()
    log.append([of_alice()])
    log.append([of_alice(), OtherRecord(2, 0)])
    log.append([BeginTransactionRecord()])
    log.compact(3)
    with pytest.raises(ReplayError, match="its state is unknown"):
        decision_changes_of(log, ALICE)
