"""Nodes on real directory logs that write, follow, restart and are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from authorizer.api.errors import NotControllerError
from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from records.acl import AclBinding, AclOperation, AclPermissionType
from records.errors import LogLockedError
from replay.manifest import LoaderManifest
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage
from support.data import real_log, real_log_home
from support.node_acls import ANY_ACL, CONTEXT, may, named, names, topic_acl
from support.nodes import SOON_S
from support.waiting import wait_until

TESTS = Path(__file__).resolve().parents[1]


@contextmanager
def running(
    directory: Path, *, mode: str = "create", ready: bool = True, **settings: object
) -> Iterator[Node]:
    """A started node; settings by their key with underscores for dots, without ``aclog.``."""
    flags = {f"aclog.{name.replace('_', '.')}": str(value) for name, value in settings.items()}
    config = load_config(
        environ={}, flags={"aclog.log.url": f"file:{directory}", "aclog.log.mode": mode, **flags}
    )
    with Node.open(config) as node:
        node.start()
        if ready:
            assert node.wait_until_ready(SOON_S)
        yield node


def create(node: Node, *bindings: AclBinding) -> None:
    for future in node.authorizer.create_acls(CONTEXT, bindings):
        assert future.result(SOON_S).exception is None


def delete(node: Node, name: str) -> int:
    (future,) = node.authorizer.delete_acls(CONTEXT, [named(name)])
    result = future.result(SOON_S)
    assert result.exception is None
    return len(result.acl_binding_delete_results)


def caught_up(reader: Node, writer: Node) -> None:
    """Wait until the reader stands where the writer does, and compare what they hold."""
    assert reader.wait_for(writer.status().end_offset, SOON_S)
    ours, theirs = reader.status(), writer.status()
    assert (ours.end_offset, ours.acl_count, ours.digest) == (
        theirs.end_offset,
        theirs.acl_count,
        theirs.digest,
    )


def test_an_acknowledged_write_changes_decisions(tmp_path: Path) -> None:
    """When the future is done, the next decision of this node follows from it, each time."""
    with running(tmp_path / "log") as node:
        assert not may(node.authorizer, "t")
        for _ in range(30):
            create(node, topic_acl("t"))
            assert may(node.authorizer, "t")
            create(node, topic_acl("t", permission=AclPermissionType.DENY))
            assert not may(node.authorizer, "t")
            assert delete(node, "t") == 2
            assert not may(node.authorizer, "t")


class SlowFollower:
    """A publisher that takes its time over each update: what comes after it in the loader comes late."""

    name = "slow"

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        time.sleep(0.1)  # slow on purpose

    def on_ready(self) -> None:
        pass

    def on_not_ready(self, reason: str) -> None:
        pass

    def close(self) -> None:
        pass


def test_every_interface_of_the_node_shows_an_acknowledged_write(tmp_path: Path) -> None:
    """Status, decision, listing, metrics and the offset to wait for: none of them is behind the future."""
    with running(tmp_path / "log") as node:
        node.loader.add_publisher(SlowFollower())
        for number in range(1, 4):
            create(node, topic_acl(f"t{number}"))
            status = node.status()
            end_offset = node.log.high_watermark()
            assert (status.end_offset, status.acl_count, status.lag_records) == (end_offset, number, 0)
            assert node.wait_for(end_offset, 0)
            assert f"t{number}" in names(node.authorizer.acls(ANY_ACL))
            assert may(node.authorizer, f"t{number}")
            assert node.authorizer.state.index.image.provenance.end_offset == status.end_offset
            assert node.metrics.get_sample_value("aclog_acls_total") == number


def test_a_reader_follows_a_writer(tmp_path: Path) -> None:
    """A second node on the same directory sees the same states, and refuses to write, with the way out."""
    with running(tmp_path / "log") as writer, running(tmp_path / "log", mode="read") as reader:
        create(writer, topic_acl("t"), topic_acl("u"))
        assert delete(writer, "u") == 1
        caught_up(reader, writer)
        assert may(reader.authorizer, "t")
        assert not may(reader.authorizer, "u")
        assert (writer.status().writable, reader.status().writable) == (True, False)
        (future,) = reader.authorizer.create_acls(CONTEXT, [topic_acl("v")])
        error = future.result(SOON_S).exception
        assert isinstance(error, NotControllerError)
        assert str(error).startswith("The current node is not the active controller. ")
        assert "aclog.log.mode=write" in str(error)


def test_a_second_writer_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    """The lock goes with close, also when the node could not be opened in the end."""
    with running(tmp_path / "log"), pytest.raises(LogLockedError, match="one writer"):
        Node.open(load_config(environ={}, flags={"aclog.log.url": str(tmp_path / "log")}))
    with running(tmp_path / "log", mode="auto") as node:
        create(node, topic_acl("t"))


def test_a_closed_node_leaves_no_thread(tmp_path: Path) -> None:
    """Loader, writer, purgatory and snapshots end with close; a second close does nothing."""
    before = set(threading.enumerate())
    with running(tmp_path / "log", snapshot_store=tmp_path / "snapshots") as node:
        create(node, topic_acl("t"))
        assert set(threading.enumerate()) > before
    node.close()
    assert set(threading.enumerate()) <= before
    (future,) = node.authorizer.create_acls(CONTEXT, [topic_acl("u")])
    assert "Nothing was written" in str(future.result(SOON_S).exception)


@pytest.mark.slow
def test_random_writes_of_several_threads_equal_the_model(tmp_path: Path) -> None:
    """Thousands of changes: the writer, a reader and a node that starts afterwards all hold the model."""
    threads, operations = 4, 600
    models: list[set[AclBinding]] = [set() for _ in range(threads)]
    failures: list[BaseException] = []

    with running(tmp_path / "log") as writer, running(tmp_path / "log", mode="read") as reader:

        def work(number: int) -> None:
            rng, model = random.Random(number), models[number]
            try:
                for _ in range(operations):
                    name = f"{number}-{rng.randrange(12)}"
                    if rng.random() < 0.6:
                        operation = rng.choice([AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER])
                        wanted = [topic_acl(name, operation=operation), topic_acl(f"{name}-beside")]
                        create(writer, *wanted)
                        model.update(wanted)
                    else:
                        removed = {binding for binding in model if binding.pattern.name == name}
                        assert delete(writer, name) == len(removed)
                        model -= removed
                    assert may(writer.authorizer, name, AclOperation.DESCRIBE) == (
                        any(binding.pattern.name == name for binding in model)
                    )
            except BaseException as error:  # noqa: BLE001 - told by the main thread
                failures.append(error)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert failures == []
        expected = set().union(*models)
        caught_up(reader, writer)
        for node in (writer, reader):
            listed = list(node.authorizer.acls(ANY_ACL))
            assert (set(listed), len(listed)) == (expected, node.authorizer.acl_count())
        digest = writer.status().digest
    with running(tmp_path / "log", mode="auto") as again:
        assert again.status().digest == digest
        assert set(again.authorizer.acls(ANY_ACL)) == expected


def killed_writer(directory: Path, seed: int, acknowledged: int) -> list[str]:
    """Run a writing node until it has acknowledged so much, kill -9 it; what it said."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    process = subprocess.Popen(
        [sys.executable, str(TESTS / "support" / "node_writer.py"), str(directory), "3", str(seed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    lines: list[str] = []
    with process.stdout:
        for line in process.stdout:
            if line[:1] in "?+-":
                lines.append(line)
            if sum(line[0] in "+-" for line in lines) >= acknowledged:
                process.send_signal(signal.SIGKILL)
                break
        # Includes the lines between the decision and the kill.
        lines += [line for line in process.stdout if line[:1] in "?+-"]
    assert process.wait(SOON_S) == -signal.SIGKILL
    return [line for line in lines if line.endswith("\n")]


@pytest.mark.slow
def test_acknowledged_writes_survive_kill_9(tmp_path: Path) -> None:
    """Killed three times while it writes: created ACLs are there, removed ones are gone, nothing else."""
    directory = tmp_path / "log"
    there: set[str] = set()
    for seed, acknowledged in ((1, 20), (2, 60), (3, 150)):
        open_outcomes: set[str] = set()
        for kind, name in map(str.split, killed_writer(directory, seed, acknowledged)):
            if kind == "?":
                open_outcomes.add(name)
                continue
            open_outcomes.discard(name)
            (there.add if kind == "+" else there.discard)(name)
        with running(directory, mode="auto") as node:
            found = names(node.authorizer.acls(ANY_ACL))
            assert there - open_outcomes <= found
            assert found <= there | open_outcomes
            assert len(open_outcomes) <= 3
            for name in there - open_outcomes:
                assert may(node.authorizer, name)
            there = found


def test_a_brokers_log_is_followed_and_not_written(tmp_path: Path) -> None:
    """The real log of a broker: its ACLs are there, and a change is sent to the cluster."""
    with running(real_log("kraft-small"), mode="auto") as node:
        status = node.status()
        assert (status.writable, status.uncommitted_from) == (False, 264)
        lines = (real_log_home("kraft-small") / "acls.jsonl").read_text(encoding="utf-8").splitlines()
        assert status.acl_count == len(lines) == node.authorizer.acl_count()
        (future,) = node.authorizer.delete_acls(CONTEXT, [ANY_ACL])
        error = future.result(SOON_S).exception
        assert isinstance(error, NotControllerError)
        assert "kafka-acls" in str(error)


def test_snapshots_are_written_and_loaded(tmp_path: Path) -> None:
    """A node with a store writes snapshots as it goes; the next start reads one and replays the rest."""
    log, store = tmp_path / "log", tmp_path / "snapshots"
    with running(log, snapshot_store=store, snapshot_max_bytes=1) as node:
        for number in range(20):
            create(node, topic_acl(f"t{number}"))
        wait_until(lambda: b"aclog_snapshots_written_total 0.0" not in exposition(node))
        digest = node.status().digest
    with running(log, mode="auto", snapshot_store=store) as node:
        assert node.loader.metrics.snapshots_loaded == 1
        assert (node.status().digest, node.status().acl_count) == (digest, 20)


def exposition(node: Node) -> bytes:
    from prometheus_client import generate_latest  # noqa: PLC0415 - one test's

    return generate_latest(node.metrics)
