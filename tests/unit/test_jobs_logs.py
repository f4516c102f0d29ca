"""The logs of a job, and the checkpoints that it refuses (I9)."""

from __future__ import annotations

import pickle
import shutil
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from records.errors import LogError, LogNotFoundError
from records.ids import Uuid, uuid_to_string
from records.log.base import LogIdentity
from records.log.directory import DirectoryLog
from snapshot.errors import CheckpointForeignError
from snapshot.jobs.planning.log_states import LogStates, search_bases
from snapshot.jobs.sources.log_failures import LogFailures, answered
from snapshot.jobs.sources.logs import (
    BINDING_NAME,
    FollowedLog,
    TopicsPattern,
    bind_checkpoint,
    cluster_count,
    fleet_checkpoint,
    resolve_logs,
)
from snapshot.store.snapshot_store import SnapshotStore
from support.directory_logs import acls

OLD, RECREATED = Uuid(b"a" * 16), Uuid(b"b" * 16)


def directory_log(directory: Path, cluster_id: str) -> str:
    """The URL of a new log with one ACL."""
    with DirectoryLog.open(directory, mode="create", cluster_id=cluster_id) as log:
        log.append(acls(0, 1))
    return f"file:{directory}"


def topic_log(cluster_id: str, *, servers: str = "a:9092", topic_id: Uuid = OLD) -> FollowedLog:
    """A topic log as the job finds it; these tests do not contact the cluster."""
    return FollowedLog(
        url=f"kafka://{servers}/acls-{cluster_id}",
        identity=LogIdentity(cluster_id, topic_id),
        kafka={"sasl.password": "hunter2"},
        is_of_fleet=True,
    )


def sources(text: str) -> list[FollowedLog]:
    """``ab|x``: the topics a and b on one cluster, then x on another."""
    servers = ["host:9092", "other:9092"]
    return [topic_log(name, servers=servers[name == "x"]) for names in text.split("|") for name in names]


def test_a_log_is_identified_by_its_content(tmp_path: Path) -> None:
    """Not by its place: the identity is the log's own, and it opens as that."""
    first = directory_log(tmp_path / "one", "first")
    second = directory_log(tmp_path / "two", "second")
    logs = resolve_logs([second, first])
    assert [log.identity.cluster_id for log in logs] == ["second", "first"]
    with closing(logs[0].open()) as log:
        assert log.identity == logs[0].identity
    assert pickle.loads(pickle.dumps(logs)) == logs


def test_two_logs_of_one_cluster_are_refused(tmp_path: Path) -> None:
    """One job would mix them; the message names both."""
    one = directory_log(tmp_path / "one", "same")
    two = directory_log(tmp_path / "two", "same")
    with pytest.raises(LogError, match=r"one and .*two are both logs of cluster same"):
        resolve_logs([one, two])
    with pytest.raises(LogError, match="are both logs of cluster same"):
        resolve_logs([one, one])


def test_a_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError, match="no segments"):
        resolve_logs([f"file:{tmp_path}"])
    with pytest.raises(LogError, match="no log to follow"):
        resolve_logs([])


@pytest.mark.parametrize(
    ("regex", "why"),
    [
        ("(a)(b)", "has 2 groups, but only the cluster id may be one"),
        ("(a", r"invalid topics pattern: `\(a` has a `\(` that is not closed"),
        ("acls-(?!test)(.+)", "a lookahead"),
        ("acls-((?:[a-z]+-?)+)", "Java, which matches it here, may never be done"),
    ],
)
def test_an_invalid_pattern_is_refused(regex: str, why: str) -> None:
    """Before any cluster is asked."""
    with pytest.raises(LogError, match=why):
        TopicsPattern("localhost:9092", regex)


def test_a_pattern_needs_servers_with_ports() -> None:
    with pytest.raises(LogError, match="`localhost` is not HOST:PORT"):
        TopicsPattern("localhost", "(.*)").names()


def test_another_log_in_its_place_is_not_continued(tmp_path: Path) -> None:
    """Made again while the job ran: both ids are named."""
    (followed,) = resolve_logs([directory_log(tmp_path / "log", "before")])
    shutil.rmtree(tmp_path / "log")
    directory_log(tmp_path / "log", "after")
    states = LogStates(followed, SnapshotStore(str(tmp_path / "store")))
    with pytest.raises(CheckpointForeignError, match=r"of cluster before, and this is .* of cluster after"):
        answered(search_bases({states: None})[states])
    states.close()


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in repr(topic_log("x"))


