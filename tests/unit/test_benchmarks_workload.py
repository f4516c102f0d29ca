"""The workloads of the benchmarks: figures of two runs are comparable because their bytes are equal."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from authorizer.api.ip_address import network_of
from benchmarks.requests import (
    AUDITED,
    BULK,
    BULK_ACTIONS,
    PRINCIPALS,
    list_file,
    read_requests,
    updates_file,
)
from benchmarks.stored import log_directory, read_acls, snapshot_directory, writable_log
from benchmarks.subject import Subject
from benchmarks.workload import make_workload, workload_directory
from records.acl import AclPermissionType, PatternType
from records.log.directory import DirectoryLog

# Digests of the files of this project's first figures.
SHA256 = {
    "w3/acls.jsonl": "f3684967d5022685e1cfdb1182d14a1639b25728d4a57207030dc007cd461eeb",
    "w3/distinct.jsonl": "b412ab99074491e0e27c7f2aa9da6291025754bd77fa9e3e750edc9b12a65b21",
    "w3/zipf.jsonl": "f1247c522c0060b2479164ae9510597ef3bb6a93fc6085633d68f9b2ac608c88",
    "w1s/acls.jsonl": "c270db963d1ab0265fbb3ab9522456a3424887a4bfeeb2819c29eabee9d265eb",
    "w1s/distinct.jsonl": "a7396742f48531e1957770ab456d4157643de4df916cff801a1f96f146b0d7d5",
    "w1s/jmh.jsonl": "8ba453d09819fdbe6cabba899521b6a415b54001a8c0e90e63eaee32e6708ca6",
    "w1s/zipf.jsonl": "1ee14ee9d75d16a0d206f58d0114b5aa5200c81dc375739919080b77a86d8adf",
    "fleet-2000/acls.jsonl": "beb89ecfafc16124a164720adaec5a8a343880a1e81e0493acff0260cfc1818f",
    "fleet-2000/distinct.jsonl": "08a622523929dd277322918b3521d069710db88c5622b09291759ebb89ee91a6",
    "strangers-2000/acls.jsonl": "d18d7a19a399adaca5e75a0e09ea7a02b7d4aad0d7de22afebe12bb3fc83a96c",
    "strangers-2000/distinct.jsonl": "d9c7a2de4b30081949587b7a4608fbd485e3002ef546a05eb957b43ec6c05e3e",
    "mesh-2000/acls.jsonl": "6f872f86c04bf034472101f408919fb8a4fce822cd52141e9c566fe333ed0581",
    "mesh-2000/distinct.jsonl": "040a417905fee360cfa94355a6a75b8bfea1fa5273f3f5ae0985f55c2b916883",
    "networks-2000/acls.jsonl": "169dcb9c513fbfcf82b56359ce7eebe403dcbdad4508dc84eb81c7f3e44e0eee",
    "networks-2000/distinct.jsonl": "ebae7a57d1e38db212ad263775681497ddfdd768a06546f8c4366b67d778d880",
}
WORKLOADS = {file.partition("/")[0] for file in SHA256}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("workloads")
    for name in WORKLOADS:
        workload_directory(cache, name)
    return cache


@pytest.mark.parametrize("file", SHA256)
def test_a_workload_has_the_same_bytes_every_time(cache: Path, file: str) -> None:
    """On any machine, with any Python version, on any day."""
    assert hashlib.sha256((cache / file).read_bytes()).hexdigest() == SHA256[file]


def test_a_workload_is_written_once(cache: Path) -> None:
    """The second call reuses it; an unfinished file is never used."""
    before = (cache / "w3" / "acls.jsonl").stat().st_mtime_ns
    (cache / "w3.unfinished").mkdir()
    assert workload_directory(cache, "w3") == cache / "w3"
    assert (cache / "w3" / "acls.jsonl").stat().st_mtime_ns == before


def test_an_unknown_workload_is_an_error(tmp_path: Path) -> None:
    """A misspelt name creates no workload."""
    for name in ("w4", "fleet-", "w3-500"):
        with pytest.raises(KeyError):
            workload_directory(tmp_path, name)


def test_a_tenant_workload_has_the_shape_of_w2() -> None:
    """The requested number of distinct ACLs, a third prefixed, one in twenty denying."""
    acls = [acl for _, acl in make_workload("tenant-5000").acls]
    assert len(acls) == len(set(acls)) == 5_000
    assert 0.25 < sum(acl.pattern_type == PatternType.PREFIXED for acl in acls) / len(acls) < 0.35
    assert 0.03 < sum(acl.permission_type == AclPermissionType.DENY for acl in acls) / len(acls) < 0.07


def test_a_fleet_has_many_principals() -> None:
    """Five ACLs each, and four of five requests match an ACL of the caller."""
    workload = make_workload("fleet-5000")
    acls = [acl for _, acl in workload.acls]
    assert len(acls) == len(set(acls)) == 5_000
    assert set(Counter(acl.principal for acl in acls).values()) == {5}
    shared = Counter(acl.resource_name for acl in acls)
    assert max(shared.values()) > 50  # a shared resource of a site has an ACL of each device there


def test_callers_of_the_strangers_workload_have_no_acls() -> None:
    """Two thirds of the ACLs are prefixes for everyone, each name below nine more of them."""
    workload = make_workload("strangers-3000")
    acls = [acl for _, acl in workload.acls]
    assert len(acls) == len(set(acls)) == 3_000
    for_everyone = [acl for acl in acls if acl.principal == "User:*"]
    assert 0.66 < len(for_everyone) / len(acls) < 0.68
    assert {acl.pattern_type for acl in for_everyone} == {PatternType.PREFIXED}
    principals = {acl.principal for acl in acls}
    requests = workload.queries["distinct"]
    assert not principals & {query.principal for query in requests}
    prefixes = {acl.resource_name for acl in for_everyone}
    covering = [
        sum(query.resource_name.startswith(prefix) for prefix in prefixes) for query in requests[:100]
    ]
    assert median(covering) == 10


def test_a_mesh_has_hosts_and_denials() -> None:
    """Three of five ACLs are for one of 512 hosts, one in five denies; principals have commas in them."""
    acls = [acl for _, acl in make_workload("mesh-10000").acls]
    assert len(acls) == len(set(acls)) == 10_000
    assert 0.57 < sum(acl.host != "*" for acl in acls) / len(acls) < 0.63
    assert len({acl.host for acl in acls}) == 1 + 512
    assert 0.18 < sum(acl.permission_type == AclPermissionType.DENY for acl in acls) / len(acls) < 0.22
    assert all(re.fullmatch(r"User:CN=[^,]+,OU=[^,]+,O=[^,]+,C=DE", acl.principal) for acl in acls)


def test_a_third_of_the_acls_is_for_nested_networks() -> None:
    acls = [acl for _, acl in make_workload("networks-10000").acls]
    assert len(acls) == len(set(acls)) == 10_000
    networks = {network_of(acl.host) for acl in acls} - {None}
    assert {each.length for each in networks if each} == {8, 12, 16, 20, 24}
    assert 0.30 < sum(acl.host != "*" for acl in acls) / len(acls) < 0.36
    everything = min(networks, key=lambda each: each.length if each else 0)
    assert everything is not None
    assert all(each.is_within(everything) for each in networks if each)


def test_both_sides_read_the_same_lists(cache: Path) -> None:
    """A list has one action in each request; ``bulk`` has 500, all of one principal."""
    zipf = read_requests(cache / "w3", "zipf")
    assert len(zipf) == 100_000
    assert {len(request.actions) for request in zipf} == {1}
    audited = read_requests(cache / "w3", AUDITED)
    assert {
        action.log_if_allowed and action.log_if_denied for request in audited for action in request.actions
    } == {True}
    assert [request.context for request in audited] == [
        request.context for request in read_requests(cache / "w3", "distinct")
    ]
    bulk = read_requests(cache / "w3", BULK)
    assert {len(request.actions) for request in bulk} == {BULK_ACTIONS}
    lines = list_file(cache / "w3", BULK).read_text(encoding="ascii").splitlines()
    assert len(lines) == BULK_ACTIONS * len(bulk)


def test_updates_are_new_acls(cache: Path) -> None:
    """None of them is in the workload, so that adding and removing them does not change it."""
    workload_acls = {acl.content for acl in read_acls(cache / "w3" / "acls.jsonl")}
    updates = list(read_acls(updates_file(cache / "w3")))
    assert not workload_acls & {acl.content for acl in updates}
    assert len({acl.id for acl in updates}) == len(updates) == 2_000


def test_every_principal_sends_one_request(cache: Path) -> None:
    """All principals with ACLs except User:* are among them, in a seeded order."""
    acls = list(read_acls(cache / "w3" / "acls.jsonl"))
    askers = [str(request.context.principal) for request in read_requests(cache / "w3", PRINCIPALS)]
    assert len(askers) == len(set(askers))
    assert set(askers) == {acl.principal for acl in acls} - {"User:*"}
    again = list_file(cache / "w3", PRINCIPALS).read_bytes()
    list_file(cache / "w3", PRINCIPALS).unlink()
    assert list_file(cache / "w3", PRINCIPALS).read_bytes() == again


def test_principals_request_resources_of_their_acls(cache: Path) -> None:
    """Nearly every request matches an ACL of the caller; a few are denied by another ACL."""
    requests = read_requests(cache / "w3", PRINCIPALS)
    subject = Subject.open(log_directory(cache / "w3"), snapshot_directory(cache / "w3"))
    try:
        allowed = subject.decide(requests, allow_everyone=False).count("A")
    finally:
        subject.close()
    assert allowed > len(requests) / 2


def test_a_log_is_copied_before_it_is_written(cache: Path) -> None:
    """The workload's log does not change, and the copy still matches the snapshot."""
    before = DirectoryLog.open(log_directory(cache / "w3"))
    with before, writable_log(cache / "w3") as copy, DirectoryLog.open(copy, mode="write") as log:
        log.append([next(read_acls(updates_file(cache / "w3")))])
        assert log.identity == before.identity
        assert log.high_watermark() == before.high_watermark() + 1
    assert not copy.exists()
