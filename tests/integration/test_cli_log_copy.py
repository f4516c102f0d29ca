"""`aclog log copy` between logs of every kind: the same set arrives, also where it was stopped on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from authorizer.cli.main import cli
from records.acl import AclPermissionType
from records.entries import AccessControlEntryRecord, AclContent, RemoveAccessControlEntryRecord
from records.ids import Uuid, content_uuid
from records.log.base import MetadataLog
from records.log.directory import DirectoryLog
from records.log.open import open_log
from replay.load_image import load_image
from replay.snapshot_source import CheckpointFiles
from support.aclog_command import checked_aclog as aclog
from support.data import real_log
from support.kafka_broker import Broker, jar_broker, wait_until_ready
from support.kafka_quorum import CONTROLLERS, KafkaQuorum
from support.nodes import SOON_S
from support.topic_logs import new_topic
from support.waiting import wait_until

#: Ends itself with SIGKILL before the nth batch or request of two ACLs.
KILLED = """
import os, signal, sys
from authorizer.cli.log import acl_copy
from authorizer.node.writing import cluster_requests
from records.log.directory.log import DirectoryLog
from records.log.quorum.writer import QuorumWriter
from records.log.topic.writer import TopicWriter
acl_copy.BATCH = cluster_requests._ACLS_PER_REQUEST = 2
left = [int(sys.argv[1])]
def killing(write):
    def counted(*args, **keywords):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return write(*args, **keywords)
    return counted
DirectoryLog.append = killing(DirectoryLog.append)
TopicWriter._commit = killing(TopicWriter._commit)
QuorumWriter.create = killing(QuorumWriter.create)
QuorumWriter.delete = killing(QuorumWriter.delete)
from authorizer.cli.main import main
main(sys.argv[2:])
"""

#: Waits before the third request of two ACLs until a file is there.
HELD = """
import sys, time
from pathlib import Path
from authorizer.node.writing import cluster_requests
from records.log.quorum.writer import QuorumWriter
cluster_requests._ACLS_PER_REQUEST = 2
reached, go, asked, create = Path(sys.argv[1]), Path(sys.argv[2]), [], QuorumWriter.create
def held(*args):
    asked.append(args)
    if len(asked) == 3:
        reached.touch()
        while not go.exists():
            time.sleep(0.01)  # polls in a program that has no tests' helpers
    return create(*args)
