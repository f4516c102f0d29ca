"""Work must not grow with the number of ACLs: counted, not timed, at 1,000 and at 100,000 ACLs of one shape.

What is counted is the same on every machine: bytecodes that Python executes (what a C function does in one
call is not seen), hashes and comparisons of the texts of a question (that is what dicts and bisections do in
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

# One worker makes the two authorizers.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("benchmarks-shape")]

SMALL, LARGE = 1_000, 100_000
REQUESTS = 400
SAMPLES = 40
#: What a bisection takes more among a hundred times as many.
HALVINGS = math.ceil(math.log2(LARGE / SMALL))


class Text(str):
    """A text that counts how often anything looks at it."""

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
    """An authorizer with ACLs that came through a log and replay, and what it is asked."""

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
        # As of who asks often; what a first question costs has a test of its own.
        for principal in each.subject.image.columns.principals.texts:
            each.subject.authorizer.state.index.principals.rights_of(principal)
    yield loaded
    for each in loaded:
        each.subject.close()


def bytecodes(call: Callable[[], object]) -> int:
    """How many a call executes; not the first one, which may work out what later ones find."""
    call()
    with BytecodeCounter() as counter:
        call()
    return counter.total


def test_bytecodes_are_counted() -> None:
    """The counter sees Python code, and more of it when there is more: the other tests rely on that."""

    def loop(times: int) -> None:
        for _ in range(times):
            pass

    few, many = bytecodes(lambda: loop(10)), bytecodes(lambda: loop(1_000))
    assert 10 <= few < 100
    assert many > 1_000


def test_a_decision_executes_as_much_code(sizes: tuple[Loaded, Loaded]) -> None:
    """Bytecodes of authorize(context, [action])."""

    def each(loaded: Loaded) -> float:
        authorize = loaded.subject.authorizer.authorize
        return bytecodes(lambda: [authorize(asked.context, asked.actions) for asked in loaded.requests])

    small, large = map(each, sizes)
    assert large <= small * 1.1


def test_a_first_question_executes_as_much_code(
    sizes: tuple[Loaded, Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before rights are made it grows with the lengths of prefixes, not with what a principal has."""
    monkeypatch.setattr(limits, "PATTERNS_PER_REQUEST", 0)

    def each(loaded: Loaded) -> float:
        index = AclIndex.of(loaded.subject.image)
        lengths = len(index.rows.lengths[ResourceType.TOPIC])
        asked = [(each.context.principal, each.actions[0].resource_pattern) for each in loaded.requests]
        calls = [(index.principals.rights_for(who)[0], about) for who, about in asked]
        count = bytecodes(
            lambda: [cover_of(by_type[about.resource_type], about.name) for by_type, about in calls]
        )
        return count / lengths

    small, large = map(each, sizes)
    assert large <= small * 1.25


def test_a_decision_looks_at_names_as_often(sizes: tuple[Loaded, Loaded]) -> None:
    """Hashes and comparisons of what is asked: as many, but for the halvings of bisections."""

    def each(loaded: Loaded) -> float:
        asked = [_with_counted_texts(request) for request in loaded.requests]
        Text.looks = 0
        for request in asked:
            loaded.subject.authorizer.authorize(request.context, request.actions)
        return Text.looks / len(asked)

    small, large = map(each, sizes)
    assert small > 3  # principal, literal name, prefixes: they are counted
    assert large <= small + 4 * HALVINGS  # two bisections, the asker's and User:*'s


def test_objects_per_acl(sizes: tuple[Loaded, Loaded]) -> None:
    """Blocks of memory that deciding takes for each ACL: after a start, and when all have asked once."""

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
        asked = sys.getallocatedblocks() - before
        return started / len(image), asked / len(image)

    for started, asked in map(each, sizes):
        assert started < 0.5
        assert asked < 5


def test_an_update_executes_as_much_code(sizes: tuple[Loaded, Loaded]) -> None:
    """Bytecodes of folding one record into the image and the index."""

    def each(loaded: Loaded) -> float:
        with _restored(loaded.subject), BytecodeCounter() as counter:
            for record in loaded.updates:
                loaded.subject.publish([record])
        return counter.total / len(loaded.updates)

    small, large = map(each, sizes)
    assert large <= small * 1.25


def test_an_update_that_is_asked_for_executes_as_much_code(sizes: tuple[Loaded, Loaded]) -> None:
    """The same with its principal's next decision, which looks at what the update left to be done."""

    def each(loaded: Loaded) -> float:
        authorize = loaded.subject.authorizer.authorize
        questions = [_question_at(acl) for acl in loaded.updates]
        for question in questions:
            authorize(question.context, question.actions)  # who never asked has nothing to be changed
        with _restored(loaded.subject), BytecodeCounter() as counter:
            for record, question in zip(loaded.updates, questions, strict=True):
                loaded.subject.publish([record])
                authorize(question.context, question.actions)
        return counter.total / len(loaded.updates)

    small, large = map(each, sizes)
    assert large <= small * 1.25


def test_an_update_copies_no_more(sizes: tuple[Loaded, Loaded]) -> None:
    """Bytes that one publish needs at its peak: nothing that grows with the ACLs is copied."""

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
    """Whatever is added meanwhile is removed again: the next test finds what the workload has."""
    before = {acl.record.id for acl in subject.image}
    yield
    added = [acl.record.id for acl in subject.image if acl.record.id not in before]
    subject.publish([RemoveAccessControlEntryRecord(acl_id) for acl_id in added])


def _question_at(acl: AccessControlEntryRecord) -> Request:
    """Of the ACL's principal, about its name."""
    pattern = ResourcePattern(ResourceType(acl.resource_type), acl.resource_name, PatternType.LITERAL)
    action = Action(AclOperation.DESCRIBE, pattern, log_if_allowed=False, log_if_denied=False)
    return Request(RequestContext(parse_kafka_principal(acl.principal), "10.255.0.1"), [action])


def _with_counted_texts(request: Request) -> Request:
    """The same question, in texts that count."""
    context, (action,) = request.context, request.actions
    principal = KafkaPrincipal(context.principal.principal_type, Text(context.principal.name))
    pattern = replace(action.resource_pattern, name=Text(action.resource_pattern.name))
    counted: RequestContext = replace(context, principal=principal)
    return Request(counted, [replace(action, resource_pattern=pattern)])


@pytest.mark.parametrize("by", ["topic", "principal"])
def test_a_listing_executes_as_much_code(sizes: tuple[Loaded, Loaded], by: str) -> None:
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


def test_by_resource_type_executes_as_much_code(sizes: tuple[Loaded, Loaded]) -> None:
    """Bytecodes of authorize_by_resource_type, which in Kafka looks at every ACL."""

    def each(loaded: Loaded) -> float:
        authorize = loaded.subject.authorizer.authorize_by_resource_type
        askers = [asked.context for asked in loaded.requests]
        return bytecodes(
            lambda: [authorize(asker, AclOperation.READ, ResourceType.TOPIC) for asker in askers]
        )

    small, large = map(each, sizes)
    assert large <= small * 2  # one asker has four times as many ACLs in the large one