def test_clusters_are_counted(tmp_path: Path) -> None:
    """Topics of the same bootstrap servers are on one; each directory is one."""
    (directory,) = resolve_logs([directory_log(tmp_path / "log", "d")])
    a, b, far = topic_log("a"), topic_log("b"), topic_log("far", servers="b:9092")
    assert cluster_count([a, directory, far, b]) == 3


def test_a_fresh_checkpoint_is_bound_and_taken_again(tmp_path: Path) -> None:
    """It names the logs, and no settings."""
    logs = [topic_log("a"), topic_log("b")]
    bind_checkpoint(f"file://{tmp_path}/checkpoint", logs)
    written = (tmp_path / "checkpoint" / BINDING_NAME).read_bytes()
    assert msgspec.json.decode(written) == {
        "version": 2,
        "logs": [
            {
                "clusterId": name,
                "topicId": uuid_to_string(OLD),
                "url": f"kafka://a:9092/acls-{name}",
                "kind": "kafka",
            }
            for name in ("a", "b")
        ],
    }
    bind_checkpoint(f"{tmp_path}/checkpoint", logs)
    assert (tmp_path / "checkpoint" / BINDING_NAME).read_bytes() == written


def test_a_topic_created_again_is_refused(tmp_path: Path) -> None:
    """With both ids and the way out; the checkpoint stays the old one's."""
    bind_checkpoint(str(tmp_path), [topic_log("a")])
    for _ in range(2):
        with pytest.raises(CheckpointForeignError) as refused:
            bind_checkpoint(str(tmp_path), [topic_log("a", topic_id=RECREATED)])
        text = str(refused.value)
        assert uuid_to_string(OLD) in text
        assert uuid_to_string(RECREATED) in text
        assert "another --checkpoint" in text


@pytest.mark.parametrize(("before", "now"), [("ab", "a"), ("a", "b"), ("a|x", "a")])
def test_other_logs_than_the_checkpoints_are_refused(tmp_path: Path, before: str, now: str) -> None:
    """A log less, or another one."""
    bind_checkpoint(str(tmp_path), sources(before))
    with pytest.raises(CheckpointForeignError, match=r"belongs to kafka://.*but the job follows kafka://"):
        bind_checkpoint(str(tmp_path), sources(now))
    bind_checkpoint(str(tmp_path), sources(before))


@pytest.mark.parametrize("now", ["ab", "ba", "abc", "a|x"])
def test_logs_may_join(tmp_path: Path, now: str) -> None:
    """In any order, on any cluster; from then on they belong to the checkpoint."""
    bind_checkpoint(str(tmp_path), sources("a"))
    assert bind_checkpoint(str(tmp_path), sources(now)) == str(tmp_path)
    with pytest.raises(CheckpointForeignError):
        bind_checkpoint(str(tmp_path), sources("a"))


def version_1(*logs: FollowedLog) -> bytes:
    """The binding of a checkpoint of the releases before this one."""
    bound = [
        {
            "clusterId": log.identity.cluster_id,
            "topicId": uuid_to_string(log.identity.topic_id),
            "url": log.url,
            "kind": "kafka",
        }
        for log in logs
    ]
    return msgspec.json.encode({"version": 1, "sources": [bound]})


def test_a_checkpoint_of_version_1_continues_in_a_new_directory(tmp_path: Path) -> None:
    """Spark's position in it has another form. Other logs are refused before."""
    one, two = topic_log("a"), topic_log("b")
    (tmp_path / BINDING_NAME).write_bytes(version_1(one, two))
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1\n", encoding="utf-8")
    with pytest.raises(CheckpointForeignError):
        bind_checkpoint(str(tmp_path), [one])
    for _ in range(2):
        assert bind_checkpoint(str(tmp_path), [two, one]) == f"{tmp_path}/fleet-1"
    assert (tmp_path / "fleet-1" / BINDING_NAME).exists()


def test_a_fleet_of_version_1_continues_in_a_new_directory(tmp_path: Path) -> None:
    one, failures = topic_log("a"), LogFailures(is_collecting=True)
    (tmp_path / "fleet-3").mkdir()
    (tmp_path / "fleet-3" / BINDING_NAME).write_bytes(version_1(one))
    for _ in range(2):
        found = fleet_checkpoint(str(tmp_path), [one], failures, is_new=False)
        assert found == (f"{tmp_path}/fleet-4", [one])
    assert [each.name for each in tmp_path.iterdir()] == ["fleet-4"]
    replaced = topic_log("a", topic_id=RECREATED)
    assert fleet_checkpoint(str(tmp_path), [replaced], failures, is_new=False)[1] == []


