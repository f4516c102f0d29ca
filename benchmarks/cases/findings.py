"""The console's findings: the first page of all ACLs by HTTP, at first and after a change of one ACL.

``aclog serve --console``, the process that decides and the console's, on a log of the ACLs. By the clock, as
a person waits who has the console open: from the request to the last byte of the page.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from itertools import islice
from statistics import median
from typing import Any, NamedTuple

import msgspec

from authorizer.api.acl_json import content_json
from benchmarks.arena import Arena
from benchmarks.figures import Goal, Row, Spread
from benchmarks.http_servers import Server, ask, running_sidecar
from benchmarks.settings import progress
from benchmarks.stored import log_directory, read_acls, writable_log
from records.entries import AccessControlEntryRecord

_TIMEOUT_S = 60.0
#: An idle node uses less CPU than this in this time.
_IDLE_S = 0.5
_IDLE_CPU_NS = 20e6
#: Removed one by one.
_CHANGES = 5
_GOAL = Goal("at most", 1e9, of="ours")
#: The caller may change ACLs, and hosts may be networks.
_ENVIRON = {"ACLOG_SUPER_USERS": "User:ANONYMOUS", "ACLOG_KAFKA_VERSION": "4.4"}


class _Page(NamedTuple):
    """How long a page took, by the clock and of the node's CPU, and how many findings there are."""

    ns: float
    cpu_ns: float
    findings: int


def measure(arena: Arena) -> Iterator[Row]:
    """One node for each round."""
    first: list[_Page] = []
    changed: list[_Page] = []
    acls = list(islice(read_acls(arena.directory / "acls.jsonl"), _CHANGES))
    for _ in range(min(3, arena.settings.rounds)):
        progress(f"{arena.workload}: findings in the console")
        with (
            writable_log(arena.directory, log_directory(arena.directory)) as log,
            running_sidecar(log, 1, "--console", environ=_ENVIRON) as server,
            closing(server.connection(_TIMEOUT_S)) as connection,
        ):
            _open_console(server, connection)
            first.append(_page(server, connection))
            for acl in acls:
                _remove(connection, acl)
                changed.append(_page(server, connection))
    for what, pages in (
        ("first page of findings", first),
        ("first page of findings, after an ACL was removed", changed),
    ):
        yield Row(
            what=what,
            workload=arena.workload,
            unit="ns",
            ours=Spread(tuple(each.ns for each in pages)),
            goal=_GOAL,
            note=f"{median(each.cpu_ns for each in pages) / 1e6:.0f} ms of the node's CPU; "
            f"{pages[0].findings:,} findings",
        )


def _open_console(server: Server, connection: HTTPConnection) -> None:
    """Request the first view, as a person does, and wait until the node has prepared what follows it."""
    ask(connection, "/console/v1/matrix", b"", "GET")
    deadline_s = time.monotonic() + _TIMEOUT_S
    before_ns = server.cpu_ns()
    while time.monotonic() < deadline_s:
        time.sleep(_IDLE_S)
        ask(connection, "/console/v1/now", b"", "GET")  # as the page does; an idle connection is closed
        now_ns = server.cpu_ns()
        if now_ns - before_ns < _IDLE_CPU_NS:
            return
        before_ns = now_ns
    raise TimeoutError("the node does not become idle")


def _page(server: Server, connection: HTTPConnection) -> _Page:
    before_ns, begin_ns = server.cpu_ns(), time.perf_counter_ns()
    answer = ask(connection, "/console/v1/lint?count=100", b"", "GET")
    took_ns = time.perf_counter_ns() - begin_ns
    return _Page(took_ns, server.cpu_ns() - before_ns, msgspec.json.decode(answer)["total"])


def _remove(connection: HTTPConnection, acl: AccessControlEntryRecord) -> None:
    """Remove an ACL, and wait until the console's process has applied it."""
    body = msgspec.json.encode({"filters": [content_json(acl.content)]})
    answer: dict[str, Any] = msgspec.json.decode(ask(connection, "/v1/acls", body, "DELETE"))
    (result,) = answer["results"]
    if len(result["deleted"]) != 1:
        raise RuntimeError(f"not removed: {result}")
    deadline_s = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline_s:
        now = msgspec.json.decode(ask(connection, "/console/v1/now", b"", "GET"))
        if now["end_offset"] >= answer["end_offset"]:
            return
        time.sleep(0.01)
    raise TimeoutError("the console does not follow the log")
