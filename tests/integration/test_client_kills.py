"""kill -9 and restarts of a sidecar under load: no client gets a wrong decision, with a cache or without.

A writer changes ACLs all the while, and keeps what was in force at each end offset. Every answer carries the
offset that it was decided at, so it is compared with the definition (support.naive) on that very state. What
a cache served is compared with what others were answered before: it must not be older than its bound.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Self

import pytest

from authorizer.client import (
    AclOperation,
    AsyncClient,
    AuthorizationRequest,
    CacheSettings,
    Client,
    Decision,
    KafkaPrincipal,
    ResourceType,
)
from authorizer.client.cache import DecisionCache
from records.acl import AclPermissionType, PatternType
from records.entries import AccessControlEntryRecord, AclRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from records.log.directory import DirectoryLog
from support import naive
from support.kafka_broker import HOST, free_ports
from support.nodes import SOON_S
from support.seeds import seeded
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
KILLS = 4
#: Answers of a cache for each kill.
CACHED_PER_KILL = 250
#: A cache's bound.
BOUND_S = 0.5
#: A call lasts over a restart.
TIMEOUT_S = 60.0

PRINCIPALS = [KafkaPrincipal("User", name) for name in ("alice", "bob")]
# No ACL ever changes for the last one: what is kept of it ends with the bound alone.
TOPICS = ["orders", "orders.eu", "payments", "quiet"]
QUESTIONS = [
    AuthorizationRequest(principal, operation, ResourceType.TOPIC, topic, "10.0.0.1")
    for principal in PRINCIPALS
    for operation in (AclOperation.READ, AclOperation.DESCRIBE)
    for topic in TOPICS
]


def acl_id(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def possible_acls() -> list[AccessControlEntryRecord]:
    """Allows and denies of them all, by literal and by prefix; who follows the changes may always."""
    choices = itertools.product(
        ["User:alice", "User:bob", "User:*"],
        [
            ("orders", PatternType.LITERAL),
            ("orders", PatternType.PREFIXED),
            ("payments", PatternType.LITERAL),
        ],
        [AclOperation.READ, AclOperation.ALL],
        [AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY],
    )
    return [
        AccessControlEntryRecord(
            Uuid(number.to_bytes(16, "big")),
            ResourceType.TOPIC,
            name,
            pattern,
            who,
            "*",
            operation,
            permission,
        )
        for number, (who, (name, pattern), operation, permission) in enumerate(choices, start=1)
    ]


class Writer:
    """Adds and removes ACLs of a directory log until it is closed.

    Attributes:
        states: the ACLs in force at each end offset, which is where an update ends.
        end: of the newest of them.
    """

    def __init__(self, log: DirectoryLog, seed: int) -> None:
        describe = AccessControlEntryRecord(
            acl_id(10_000),
            ResourceType.CLUSTER,
            "kafka-cluster",
            PatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            AclOperation.DESCRIBE,
            AclPermissionType.ALLOW,
        )
        self._log = log
        self._choice = random.Random(seed)
        self._possible = possible_acls()
        self._in_force = {describe.id: describe}
        self.end = log.append([describe])
        self.states = {self.end: tuple(self._in_force.values())}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(0.02):
            records: list[AclRecord] = []
            for acl in self._choice.sample(self._possible, self._choice.randrange(1, 4)):
                if self._in_force.pop(acl.id, None) is None:
                    self._in_force[acl.id] = acl
                    records.append(acl)
                else:
                    records.append(RemoveAccessControlEntryRecord(acl.id))
            end = self._log.append(records)
            self.states[end] = tuple(self._in_force.values())
            self.end = end


class Serving:
    """An `aclog serve` that follows the log, killed and started again on its port."""

    def __init__(self, log: Path) -> None:
        (port,) = free_ports(1)
        self.url = f"http://{HOST}:{port}"
        self._arguments = ["--log", str(log), "--config", str(log.parent / "serve.properties")]
        (log.parent / "serve.properties").write_text(
            f"aclog.listeners=PLAINTEXT://{HOST}:{port}\naclog.log.mode=read\n"
        )
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "authorizer.cli", "serve", *self._arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer, with when its call began and ended."""

    question: AuthorizationRequest
    decision: Decision
    min_offset: int
    began_s: float
    ended_s: float
    by: str


@dataclass(slots=True)
class Load:
    """Clients that ask as fast as they are answered, and what they got."""

    url: str
    writer: Writer
    answers: list[Answered] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    failed: list[BaseException] = field(default_factory=list)

    def by_threads(self, client: Client, by: str) -> None:
        choice = random.Random(by)
        try:
            while not self.over.is_set():
                questions, min_offset = self._next(choice)
                began_s = time.monotonic()
                decisions = client.decide_all(questions, min_offset=min_offset)
                self._note(questions, decisions, min_offset, began_s, by)
        except BaseException as error:
            self.failed.append(error)
            raise

    async def by_tasks(self, client: AsyncClient, by: str) -> None:
        choice = random.Random(by)
        while not self.over.is_set():
            questions, min_offset = self._next(choice)
            began_s = time.monotonic()
            decisions = await client.decide_all(questions, min_offset=min_offset)
            self._note(questions, decisions, min_offset, began_s, by)
            await asyncio.sleep(0)

    def run_loop(self) -> None:
        """Two event loops' clients in one, with a cache and without."""

        async def run() -> None:
            settings = CacheSettings(max_age_s=BOUND_S)
            async with (
                AsyncClient(self.url, timeout_s=TIMEOUT_S) as plain,
                AsyncClient(self.url, timeout_s=TIMEOUT_S, cache=settings) as caching,
            ):
                await asyncio.gather(
                    *(self.by_tasks(plain, f"plain task {number}") for number in range(2)),
                    *(self.by_tasks(caching, f"caching task {number}") for number in range(2)),
                )

        try:
            asyncio.run(run())
        except BaseException as error:
            self.failed.append(error)
            raise

    def _next(self, choice: random.Random) -> tuple[list[AuthorizationRequest], int]:
        """Mostly one request; sometimes several, and one that must see the newest change."""
        count = 1 if choice.random() < 0.8 else choice.randrange(2, 6)
        min_offset = self.writer.end if choice.random() < 0.1 else 0
        return choice.choices(QUESTIONS, k=count), min_offset

    def _note(
        self,
        questions: list[AuthorizationRequest],
        decisions: list[Decision],
        min_offset: int,
        began_s: float,
        by: str,
    ) -> None:
        ended_s = time.monotonic()
        self.answers += [
            Answered(question, decision, min_offset, began_s, ended_s, by)
            for question, decision in zip(questions, decisions, strict=True)
        ]