def test_a_cluster_may_move(tmp_path: Path) -> None:
    """The same topic at another address is the same log."""
    bind_checkpoint(str(tmp_path), [topic_log("a")])
    bind_checkpoint(str(tmp_path), [topic_log("a", servers="elsewhere:9092")])
    assert b"elsewhere" in (tmp_path / BINDING_NAME).read_bytes()


def test_a_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    """Spark's own files without ours: what it holds is not known."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1\n", encoding="utf-8")
    with pytest.raises(CheckpointForeignError, match="not aclog's"):
        bind_checkpoint(str(tmp_path), [topic_log("a")])
    assert not (tmp_path / BINDING_NAME).exists()


def test_a_damaged_binding_is_refused(tmp_path: Path) -> None:
    (tmp_path / BINDING_NAME).write_bytes(b"{")
    with pytest.raises(CheckpointForeignError, match="is damaged"):
        bind_checkpoint(str(tmp_path), [topic_log("a")])


def test_fleet_has_another_checkpoint_for_another_set_of_logs(tmp_path: Path) -> None:
    """The same set continues the same one, also in another order."""
    checkpoint, failures = f"{tmp_path}/checkpoint", LogFailures(is_collecting=True)
    one, two = resolve_logs([directory_log(tmp_path / name, name) for name in ("one", "two")])
    assert fleet_checkpoint(checkpoint, [one], failures, is_new=False) == (checkpoint, [one])
    bind_checkpoint(checkpoint, [one])
    for logs in ([one, two], [two, one]):
        found = fleet_checkpoint(checkpoint, logs, failures, is_new=False)
        assert found == (f"{checkpoint}/fleet-1", logs)
        bind_checkpoint(*found)
    assert fleet_checkpoint(checkpoint, [two], failures, is_new=False) == (f"{checkpoint}/fleet-2", [two])
    assert fleet_checkpoint(checkpoint, [two], failures, is_new=True) == (f"{checkpoint}/fleet-3", [two])
    assert failures.by_cluster == {}


def test_fleet_refuses_a_log_that_was_replaced_while_it_was_away(tmp_path: Path) -> None:
    """The others continue."""
    checkpoint, failures = f"{tmp_path}/checkpoint", LogFailures(is_collecting=True)
    one, two = resolve_logs([directory_log(tmp_path / name, name) for name in ("one", "two")])
    bind_checkpoint(checkpoint, [one, two])
    fleet_checkpoint(checkpoint, [one], failures, is_new=False)
    shutil.rmtree(tmp_path / "two")
    (new,) = resolve_logs([directory_log(tmp_path / "two", "two")])
    assert fleet_checkpoint(checkpoint, [one, new], failures, is_new=False)[1] == [one]
    assert "(deleted and created again?)" in failures.by_cluster["two"]


def test_older_checkpoints_of_a_fleet_are_removed(tmp_path: Path) -> None:
    """The newest has all that is known; a job with a fixed set of logs continues there, too."""
    checkpoint, failures = f"{tmp_path}/checkpoint", LogFailures(is_collecting=True)
    one, two, three = resolve_logs([directory_log(tmp_path / name, name) for name in ("one", "two", "three")])
    bind_checkpoint(checkpoint, [one, two, three])
    for number, logs in enumerate(([one, two], [one, three], [one]), 1):
        url, _ = fleet_checkpoint(checkpoint, logs, failures, is_new=False)
        (Path(url) / "offsets").mkdir()
        assert [each.name for each in Path(checkpoint).glob("fleet-*")] == [f"fleet-{number}"]
    shutil.rmtree(tmp_path / "two")
    (new,) = resolve_logs([directory_log(tmp_path / "two", "two")])
    fleet_checkpoint(checkpoint, [one, new], failures, is_new=False)
    assert failures.by_cluster.keys() == {"two"}
    with pytest.raises(CheckpointForeignError, match="fleet-3 belongs to"):
        bind_checkpoint(checkpoint, [three])
    # The number decides, not the order of the names, if an older directory could not be removed.
    for number in (9, 10):
        (Path(checkpoint) / f"fleet-{number}").mkdir()
    assert bind_checkpoint(checkpoint, [one]) == f"{checkpoint}/fleet-10"
