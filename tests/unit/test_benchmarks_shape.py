"""Work must not grow with the number of ACLs: counted, not timed, at 1,000 and at 100,000 ACLs of one shape.

The counts are the same on every machine: bytecodes that Python executes (what a C function does in one
call is not counted), hashes and comparisons of the texts of a request (the work of dicts and bisections in
C), blocks and bytes of memory.
"""

from __future__ import annotations

import gc
import math
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from authorizer.api.authorizer_api import Action, RequestContext
from authorizer.engine.index import limits
from authorizer.engine.index.acl_index import AclIndex
from authorizer.engine.index.rights import cover_of
from authorizer.node.standard_authorizer import StandardAuthorizer
from benchmarks.counting import BytecodeCounter
from benchmarks.requests import Request, read_requests, updates_file
from benchmarks.stored import log_directory, read_acls
from benchmarks.subject import Subject
from benchmarks.workload import workload_directory
from records.acl import (
    WILDCARD,
    AccessControlEntryFilter,
    AclBindingFilter,
    AclOperation,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.log.directory import DirectoryLog
from records.principal import KafkaPrincipal, parse_kafka_principal

# One xdist worker creates the two authorizers.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("benchmarks-shape")]

SMALL, LARGE = 1_000, 100_000
REQUESTS = 400
SAMPLES = 40
#: Additional steps of a bisection among a hundred times as many values.
HALVINGS = math.ceil(math.log2(LARGE / SMALL))


class Text(str):
    """A text that counts its hashes and comparisons."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        Text.looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Text.looks += 1
        return super().__eq__(other)

    def __lt__(self, other: str) -> bool:
        Text.looks += 1
        return super().__lt__(other)

    def __gt__(self, other: str) -> bool:
        Text.looks += 1
        return super().__gt__(other)


class Loaded:
    """An authorizer with ACLs from a replayed log, and the requests of the workload."""

    def __init__(self, cache: Path, acls: int) -> None:
        workload = workload_directory(cache, f"tenant-{acls}")
        self.subject = Subject(DirectoryLog.open(log_directory(workload)), [])
        self.requests = read_requests(workload, "zipf")[:REQUESTS]
        self.updates = list(read_acls(updates_file(workload)))[:SAMPLES]
        topics = [
            acl.record
            for acl in self.subject.image
            if acl.record.resource_type == ResourceType.TOPIC and acl.record.resource_name != WILDCARD
        ]
        self.topics = topics[:: len(topics) // SAMPLES]


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Loaded, Loaded]]:
    """The small one and the large one."""
    cache = tmp_path_factory.mktemp("workloads")
    loaded = Loaded(cache, SMALL), Loaded(cache, LARGE)
    for each in loaded:
        # As for principals with many requests; the first request has a separate test.
        for principal in each.subject.image.columns.principals.texts:
            each.subject.authorizer.state.index.principals.rights_of(principal)
    yield loaded
    for each in loaded:
        each.subject.close()


def bytecodes(call: Callable[[], object]) -> int:
    """The bytecodes of a call; not of the first one, which may fill caches."""
    call()
    with BytecodeCounter() as counter:
        call()
    return counter.total


def test_bytecodes_are_counted() -> None:
    """The counter sees Python code, and more of it for more iterations; the other tests rely on that."""

    def loop(count: int) -> None:
        for _ in range(count):
            pass

    few, many = bytecodes(lambda: loop(10)), bytecodes(lambda: loop(1_000))
    assert 10 <= few < 100
    assert many > 1_000


def test_the_bytecodes_of_a_decision_do_not_grow(sizes: tuple[Loaded, Loaded]) -> None:
    """Bytecodes of authorize(context, [action])."""

    def each(loaded: Loaded) -> float:
        authorize = loaded.subject.authorizer.authorize
        return bytecodes(lambda: [authorize(request.context, request.actions) for request in loaded.requests])

    small, large = map(each, sizes)
    assert large <= small * 1.1


def test_the_bytecodes_of_a_first_request_do_not_grow(
    sizes: tuple[Loaded, Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before rights are created they depend on the lengths of prefixes, not on the principal's ACLs."""
    monkeypatch.setattr(limits, "PATTERNS_PER_REQUEST", 0)

    def each(loaded: Loaded) -> float:
        index = AclIndex.of(loaded.subject.image)
        lengths = len(index.rows.lengths[ResourceType.TOPIC])
        requests = [(each.context.principal, each.actions[0].resource_pattern) for each in loaded.requests]
        calls = [(index.principals.rights_for(who)[0], about) for who, about in requests]
        count = bytecodes(
            lambda: [cover_of(by_type[about.resource_type], about.name) for by_type, about in calls]
        )
        return count / lengths

    small, large = map(each, sizes)
    assert large <= small * 1.25


def test_the_name_comparisons_of_a_decision_do_not_grow(sizes: tuple[Loaded, Loaded]) -> None:
    """Hashes and comparisons of the request's texts are equal, except for the steps of bisections."""

    def each(loaded: Loaded) -> float:
        requests = [_with_counted_texts(request) for request in loaded.requests]
        Text.looks = 0
        for request in requests:
            loaded.subject.authorizer.authorize(request.context, request.actions)
        return Text.looks / len(requests)

    small, large = map(each, sizes)
    assert small > 3  # principal, literal name, prefixes: they are counted
    assert large <= small + 4 * HALVINGS  # two bisections, for the caller and for User:*


def test_memory_blocks_per_acl_are_bounded(sizes: tuple[Loaded, Loaded]) -> None:
    """Memory blocks of the authorizer for each ACL: after a start, and after a request of every principal."""

    def each(loaded: Loaded) -> tuple[float, float]:
        image = loaded.subject.image
        gc.collect()
        before = sys.getallocatedblocks()
        authorizer = StandardAuthorizer()
        authorizer.load(image)
        gc.collect()
        started = sys.getallocatedblocks() - before
        for principal in image.columns.principals.texts:
            authorizer.state.index.principals.rights_of(principal)
        gc.collect()
        requested = sys.getallocatedblocks() - before
        return started / len(image), requested / len(image)

    for started, requested in map(each, sizes):
        assert started < 0.5
        assert requested < 5


def test_the_bytecodes_of_an_update_do_not_grow(sizes: tuple[Loaded, Loaded]) -> None:
    """Bytecodes of folding one record into the image and the index."""

    def each(loaded: Loaded) -> float:
        with _restored(loaded.subject), BytecodeCounter() as counter:
            for record in loaded.updates:
                loaded.subject.publish([record])
        return counter.total / len(loaded.updates)

    small, large = map(each, sizes)
    assert large <= small * 1.25


def test_the_bytecodes_of_an_update_and_the_next_decision_do_not_grow(sizes: tuple[Loaded, Loaded]) -> None:
    """The same with its principal's next decision, which completes the deferred work of the update."""

    def each(loaded: Loaded) -> float:
        authorize = loaded.subject.authorizer.authorize
        requests = [_request_at(acl) for acl in loaded.updates]
        for request in requests:
            authorize(
                request.context, request.actions
            )  # a principal without requests has no rights to change
        with _restored(loaded.subject), BytecodeCounter() as counter:
            for record, request in zip(loaded.updates, requests, strict=True):
                loaded.subject.publish([record])
                authorize(request.context, request.actions)
        return counter.total / len(loaded.updates)

    small, large = map(each, sizes)
    assert large <= small * 1.25


def test_the_memory_of_an_update_does_not_grow(sizes: tuple[Loaded, Loaded]) -> None:
    """Peak bytes of one publish: it copies nothing that grows with the ACLs."""

    def each(loaded: Loaded) -> list[int]:
        peaks = []
        with _restored(loaded.subject):
            for record in loaded.updates:
                tracemalloc.start()
                loaded.subject.publish([record])
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
        return peaks

    small, large = map(each, sizes)
    assert max(small) > 1_000
    # A dict of 100,000 pointers would be 800,000; a table is copied up to 512 entries, then shared.
    assert max(large) < 100_000


@contextmanager
def _restored(subject: Subject) -> Iterator[None]:
    """Remove the ACLs that the test adds, so that the next test has the workload's ACLs."""
    before = {acl.record.id for acl in subject.image}
    yield
    added = [acl.record.id for acl in subject.image if acl.record.id not in before]
    subject.publish([RemoveAccessControlEntryRecord(acl_id) for acl_id in added])


def _request_at(acl: AccessControlEntryRecord) -> Request:
    """A request of the ACL's principal on its name."""
    pattern = ResourcePattern(ResourceType(acl.resource_type), acl.resource_name, PatternType.LITERAL)
    action = Action(AclOperation.DESCRIBE, pattern, log_if_allowed=False, log_if_denied=False)
    return Request(RequestContext(parse_kafka_principal(acl.principal), "10.255.0.1"), [action])


def _with_counted_texts(request: Request) -> Request:
    """The same request, with counting texts."""
    context, (action,) = request.context, request.actions
    principal = KafkaPrincipal(context.principal.principal_type, Text(context.principal.name))
    pattern = replace(action.resource_pattern, name=Text(action.resource_pattern.name))
    counted: RequestContext = replace(context, principal=principal)
    return Request(counted, [replace(action, resource_pattern=pattern)])


@pytest.mark.parametrize("by", ["topic", "principal"])
def test_the_bytecodes_of_a_listing_do_not_grow(sizes: tuple[Loaded, Loaded], by: str) -> None:
    """Bytecodes of acls(filter) for each ACL that it finds: there is no scan."""

    def filters(loaded: Loaded) -> list[AclBindingFilter]:
        if by == "topic":
            return [
                AclBindingFilter(
                    ResourcePatternFilter(ResourceType.TOPIC, acl.resource_name, PatternType.LITERAL)
                )
                for acl in loaded.topics
            ]
        return [
            AclBindingFilter(entry_filter=AccessControlEntryFilter(principal=acl.principal))
            for acl in loaded.topics[:5]
        ]

    def each(loaded: Loaded) -> float:
        list_acls = loaded.subject.authorizer.acls
        chosen = filters(loaded)
        found = sum(len(list(list_acls(acl_filter))) for acl_filter in chosen)
        return bytecodes(lambda: [list(list_acls(acl_filter)) for acl_filter in chosen]) / found

    small, large = map(each, sizes)
    assert large <= small * 1.25


def test_the_bytecodes_by_resource_type_do_not_grow(sizes: tuple[Loaded, Loaded]) -> None:
    """Bytecodes of authorize_by_resource_type, which reads every ACL in Kafka."""

    def each(loaded: Loaded) -> float:
        authorize = loaded.subject.authorizer.authorize_by_resource_type
        contexts = [request.context for request in loaded.requests]
        return bytecodes(
            lambda: [authorize(context, AclOperation.READ, ResourceType.TOPIC) for context in contexts]
        )

    small, large = map(each, sizes)
    assert large <= small * 2  # one caller has four times as many ACLs in the large one
