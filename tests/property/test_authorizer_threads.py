"""Readers in other threads, during thousands of updates, only see states that the log had (I1, I2)."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from authorizer.api.audit_levels import OFF
from authorizer.api.authorizer_api import Action, AuthorizationResult
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.authorize import authorize_actions
from authorizer.engine.decisions.decision import DecisionCounts
from records.acl import AclOperation
from records.entries import AccessControlEntryRecord, AclRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage
from support import naive
from support.decisions import READ, TOPIC, Fed, allow, context, deny, topic, topics

SEED = 801
UPDATES = 3_000
READERS = 3


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Threads switch a thousand times as often as usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 1_000)
    yield
    sys.setswitchinterval(usual)


@contextmanager
def readers(read: Callable[[], None]) -> Iterator[None]:
    """Threads that read during the context; their exceptions are raised here."""
    done = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            while not done.is_set():
                read()
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def test_a_deny_before_an_allow_is_never_seen_reversed() -> None:
    """H3: the DENY is added first and removed last, in one batch or several; no request is ever allowed."""
    fed = Fed()
    action = Action(READ, topic("t"))

    def read() -> None:
        assert fed.authorizer.authorize(context(), [action]) == [AuthorizationResult.DENIED]

    rng = random.Random(SEED)
    with readers(read):
        for _ in range(UPDATES // 4):
            denied = deny("User:a", READ, rng.choice([topic("t"), topics("t"), topic("*")]))
            allowed = allow("User:a", READ, rng.choice([topic("t"), topics(""), topic("*")]))
            steps: list[AclRecord] = [denied, allowed]
            steps += [RemoveAccessControlEntryRecord(acl.id) for acl in (allowed, denied)]
            if rng.random() < 0.5:
                fed.publish(*steps[:2])
                fed.publish(*steps[2:])
            else:
                for step in steps:
                    fed.publish(step)


def test_a_request_sees_all_of_a_batch_or_nothing() -> None:
    """Both topics are opened and closed in one batch: a request for both never gets one of each."""
    fed = Fed()
    actions = [Action(READ, topic(name)) for name in ("t", "u")] * 5

    def read() -> None:
        assert len(set(fed.authorizer.authorize(context(), actions))) == 1

    with readers(read):
        for _ in range(UPDATES // 2):
            opened = [allow("User:a", READ, topic(name)) for name in ("t", "u")]
            fed.publish(*opened)
            fed.publish(*(RemoveAccessControlEntryRecord(acl.id) for acl in opened))


def test_every_answer_is_right_at_its_offset() -> None:
    """Each answer that a reader saw agrees with the definition at the offset of that answer."""
    rng = random.Random(SEED)
    fed = Fed(allow_everyone_if_no_acl_found="true")
    requests = [
        naive.Request("User", "a", "10.0.0.1", operation, TOPIC, name)
        for operation in (READ, AclOperation.DESCRIBE)
        for name in ("t", "tt", "u")
    ]
    actions = [Action(request.operation, topic(request.name)) for request in requests]
    seen: set[tuple[int, tuple[bool, ...], int]] = set()

    def read() -> None:
        state = fed.authorizer.state
        answers = tuple(fed.authorizer.decide(context(), action, state).is_allowed for action in actions)
        seen.add((state.index.image.provenance.end_offset, answers, state.index.resources.count))

    truth: dict[Uuid, AccessControlEntryRecord] = {}
    history = {
        0: (tuple(naive.decide((), each, naive.Settings(allow_everyone=True))[0] for each in requests), 0)
    }
    with readers(read):
        for offset in range(1, UPDATES + 1):
            if truth and rng.random() < len(truth) / 12:
                removed_id = rng.choice(list(truth))
                del truth[removed_id]
                fed.publish(RemoveAccessControlEntryRecord(removed_id))
            else:
                make = rng.choice([allow, allow, deny])
                pattern = rng.choice([topic("t"), topics("t"), topics("tt"), topic("u"), topics("")])
                acl = make(
                    rng.choice(["User:a", "User:*", "User:b"]),
                    rng.choice([READ, AclOperation.WRITE]),
                    pattern,
                )
                truth[acl.id] = acl
                fed.publish(acl)
            now = list(truth.values())
            settings = naive.Settings(allow_everyone=True)
            history[offset] = (tuple(naive.decide(now, each, settings)[0] for each in requests), len(now))
    assert len(seen) > 10
    for offset, answers, count in seen:
        assert (answers, count) == history[offset]


def test_rights_created_by_concurrent_threads_are_right() -> None:
    """ACLs of principals without earlier requests change; several threads send requests of one principal."""
    rng = random.Random(SEED)
    fed = Fed(allow_everyone_if_no_acl_found="true")
    names = [f"p{number}" for number in range(40)]
    patterns = [topic("t"), topics("t"), topics(""), topic("*")]
    acls = [rng.choice([allow, deny])(f"User:{name}", READ, rng.choice(patterns)) for name in names * 2]
    fed.publish(*acls)
    action = Action(READ, topic("t"))
    settings = naive.Settings(allow_everyone=True)
    truth = {acl.id: acl for acl in acls}
    seen: set[tuple[int, str, bool]] = set()

    def read() -> None:
        state = fed.authorizer.state
        for name in names:
            (result,) = authorize_actions(
                state, context(f"User:{name}"), [action], AuditLog(OFF), DecisionCounts()
            )
            offset = state.index.image.provenance.end_offset
            seen.add((offset, name, result is AuthorizationResult.ALLOWED))

    history: dict[int, list[AccessControlEntryRecord]] = {}

    def record_answers() -> None:
        history[fed.image.provenance.end_offset] = list(truth.values())

    record_answers()
    rounds = 0
    with readers(read):
        # On a busy machine readers may sleep through some rounds.
        while rounds < UPDATES // 100 or (rounds < UPDATES and len({at for at, _, _ in seen.copy()}) <= 10):
            rounds += 1
            # As after a snapshot: all ACLs are rows, and no rights exist.
            delta = AclsDelta.between(AclsImage.EMPTY, fed.image.merged())
            fed.image = fed.image.merged()
            fed.authorizer.on_update(delta, fed.image, None)  # type: ignore[arg-type] # the manifest is not read
            for _ in range(10):
                acl = rng.choice([*truth.values()])
                del truth[acl.id]
                other = rng.choice([allow, deny])(acl.principal, READ, rng.choice(patterns))
                truth[other.id] = other
                fed.publish(RemoveAccessControlEntryRecord(acl.id), other)
                record_answers()
    assert len({offset for offset, _, _ in seen}) > 10
    for offset, name, allowed in seen:
        request = naive.Request("User", name, "10.0.0.1", READ, TOPIC, "t")
        assert allowed is naive.decide(history[offset], request, settings)[0]
