"""Seeded ACLs and queries; the same bytes come out every time.

    w3           500 ACLs        a small cluster with six teams
    w1s          2,431 ACLs      w1 in small
    w1           606,201 ACLs    Kafka's own AuthorizerBenchmark: ten principals with 40,000 names
    w2           1,000,000 ACLs  many tenants: dotted names, 30 % prefixed, 5 % deny, some hosts
    tenant-N     N ACLs          w2's shape
    fleet        400,000 ACLs    80,000 principals with five each
    strangers    300,000 ACLs    two thirds are nested prefixes for User:*; the callers have none
    mesh         200,000 ACLs    X.509 principals, 60 % with one of 512 hosts, 20 % deny
    networks-N   N ACLs          a third for nested networks (KIP-1276)
    fleet-N, strangers-N, mesh-N: the same shapes with N ACLs

A workload is a directory with ``acls.jsonl`` (payloads as kafka-dump-log prints them) and query lists:
``distinct`` (all different), ``zipf`` (repeats as Zipf's law has them) and, for w1 and w1s, ``jmh`` (the one
query that AuthorizerBenchmark.testAuthorizer issues). What is drawn, and in which order, is pinned by a test:
figures of two runs are comparable only over equal bytes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from benchmarks.shapes.drawing import Acl, Query, Workload
from benchmarks.shapes.fleet import fleet
from benchmarks.shapes.jmh import jmh_shape
from benchmarks.shapes.mesh import mesh
from benchmarks.shapes.networks import networks
from benchmarks.shapes.strangers import strangers
from benchmarks.shapes.tenant import tenant, tenant_of_size

_SHAPES: Final[Mapping[str, Callable[[int], Workload]]] = {
    "tenant": tenant_of_size,
    "fleet": fleet,
    "strangers": strangers,
    "mesh": mesh,
    "networks": networks,
}


def _w3() -> Workload:
    return tenant(500, topics=60, principals=30, teams=6, seed=3, queries=20_000, wildcard_principals=3)


def _w2() -> Workload:
    return tenant(
        1_000_000,
        topics=100_000,
        principals=5_000,
        teams=300,
        seed=2,
        queries=100_000,
        wildcard_principals=20,
    )


def _w1s() -> Workload:
    return jmh_shape(resources=200, queries=20_000)


_NAMED: Final[Mapping[str, Callable[[], Workload]]] = {
    "w3": _w3,
    "w1s": _w1s,
    "w1": jmh_shape,
    "w2": _w2,
    "fleet": lambda: fleet(400_000),
    "strangers": lambda: strangers(300_000),
    "mesh": lambda: mesh(200_000),
}


def workload_directory(cache: Path, name: str) -> Path:
    """The directory with the named workload, written on the first call. KeyError: no such workload."""
    make = _generator(name)
    directory = cache / name
    if not directory.is_dir():
        unfinished = cache / f"{name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        write_workload(make(), unfinished)
        unfinished.rename(directory)
    return directory


def write_workload(workload: Workload, directory: Path) -> None:
    """Write ``acls.jsonl`` and one file for each list of queries."""
    with (directory / "acls.jsonl").open("w", encoding="ascii") as file:
        file.writelines(map(_acl_line, workload.acls))
    for name, queries in workload.queries.items():
        with (directory / f"{name}.jsonl").open("w", encoding="ascii") as file:
            file.writelines(map(_query_line, queries))


def make_workload(name: str) -> Workload:
    """The named workload. KeyError: no such workload."""
    return _generator(name)()


def _generator(name: str) -> Callable[[], Workload]:
    if name in _NAMED:
        return _NAMED[name]
    shape, _, size = name.partition("-")
    if not size.isdigit():
        raise KeyError(name)
    make = _SHAPES[shape]
    return lambda: make(int(size))


def _acl_line(acl: tuple[str, Acl]) -> str:
    acl_id, (resource_type, name, pattern_type, principal, host, operation, permission) = acl
    return (
        f'{{"type":"ACCESS_CONTROL_ENTRY_RECORD","version":0,"data":{{"id":"{acl_id}",'
        f'"resourceType":{resource_type},"resourceName":{json.dumps(name)},"patternType":{pattern_type},'
        f'"principal":{json.dumps(principal)},"host":"{host}","operation":{operation},'
        f'"permissionType":{permission}}}}}\n'
    )


def _query_line(query: Query) -> str:
    return (
        f'{{"principal":{json.dumps(query.principal)},"host":"{query.host}","operation":{query.operation},'
        f'"resourceType":{query.resource_type},"resourceName":{json.dumps(query.resource_name)}}}\n'
    )
