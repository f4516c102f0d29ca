"""The workloads of the benchmarks: figures of two runs are comparable because their bytes are equal."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from benchmarks.requests import BULK, BULK_ACTIONS, PRINCIPALS, list_file, read_requests, updates_file
from benchmarks.stored import log_directory, read_acls, snapshot_directory, writable_log
from benchmarks.subject import Subject
from benchmarks.workload import make_workload, workload_directory
from records.acl import AclPermissionType, PatternType
from records.log.directory import DirectoryLog

# Of the files that the first figures of this project were measured with.
SHA256 = {
    "w3/acls.jsonl": "f3684967d5022685e1cfdb1182d14a1639b25728d4a57207030dc007cd461eeb",
    "w3/distinct.jsonl": "b412ab99074491e0e27c7f2aa9da6291025754bd77fa9e3e750edc9b12a65b21",
    "w3/zipf.jsonl": "f1247c522c0060b2479164ae9510597ef3bb6a93fc6085633d68f9b2ac608c88",
    "w1s/acls.jsonl": "c270db963d1ab0265fbb3ab9522456a3424887a4bfeeb2819c29eabee9d265eb",
    "w1s/distinct.jsonl": "a7396742f48531e1957770ab456d4157643de4df916cff801a1f96f146b0d7d5",
    "w1s/jmh.jsonl": "8ba453d09819fdbe6cabba899521b6a415b54001a8c0e90e63eaee32e6708ca6",
    "w1s/zipf.jsonl": "1ee14ee9d75d16a0d206f58d0114b5aa5200c81dc375739919080b77a86d8adf",
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("workloads")
    for name in ("w3", "w1s"):
        workload_directory(cache, name)
    return cache


@pytest.mark.parametrize("file", SHA256)
def test_the_same_bytes_come_out_every_time(cache: Path, file: str) -> None:
    """Whatever machine, Python or day it is."""
    assert hashlib.sha256((cache / file).read_bytes()).hexdigest() == SHA256[file]


def test_a_workload_is_written_once(cache: Path) -> None:
    """The second call finds it; an unfinished one is never taken for it."""
    before = (cache / "w3" / "acls.jsonl").stat().st_mtime_ns
    (cache / "w3.unfinished").mkdir()
    assert workload_directory(cache, "w3") == cache / "w3"
    assert (cache / "w3" / "acls.jsonl").stat().st_mtime_ns == before


def test_an_unknown_workload_is_an_error(tmp_path: Path) -> None:
    """Nothing is made up for a misspelt name."""
    with pytest.raises(KeyError, match="w4"):
        workload_directory(tmp_path, "w4")


def test_a_tenant_workload_has_the_shape_of_w2() -> None:
    """As many ACLs as asked for, no two equal, a third prefixed, one in twenty denying."""
    acls = [acl for _, acl in make_workload("tenant-5000").acls]
    assert len(acls) == len(set(acls)) == 5_000
    assert 0.25 < sum(acl.pattern_type == PatternType.PREFIXED for acl in acls) / len(acls) < 0.35
    assert 0.03 < sum(acl.permission_type == AclPermissionType.DENY for acl in acls) / len(acls) < 0.07


def test_both_sides_read_the_same_lists(cache: Path) -> None:
    """A list has one action in each request; ``bulk`` has 500, all asked by one principal."""
    zipf = read_requests(cache / "w3", "zipf")
    assert len(zipf) == 100_000
    assert {len(request.actions) for request in zipf} == {1}
    bulk = read_requests(cache / "w3", BULK)
    assert {len(request.actions) for request in bulk} == {BULK_ACTIONS}
    lines = list_file(cache / "w3", BULK).read_text(encoding="ascii").splitlines()
    assert len(lines) == BULK_ACTIONS * len(bulk)


def test_updates_are_new_acls(cache: Path) -> None:
    """None of them is among the workload's own: adding and removing them leaves it as it was."""
    own = {acl.content for acl in read_acls(cache / "w3" / "acls.jsonl")}
    updates = list(read_acls(updates_file(cache / "w3")))
    assert not own & {acl.content for acl in updates}
    assert len({acl.id for acl in updates}) == len(updates) == 2_000


def test_every_principal_asks_once(cache: Path) -> None:
    """Whoever has ACLs is among them, but for User:*, who is no one in particular; the order is seeded."""
    acls = list(read_acls(cache / "w3" / "acls.jsonl"))
    askers = [str(request.context.principal) for request in read_requests(cache / "w3", PRINCIPALS)]
    assert len(askers) == len(set(askers))
    assert set(askers) == {acl.principal for acl in acls} - {"User:*"}
    again = list_file(cache / "w3", PRINCIPALS).read_bytes()
    list_file(cache / "w3", PRINCIPALS).unlink()
    assert list_file(cache / "w3", PRINCIPALS).read_bytes() == again


def test_principals_ask_about_what_they_have(cache: Path) -> None:
    """So nearly every question finds an ACL of the asker's own; a few are denied by another one."""
    requests = read_requests(cache / "w3", PRINCIPALS)
    subject = Subject.open(log_directory(cache / "w3"), snapshot_directory(cache / "w3"))
    try:
        allowed = subject.decide(requests, allow_everyone=False).count("A")
    finally:
        subject.close()
    assert allowed > len(requests) / 2


def test_a_log_is_copied_to_be_written(cache: Path) -> None:
    """The workload's own log stays as it was, and the copy is still the one that its snapshot belongs to."""
    before = DirectoryLog.open(log_directory(cache / "w3"))
    with before, writable_log(cache / "w3") as copy, DirectoryLog.open(copy, mode="write") as log:
        log.append([next(read_acls(updates_file(cache / "w3")))])
        assert log.identity == before.identity
        assert log.high_watermark() == before.high_watermark() + 1
    assert not copy.exists()