def checked(answers: list[Answered], writer: Writer) -> None:
    """Every decision is the definition's at its offset, and the cache's are no older than the bound."""
    ends = sorted(writer.states)

    @cache
    def defined(question: AuthorizationRequest, offset: int) -> bool:
        naive_request = naive.Request(
            question.principal.principal_type,
            question.principal.name,
            str(question.host),
            question.operation,
            question.resource_type,
            question.resource_name,
        )
        return naive.decide(writer.states[offset], naive_request)[0]

    wrong = [
        answer
        for answer in answers
        if answer.decision.offset not in writer.states
        or answer.decision.is_allowed != defined(answer.question, answer.decision.offset)
    ]
    assert not wrong, wrong[:3]
    for answer in answers:
        offset = answer.decision.offset
        assert offset is not None
        if answer.min_offset > offset:
            # What a cache serves for a later state must be the decision of every state up to that.
            between = [end for end in ends if offset <= end <= answer.min_offset]
            assert {defined(answer.question, end) for end in between} == {answer.decision.is_allowed}, answer
            assert "caching" in answer.by
    # Without a cache: at what moment the sidecar stood where, at the latest.
    seen = sorted((each.ended_s, each.decision.offset or 0) for each in answers if "plain" in each.by)
    newest = list(itertools.accumulate((offset for _, offset in seen), max))
    moments = [ended_s for ended_s, _ in seen]
    at = 0
    for answer in sorted(answers, key=lambda each: each.began_s):
        bound_s = BOUND_S if "caching" in answer.by else 0.0
        while at < len(moments) and moments[at] < answer.began_s - BOUND_S:
            at += 1
        if bound_s and at:
            assert answer.decision.offset is not None
            assert answer.decision.offset >= newest[at - 1], (answer, newest[at - 1])


@pytest.mark.slow
@seeded(20261123)
def test_no_decision_is_wrong_under_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Sync and async clients, with a cache and without; every call is answered in the end."""
    served: list[Decision] = []
    ask_cache: Callable[..., Decision | None] = DecisionCache.get

    def counted(*args: object) -> Decision | None:
        found = ask_cache(*args)
        if found is not None:
            served.append(found)
        return found

    monkeypatch.setattr(DecisionCache, "get", counted)
    with ExitStack() as opened:
        log = opened.enter_context(DirectoryLog.open(tmp_path / "log", mode="create"))
        writer = Writer(log, seed)
        sidecar = Serving(tmp_path / "log")
        opened.callback(sidecar.kill)
        load = Load(sidecar.url, writer)
        plain = opened.enter_context(Client(sidecar.url, timeout_s=TIMEOUT_S))
        caching = opened.enter_context(
            Client(sidecar.url, timeout_s=TIMEOUT_S, cache=CacheSettings(max_age_s=BOUND_S))
        )
        plain.wait_until_ready(SOON_S)
        threads = [
            threading.Thread(target=load.by_threads, args=(client, f"{kind} thread {number}"))
            for kind, client in (("plain", plain), ("caching", caching))
            for number in range(2)
        ]
        threads.append(threading.Thread(target=load.run_loop))
        with writer:
            for thread in threads:
                thread.start()
            for kill in range(KILLS):
                before = len(load.answers)
                wait_until(lambda before=before: len(load.answers) > before + 200 or load.failed)  # type: ignore[misc]
                sidecar.kill()
                before = len(load.answers)
                time.sleep(0.3)  # requests fail, or are answered from caches, during this time
                sidecar.start()
                plain.wait_until_ready(SOON_S)
                wait_until(
                    lambda before=before, least=(kill + 1) * CACHED_PER_KILL: (  # type: ignore[misc]
                        load.failed or (len(served) > least and len(load.answers) > before + 200)
                    )
                )
                assert not load.failed
        load.over.set()
        for thread in threads:
            thread.join(SOON_S)
        assert not load.failed, load.failed
        checked(load.answers, writer)
        # The newest state decides everywhere.
        for question in QUESTIONS:
            newest = plain.decide(question, min_offset=writer.end)
            assert newest.offset == writer.end
            assert caching.decide(question, min_offset=writer.end).is_allowed == newest.is_allowed
        offsets = {answer.decision.offset for answer in load.answers}
        print(
            f"{len(load.answers)} answers, {len(served)} of a cache, at {len(offsets)} offsets; seed {seed}"
        )
        assert len(served) > KILLS * CACHED_PER_KILL
        assert len(offsets) > 20
