"""The composition root: opening a log, the node's status, and the cleanup of a failed start."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from authorizer.api.errors import ConfigError
from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from records.errors import LogNotFoundError, LogReadOnlyError
from records.log.directory import DirectoryLog
from snapshot.errors import SnapshotError
from support.data import real_log
from support.node_acls import CONTEXT, may, topic_acl
from support.nodes import SOON_S
from support.waiting import wait_until


def opened(url: object, **settings: object) -> Node:
    """A node that is not started; settings are keys without ``aclog.``, with underscores for dots."""
    flags = {f"aclog.{name.replace('_', '.')}": str(value) for name, value in settings.items()}
    return Node.open(load_config(environ={}, flags={"aclog.log.url": str(url), **flags}))


@pytest.fixture
def managed_log(tmp_path: Path) -> Path:
    """An empty aclog-managed log."""
    directory = tmp_path / "log"
    DirectoryLog.open(directory, mode="create").close()
    return directory


@pytest.mark.parametrize(
    ("mode", "writable"), [("auto", True), ("read", False), ("write", True), ("create", True)]
)
def test_a_managed_log_is_writable_unless_the_mode_is_read(
    managed_log: Path, mode: str, writable: bool
) -> None:
    """``auto`` writes to an aclog-managed log."""
    with opened(managed_log, log_mode=mode) as node:
        assert node.status().writable is writable


def test_a_brokers_log_is_read_only() -> None:
    """``auto`` reads a broker's log; ``write`` is an error, because the broker is the writer."""
    with opened(real_log("kraft-small")) as node:
        status = node.status()
        assert (status.writable, status.uncommitted_from) == (False, 0)
    with pytest.raises(LogReadOnlyError):
        opened(real_log("kraft-small"), log_mode="write")


def test_a_missing_log_is_created_only_in_create_mode(tmp_path: Path) -> None:
    """A mistyped path does not become an empty log that denies everything."""
    for mode in ("auto", "read", "write"):
        with pytest.raises(LogNotFoundError):
            opened(tmp_path / "log", log_mode=mode)
    assert list(tmp_path.iterdir()) == []
    with opened(tmp_path / "log", log_mode="create") as node:
        assert node.status().writable


def test_a_log_must_be_named() -> None:
    """ConfigError with the key to set."""
    with pytest.raises(ConfigError, match=r"aclog\.log\.url"):
        Node.open(load_config(environ={}))


def test_a_failed_start_releases_the_log(managed_log: Path) -> None:
    """The writer's lock is released."""
    with pytest.raises(SnapshotError):
        opened(managed_log, snapshot_store="nosuchscheme://x")
    opened(managed_log).close()


def test_status_says_not_ready_before_the_load(managed_log: Path) -> None:
    """A node that was opened and not started reports that it has no state."""
    with opened(managed_log) as node:
        before = node.status()
        assert (before.ready, before.end_offset, before.high_watermark) == (False, 0, None)
        assert before.not_ready_reason
        node.start()
        assert node.wait_until_ready(SOON_S)
        after = node.status()
        assert (after.ready, after.not_ready_reason, after.lag_records) == (True, None, 0)
        assert after.identity == node.log.identity
        assert after.digest == "0" * 32


@pytest.mark.slow
def test_a_node_opened_lazily_runs_while_its_cluster_is_down() -> None:
    """It reports the log that it waits for and the reason, has no identity, and decides nothing."""
    url = "kafka://127.0.0.1:1/acls"
    config = load_config(environ={}, flags={"aclog.log.url": url})
    reached = threading.Event()
    with Node.open(config, lazily=True) as node:

        def reach() -> None:
            node.connect()
            reached.set()

        waiting = threading.Thread(target=reach, daemon=True)
        waiting.start()
        node.start()
        wait_until(lambda: url in (node.status().not_ready_reason or ""))
        status = node.status()
        assert (status.ready, status.identity, status.log_url) == (False, None, url)
        assert not node.authorizer.state.is_ready
        assert not reached.is_set()
    waiting.join(SOON_S)
    assert not waiting.is_alive()


def test_early_start_listeners_open_immediately(managed_log: Path) -> None:
    """KIP-504: an endpoint may accept when its future is done; the configuration names the early ones."""
    config = load_config(
        environ={},
        flags={
            "aclog.log.url": str(managed_log),
            "aclog.listeners": "EARLY://127.0.0.1:1,PLAINTEXT://127.0.0.1:2",
            "listener.security.protocol.map": "EARLY:PLAINTEXT",
            "early.start.listeners": "EARLY",
        },
    )
    with Node.open(config) as node:
        futures = {endpoint.listener_name: future for endpoint, future in node.start().items()}
        assert futures["EARLY"].done()
        assert futures["PLAINTEXT"].result(SOON_S) is None


class LeapingClock:
    """A wall clock that advances ten seconds at each read, so that no poll of the log is recent."""

    def __init__(self) -> None:
        self._looks = itertools.count(1)

    def now_ms(self) -> int:
        return next(self._looks) * 10_000

    def monotonic_s(self) -> float:
        return time.monotonic()


@pytest.mark.parametrize(("max_lag_ms", "ready"), [(1000, False), (0, True), (10**12, True)])
def test_a_node_too_far_behind_reports_itself(managed_log: Path, max_lag_ms: int, ready: bool) -> None:
    """With ``aclog.max.lag.ms`` a node reports a longer lag; decisions continue. 0 disables it."""
    config = load_config(
        environ={}, flags={"aclog.log.url": str(managed_log), "aclog.max.lag.ms": str(max_lag_ms)}
    )
    with Node.open(config, clock=LeapingClock()) as node:
        node.start()
        assert node.wait_until_ready(SOON_S)
        status = node.status()
        assert status.lag_ms >= 10_000
        assert status.ready is ready
        if not ready:
            assert "aclog.max.lag.ms is 1000" in str(status.not_ready_reason)
        assert f"aclog_ready {float(ready)}".encode() in generate_latest(node.metrics)
        assert not may(node.authorizer, "t")


def test_decisions_are_counted(managed_log: Path) -> None:
    """The metrics of a complete node: decisions, ACLs and pending operations."""
    with opened(managed_log) as node:
        node.start()
        assert node.wait_until_ready(SOON_S)
        (created,) = node.authorizer.create_acls(CONTEXT, [topic_acl("t")])
        assert created.result(SOON_S).exception is None
        assert [may(node.authorizer, name) for name in ("t", "u", "v")] == [True, False, False]
        page = generate_latest(node.metrics).decode()
    for line in (
        'aclog_authorizations_total{result="allowed",rule="MatchingAcl"} 1.0',
        'aclog_authorizations_total{result="denied",rule="DefaultDeny"} 2.0',
        "aclog_acls_total 1.0",
        "aclog_ready 1.0",
        'kafka_server_delayedoperationpurgatory_numdelayedoperations{delayedOperation="acl-update"} 0.0',
    ):
        assert line in page.splitlines()
