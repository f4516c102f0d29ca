"""acls(filter), beside Kafka's own, which looks at every ACL whatever is asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import islice

from benchmarks.arena import Arena
from benchmarks.figures import Goal, Row, alternate, faster
from benchmarks.settings import progress
from records.acl import (
    AccessControlEntryFilter,
    AclBindingFilter,
    PatternType,
    ResourcePatternFilter,
    ResourceType,
)
from records.entries import AccessControlEntryRecord
from records.ids import Uuid

_GOALS = {"w2": Goal("at least", 50, 1_000)}
#: In Kafka's order; both sides must read every ACL.
_EVERYTHING = "everything"
_IDS = 10_000
_SCANS = 3  # of Java in each round: a scan of a million ACLs takes a third of a second


def measure(arena: Arena) -> Iterator[Row]:
    sample = _some_topic_acl(arena)
    resource_type = ResourceType.from_code(sample.resource_type)
    pattern_type = PatternType.from_code(sample.pattern_type)
    one_name = ResourcePatternFilter(resource_type, sample.resource_name, pattern_type)
    covering = ResourcePatternFilter(resource_type, f"{sample.resource_name}x", PatternType.MATCH)
    everything = ResourcePatternFilter()
    filters = {
        "one topic": AclBindingFilter(one_name),
        "all that cover one topic": AclBindingFilter(covering),
        "one principal": AclBindingFilter(everything, AccessControlEntryFilter(principal=sample.principal)),
        _EVERYTHING: AclBindingFilter(everything),
    }
    for what, acl_filter in filters.items():
        progress(f"{arena.workload}: acls of {what}")
        found = sum(1 for _ in arena.ours.authorizer.acls(acl_filter))
        theirs, ours = alternate(
            arena.settings.loads if what == _EVERYTHING else arena.settings.rounds,
            partial(_java_scan, arena, acl_filter, found),
            partial(_our_listing, arena, acl_filter),
        )
        yield Row(
            what=f"acls({what})",
            workload=arena.workload,
            unit="ns",
            ours=ours,
            other=theirs,
            against="Java",
            ratio=faster(theirs, ours),
            goal=None if what == _EVERYTHING else _GOALS.get(arena.workload),
            note=f"{found} found",
        )
    yield _by_id(arena)


def _by_id(arena: Arena) -> Row:
    """Kafka cannot ask by id: the way there is to list everything."""
    progress(f"{arena.workload}: an ACL by its id")
    image = arena.ours.image
    ids = [acl.record.id for acl in islice(image, _IDS)]
    everything = AclBindingFilter()
    theirs, ours = alternate(
        arena.settings.rounds,
        partial(_java_scan, arena, everything, len(image), scans=1),
        partial(_our_look_ups, arena, ids),
    )
    return Row(
        what="one ACL by its id",
        workload=arena.workload,
        unit="ns",
        ours=ours,
        other=theirs,
        against="Java's acls(everything)",
        ratio=faster(theirs, ours),
        goal=_GOALS.get(arena.workload),
    )


def _our_look_ups(arena: Arena, ids: list[Uuid]) -> float:
    """CPU of one look-up, ns."""
    get = arena.ours.image.get
    began = time.thread_time_ns()
    for acl_id in ids:
        get(acl_id)
    return (time.thread_time_ns() - began) / len(ids)


def _some_topic_acl(arena: Arena) -> AccessControlEntryRecord:
    """Of an ordinary principal and an ordinary name, from the middle of the image."""
    ordinary = [
        acl.record
        for acl in arena.ours.image
        if acl.record.resource_type == ResourceType.TOPIC
        and acl.record.pattern_type == PatternType.LITERAL
        and acl.record.resource_name != "*"
        and acl.record.principal != "User:*"
    ]
    return ordinary[len(ordinary) // 2]


def _our_listing(arena: Arena, acl_filter: AclBindingFilter) -> float:
    """CPU of one listing, ns."""
    list_acls = arena.ours.authorizer.acls
    repeats = 0
    end = time.perf_counter() + arena.settings.round_s / 2
    began = time.thread_time_ns()
    while time.perf_counter() < end:
        for _ in list_acls(acl_filter):
            pass
        repeats += 1
    return (time.thread_time_ns() - began) / repeats


def _java_scan(arena: Arena, acl_filter: AclBindingFilter, expected: int, *, scans: int = _SCANS) -> float:
    """The least of a few, ns: the first ones also warm it up."""
    pattern = acl_filter.pattern_filter
    answers = [
        arena.java.tell(
            "acls",
            resourceType=int(pattern.resource_type),
            resourceName=pattern.name,
            patternType=int(pattern.pattern_type),
            principal=acl_filter.entry_filter.principal,
        )
        for _ in range(scans)
    ]
    found = {answer["found"] for answer in answers}
    if found != {expected}:
        raise RuntimeError(f"{acl_filter}: aclog lists {expected} ACLs, Kafka {found}")
    return float(min(answer["ns"] for answer in answers))
