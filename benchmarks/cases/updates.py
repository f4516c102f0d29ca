"""One record becomes visible: fold and index alone beside Java's addAcl, and the whole way through a log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice

from authorizer.api.authorizer_api import Action, AuthorizationResult, RequestContext
from benchmarks.arena import Arena, RequestArguments
from benchmarks.figures import Goal, Row, Spread, alternate
from benchmarks.requests import updates_file
from benchmarks.settings import progress
from benchmarks.stored import read_acls, snapshot_directory, writable_log
from benchmarks.subject import Subject
from records.acl import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from records.entries import AccessControlEntryRecord, MetadataRecord, RemoveAccessControlEntryRecord
from records.ids import binding_uuid
from records.log.directory import DirectoryLog
from records.principal import KafkaPrincipal, parse_kafka_principal
from replay.snapshot_source import StoredSnapshots
from snapshot.store.snapshot_store import SnapshotStore

_GOALS = {"w2": Goal("at most", 5)}
_THROUGH_LOG = 200
_LIST = "zipf"
_EVERYONE = KafkaPrincipal("User", "*")


def measure(arena: Arena) -> Iterator[Row]:
    progress(f"{arena.workload}: one-record updates")
    file = updates_file(arena.directory)
    added = list(read_acls(file))
    removed = [RemoveAccessControlEntryRecord(acl.id) for acl in added]
    java_adds: list[float] = []
    java_removes: list[float] = []
    our_adds: list[float] = []
    our_removes: list[float] = []
    our_adds_seen: list[float] = []
    our_removes_seen: list[float] = []
    calls = [_call_of(acl) for acl in added]

    def java() -> float:
        answer = arena.java.tell("update", file=str(file))
        java_adds.append(answer["add_ns"])
        java_removes.append(answer["remove_ns"])
        return 0.0

    def ours() -> float:
        our_adds.append(_published_ns(arena.ours, added))
        our_removes.append(_published_ns(arena.ours, removed))
        our_adds_seen.append(_seen_ns(arena.ours, added, calls))
        our_removes_seen.append(_seen_ns(arena.ours, removed, calls))
        return 0.0

    # What was made of a principal's ACLs is kept, so updates have to change it.
    arena.warm_up_principals()
    before = arena.our_round(_LIST)
    undisturbed = Spread(tuple(before() for _ in range(arena.settings.rounds)))
    java()  # not counted: the compiler gets to know it
    java_adds.clear()
    java_removes.clear()
    alternate(arena.settings.rounds, java, ours)
    for what, our_ns, their_ns, java_method in (
        ("adds an ACL: fold and index", our_adds, java_adds, "addAcl"),
        ("removes an ACL: fold and index", our_removes, java_removes, "removeAcl"),
        ("adds an ACL: the same and its principal's next decision", our_adds_seen, java_adds, "addAcl"),
        (
            "removes an ACL: the same and its principal's next decision",
            our_removes_seen,
            java_removes,
            "removeAcl",
        ),
    ):
        one, other = Spread(tuple(our_ns)), Spread(tuple(their_ns))
        yield Row(
            what=f"update that {what}",
            workload=arena.workload,
            unit="ns",
            ours=one,
            other=other,
            against=f"Java's {java_method} alone",
            ratio=one.over(other),
            goal=_GOALS.get(arena.workload),
        )
    after = arena.our_round(_LIST)
    disturbed = Spread(tuple(after() for _ in range(arena.settings.rounds)))
    yield Row(
        what=f"authorize(context, [action]), {_LIST}, after all these updates",
        workload=arena.workload,
        unit="ns",
        ours=disturbed,
        other=undisturbed,
        against="before them",
        ratio=disturbed.over(undisturbed),
        note=f"{4 * len(added) * arena.settings.rounds} updates",
    )
    yield from _through_log(arena)


def _published_ns(subject: Subject, records: Sequence[MetadataRecord]) -> float:
    """CPU of one publish, when each record is published by itself."""
    began = time.thread_time_ns()
    for record in records:
        subject.publish([record])
    return (time.thread_time_ns() - began) / len(records)


def _seen_ns(subject: Subject, records: Sequence[MetadataRecord], calls: Sequence[RequestArguments]) -> float:
    """CPU of one publish and of a decision that has to know of it."""
    authorize = subject.authorizer.authorize
    began = time.thread_time_ns()
    for record, (context, actions) in zip(records, calls, strict=True):
        subject.publish([record])
        authorize(context, actions)
    return (time.thread_time_ns() - began) / len(records)


def _call_of(acl: AccessControlEntryRecord) -> RequestArguments:
    """Of the ACL's principal, about its name."""
    pattern = ResourcePattern(ResourceType(acl.resource_type), acl.resource_name, PatternType.LITERAL)
    action = Action(AclOperation.DESCRIBE, pattern, log_if_allowed=False, log_if_denied=False)
    return RequestContext(parse_kafka_principal(acl.principal), "10.255.0.1"), [action]


def _through_log(arena: Arena) -> Iterator[Row]:
    """Append, sync, read back, decode, fold, publish, decide: one record at a time."""
    grants = [
        _Grant(number, acl.principal)
        for number, acl in enumerate(islice(read_acls(updates_file(arena.directory)), _THROUGH_LOG))
    ]
    append, visible, cpu = [], [], []
    with writable_log(arena.directory) as directory:
        snapshots = StoredSnapshots(SnapshotStore(snapshot_directory(arena.directory)))
        log = DirectoryLog.open(directory, mode="write")
        with closing(Subject(log, [snapshots])) as subject:
            for grant in grants:
                grant.expect(subject, AuthorizationResult.DENIED)
                began_cpu, began = time.process_time_ns(), time.perf_counter_ns()
                log.append([grant.acl])
                appended = time.perf_counter_ns()
                subject.loader.iterate()
                grant.expect(subject, AuthorizationResult.ALLOWED)
                done = time.perf_counter_ns()
                cpu.append(float(time.process_time_ns() - began_cpu))
                append.append(float(appended - began))
                visible.append(float(done - appended))
    for what, values in (
        ("append, synced, by the clock", append),
        ("from appended to a decision, by the clock", visible),
        ("append to decision, CPU", cpu),
    ):
        yield Row(
            what=f"update through a log: {what}",
            workload=arena.workload,
            unit="ns",
            ours=Spread(tuple(values)),
        )


class _Grant:
    """An ACL that lets one principal read a topic that no principal could read before."""

    def __init__(self, number: int, principal: str) -> None:
        topic = f"newcomer-{number}"
        caller = parse_kafka_principal(principal)
        if caller == _EVERYONE:
            caller = KafkaPrincipal("User", f"newcomer-{number}")
        pattern = ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL)
        entry = AccessControlEntry(str(caller), "*", AclOperation.READ, AclPermissionType.ALLOW)
        binding = AclBinding(pattern, entry)
        self.acl = AccessControlEntryRecord.from_binding(binding_uuid(binding), binding)
        self._context = RequestContext(caller, "10.255.0.1")
        self._action = Action(AclOperation.READ, pattern, log_if_allowed=False, log_if_denied=False)

    def expect(self, subject: Subject, result: AuthorizationResult) -> None:
        decided = subject.authorizer.authorize(self._context, [self._action])[0]
        if decided is not result:
            raise RuntimeError(f"{self.acl}: {decided}, expected {result}")
