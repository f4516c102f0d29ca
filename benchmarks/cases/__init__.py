"""What is measured: each case gives rows of the table for one workload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.arena import Arena
from benchmarks.cases import (
    admin,
    audit,
    bulk,
    by_resource_type,
    churn,
    commands,
    console,
    decision_events,
    decisions,
    findings,
    first_question,
    growth,
    listing,
    noise,
    opa,
    peers,
    profile,
    quorum,
    reason,
    replay,
    sets,
    sidecar,
    sidecar_requests,
    sidecar_workers,
    spark,
    start,
    topic,
    updates,
    workers,
)
from benchmarks.figures import Row

MAIN = "benchmarks"


@dataclass(frozen=True, slots=True)
class Case:
    """One part of the benchmarks.

    Attributes:
        name: for --only.
        title: above its table.
        workloads: that it is measured on.
        measure: gives its rows.
        section: of docs/performance-tables.md. What is not in the main one is measured when it is asked for.
    """

    name: str
    title: str
    workloads: tuple[str, ...]
    measure: Callable[[Arena], Iterator[Row]]
    section: str = MAIN


# In this order for each workload: what changes its ACLs comes after what measures it as it was loaded. Calls
# with many actions come first, for theirs are to lie together as those of a request just read do, not in
# what long lists left free.
CASES = (
    Case("bulk", "Many actions in one call", ("w3", "w2"), bulk.measure),
    Case(
        "authorize",
        "One action in one call",
        ("w3", "w1s", "w1", "w2", "fleet", "strangers", "mesh"),
        decisions.measure,
    ),
    Case("audited", "Audited as by default", ("w3", "w2"), audit.measure),
    Case("events", "With decision events", ("w3", "w2"), decision_events.measure),
    Case("reason", "A decision with its reason", ("w3", "w2"), reason.measure),
    Case("sidecar", "Many evaluations over HTTP", ("w3", "w2"), sidecar.measure),
    Case("sidecar-requests", "Requests over HTTP", ("w3",), sidecar_requests.measure),
    Case("admin", "Requests of Kafka's protocol", ("w3", "tenant-250000"), admin.measure, section="admin"),
    Case("metadata", "Many topics of a cluster", ("w3",), admin.measure_metadata, section="admin"),
    Case("opa", "Requests over HTTP compared with OPA", ("w3",), opa.measure),
    Case("sidecar-workers", "Requests to several workers", ("w3",), sidecar_workers.measure),
    Case("profile", "Where the time of one authorize() goes", ("w3", "w2"), profile.measure),
    Case("growth", "Growth", ("tenant-1000", "tenant-10000", "tenant-100000", "w2"), growth.measure),
    Case("workers", "All cores", ("w3", "w2"), workers.measure),
    Case("start", "Cold start and memory", ("w2",), start.measure),
    Case("first-question", "The first request of a principal", ("w2", "w1", "fleet"), first_question.measure),
    Case("acls", "Listing", ("w2",), listing.measure),
    Case("commands", "Commands", ("tenant-1000",), commands.measure),
    Case("list-command", "A command that lists", ("tenant-200000",), commands.measure_listing),
    Case("lint", "A command that reads every ACL", ("w2",), commands.measure_lint),
    Case("by-type", "Any resource of a type", ("w2",), by_resource_type.measure),
    Case("sets", "Queries about a complete set", ("w2",), sets.measure),
    Case("update", "One record becomes visible", ("w2", "w1"), updates.measure),
    Case("churn", "Latency under updates", ("w2",), churn.measure),
    Case("replay", "Replay of a directory log", ("w2",), replay.measure),
    Case("topic", "A topic on a real broker", ("tenant-100000", "w2"), topic.measure),
    Case("quorum", "The cluster's metadata log", ("tenant-100000",), quorum.measure, section="quorum"),
    Case("console", "The console", ("tenant-100000", "w2"), console.measure, section="console"),
    Case(
        "findings",
        "The console's findings",
        ("fleet-100000", "tenant-100000", "mesh-100000", "strangers-100000", "networks-100000"),
        findings.measure,
        section="findings",
    ),
    Case("peers", "General policy engines", ("w3",), peers.measure),
    Case("noise", "Noise", ("w3",), noise.measure),
    Case(
        "spark",
        "The snapshots job",
        ("tenant-100000", "tenant-300000", "w2"),
        spark.measure,
        section="spark",
    ),
)