QuorumWriter.create = held
from authorizer.cli.main import main
main(sys.argv[3:])
"""


def copied(source: object, target: object, *flags: object) -> dict[str, Any]:
    """What a copy reports."""
    report: dict[str, Any] = json.loads(aclog("log", "copy", source, target, *flags, "--json").stdout)
    return report


def acl(
    name: str, principal: str = "User:a", acl_id: Uuid | None = None, *, deny: bool = False
) -> AccessControlEntryRecord:
    effect = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    content = (2, name, 3, principal, "*", 3, int(effect))
    return AccessControlEntryRecord(acl_id or content_uuid(content), *content)


def new_log(path: Path, *acls: AccessControlEntryRecord) -> Path:
    with DirectoryLog.open(path, mode="create") as log:
        log.append(acls)
    return path


def acls_of(url: object) -> set[AccessControlEntryRecord]:
    with closing(open_log(str(url))) as log:
        return {each.record for each in load_image(log, [CheckpointFiles(log)]).image}


def contents(acls: set[AccessControlEntryRecord]) -> list[AclContent]:
    return sorted(acl.content for acl in acls)


def killed(nth: int, *args: object) -> None:
    command = [sys.executable, "-c", KILLED, str(nth), "log", "copy", *map(str, args)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_flags_keep_or_remove_the_targets_acls(tmp_path: Path) -> None:
    """A target with other ACLs is refused unless a flag decides about them; ids do not change."""
    source = new_log(tmp_path / "source", acl("a"), acl("b"), acl("b", acl_id=Uuid(b"2" * 16)))
    target = new_log(tmp_path / "target", acl("mine"), acl("a", acl_id=Uuid(b"1" * 16)))
    before = acls_of(target)
    refused = aclog("log", "copy", source, target, code=1)
    assert "has 1 ACLs that" in refused.stderr
    assert "--others keep" in refused.stderr
    report = copied(source, target, "--others", "remove", "--dry-run")
    assert (report["added"], report["removed"], report["there"], report["endOffset"]) == (2, 1, 1, None)
    assert [each["resourceName"] for each in report["remove"]] == ["mine"]
    assert acls_of(target) == before
    remaining = {acl("mine"), acl("a", acl_id=Uuid(b"1" * 16)), acl("b"), acl("b", acl_id=Uuid(b"2" * 16))}
    assert copied(source, target, "--others", "keep")["kept"] == 1
    assert acls_of(target) == remaining
    shown = aclog("log", "copy", source, target, "--others", "keep").stdout
    assert shown == "nothing to do: 0 ACLs added, 0 removed, 3 already there, 1 only in the target kept\n"
    assert copied(source, target, "--others", "remove")["removed"] == 1
    assert acls_of(target) == remaining - {acl("mine")}


def test_the_id_of_another_acl_is_not_reused(tmp_path: Path) -> None:
    """The id of an ACL that stays: the copy gets a new one, once."""
    taken = content_uuid((2, "a", 3, "User:a", "*", 3, 3))
    source = new_log(tmp_path / "source", acl("a", acl_id=taken))
    target = new_log(tmp_path / "target", acl("mine", acl_id=taken))
    for turn in range(2):
        report = copied(source, target, "--others", "keep")
        assert (report["added"], report["newIds"]) == ((1, 1), (0, 0))[turn]
    assert contents(acls_of(target)) == contents({acl("a"), acl("mine")})


def test_invalid_sources_and_targets_are_refused(tmp_path: Path) -> None:
    """A broker's directory is only read; a new directory is created only if --create is given."""
    brokers = real_log("kraft-small")
    new = tmp_path / "new"
    assert "aclog log create" in aclog("log", "copy", brokers, new, code=2).stderr
    assert aclog("log", "copy", brokers, new, "--dry-run", "--create").stdout.startswith("planned: 59 ACLs")
    assert not new.exists()
    assert copied(brokers, new, "--create", "--cluster-id", "c" * 22)["added"] == 59
    assert acls_of(new) == acls_of(brokers)
    for flags in ((), ("--dry-run",)):
        assert (
            "ACLs are changed by `aclog acls --log kraft://HOST:PORT`"
            in aclog("log", "copy", new, brokers, *flags, code=2).stderr
        )
    (checkpoint,) = list(real_log("kraft-trimmed").glob("*.checkpoint"))[-1:]
    fresh = tmp_path / "fresh"
    assert copied(checkpoint, fresh, "--create")["added"] == len(acls_of(fresh))
    aclog("log", "copy", new, "describe://127.0.0.1:1", code=2)
    aclog("log", "copy", new, "kraft://127.0.0.1:1", code=3)
    aclog("log", "copy", new, "kafka://127.0.0.1:1/t", "--create", code=2)


def test_an_interrupted_copy_to_a_directory_continues(tmp_path: Path) -> None:
    """Run again, it holds what one run would have written, with the same ids."""
    source = new_log(tmp_path / "source", *(acl(f"t{number}", deny=number % 2 == 0) for number in range(7)))
    target = new_log(tmp_path / "target", *(acl(f"o{number}") for number in range(3)))
    left = []
    for nth in (0, 1, 1, 1):
        killed(nth, source, target, "--others", "remove")
        held, wanted = acls_of(target), acls_of(source)
        denies = sum(each.permission_type == AclPermissionType.DENY for each in held)
        left.append((len(wanted - held), len(held - wanted), denies))
    # DENYs come first, and nothing of the others goes before all is there.
    assert left == [(7, 3, 0), (5, 3, 2), (3, 3, 4), (1, 3, 4)]
    copied(source, target, "--others", "remove")
    assert acls_of(target) == acls_of(source)


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.xdist_group("broker")
def test_a_copy_through_every_kind_of_log_is_equal(broker: Broker, tmp_path: Path) -> None:
    """Directory, topic, cluster, directory, each stopped in the middle: the same set, ids where promised."""
    source = new_log(
        tmp_path / "source",
        *(acl(f"copy-{number}", f"User:{number % 3}", deny=number % 4 == 0) for number in range(9)),
        *(acl("copy-twice", acl_id=Uuid(bytes([number]) * 16)) for number in (1, 2)),
    )
    topic = new_topic(broker)
    killed(2, source, topic)
    assert copied(source, topic)["idsKept"]
    assert acls_of(topic) == acls_of(source)
    with jar_broker({}) as cluster:
        quorum, described = f"kraft://{cluster.controllers}", f"describe://{cluster.bootstrap_servers}"
        killed(2, topic, quorum)
        assert 0 < len(acls_of(quorum)) < len(acls_of(source))
        report = copied(topic, quorum)
        assert (report["idsKept"], report["added"] + report["there"]) == (False, 11)
        assert contents(acls_of(quorum)) == sorted(set(contents(acls_of(source))))
        assert "nothing to do" in aclog("log", "copy", topic, quorum).stdout
        back = tmp_path / "back"
        copied(quorum, back, "--create")
        assert acls_of(back) == acls_of(quorum)
        with closing(open_log(str(source), mode="write")) as log:
            _remove(log, sorted(acls_of(source), key=lambda each: each.content)[:3])
        killed(1, source, quorum, "--others", "remove")
        assert copied(source, quorum, "--others", "remove")["removed"] in (1, 2)
        assert contents(acls_of(quorum)) == sorted(set(contents(acls_of(source))))
        assert copied(described, back, "--others", "remove")["removed"] == 3
        assert meaning(back) == meaning(source)
        refused = new_log(tmp_path / "refused", acl("no-colon", "nobody"))
        error = aclog("log", "copy", refused, quorum, "--others", "keep", code=4).stderr
        assert "no colon is present" in error


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.xdist_group("broker")
def test_a_copy_reports_a_cluster_that_loses_its_majority(quorum: KafkaQuorum, tmp_path: Path) -> None:
    """The copy ends and says how to go on; run again, it writes what is missing."""
    source = new_log(tmp_path / "source", *(acl(f"majority-{number}") for number in range(9)))
    url, reached, go = f"kraft://{quorum.controllers}", tmp_path / "reached", tmp_path / "go"
    arguments = ["log", "copy", source, url, "--others", "keep"]
    command = [sys.executable, "-c", HELD, reached, go, *arguments]
    with subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True) as copying:
        try:
            wait_until(lambda: reached.exists() or copying.poll() is not None, "the copy to be in its middle")
            away = CONTROLLERS[:2]
            for number in away:
                quorum.kill(number)
        finally:
            go.touch()
        _, stderr = copying.communicate(timeout=120)
    assert copying.returncode == 3, stderr
    assert "run it again" in stderr
    quorum.start(*away)
    wait_until_ready(quorum.bootstrap_servers, quorum.why_ended)
    reports: list[dict[str, Any]] = []

    def is_copied() -> bool:
        again = CliRunner().invoke(cli, [*map(str, arguments), "--json"])
        if again.exit_code == 0:
            reports.append(json.loads(again.stdout))
        return again.exit_code == 0

    wait_until(is_copied, "the cluster to have a leader again, and the copy to end", timeout_s=2 * SOON_S)
    assert reports[0]["there"] >= 4
    assert {*contents(acls_of(source))} <= {*contents(acls_of(url))}


def _remove(log: MetadataLog, acls: Sequence[AccessControlEntryRecord]) -> None:
    log.append([RemoveAccessControlEntryRecord(each.id) for each in acls])


def meaning(directory: Path) -> str:
    """Digest of what its ACLs mean."""
    lines = aclog("log", "verify", "--log", directory).stdout.splitlines()
    return next(line for line in lines if line.startswith("meaning"))
