"""The composition root: how a log is opened, what is said of the node, what a failed start leaves."""

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
    """A node that is not started; settings by their key with underscores for dots, without ``aclog.``."""
    flags = {f"aclog.{name.replace('_', '.')}": str(value) for name, value in settings.items()}
    return Node.open(load_config(environ={}, flags={"aclog.log.url": str(url), **flags}))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """An empty log of aclog's own."""
    directory = tmp_path / "log"
    DirectoryLog.open(directory, mode="create").close()
    return directory


@pytest.mark.parametrize(
    ("mode", "writable"), [("auto", True), ("read", False), ("write", True), ("create", True)]
)
def test_an_own_log_is_written_unless_it_is_to_be_read(own: Path, mode: str, writable: bool) -> None:
    """``auto`` writes to what aclog made."""
    with opened(own, log_mode=mode) as node:
        assert node.status().writable is writable


def test_a_brokers_log_is_read_and_cannot_be_forced() -> None:
    """``auto`` reads what a broker made; ``write`` is an error, not a second writer."""
    with opened(real_log("kraft-small")) as node:
        status = node.status()
        assert (status.writable, status.uncommitted_from) == (False, 0)
    with pytest.raises(LogReadOnlyError):
        opened(real_log("kraft-small"), log_mode="write")


def test_a_log_that_is_not_there_is_only_made_when_asked_for(tmp_path: Path) -> None:
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


def test_a_start_that_fails_gives_the_log_back(own: Path) -> None:
    """The writer's lock is not left behind."""
    with pytest.raises(SnapshotError):
        opened(own, snapshot_store="nosuchscheme://x")
    opened(own).close()


def test_status_says_not_ready_before_the_load(own: Path) -> None:
    """A node that was opened and not started knows nothing, and says so."""
    with opened(own) as node:
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
    """It says which log it waits for and why, does not know which one it is, and decides nothing."""
    url = "kafka://127.0.0.1:1/acls"
    config = load_config(environ={}, flags={"aclog.log.url": url})
    reached = threading.Event()
    with Node.open(config, lazily=True) as node:

        def reach() -> None:
            node.reach()
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


def test_early_start_listeners_open_at_once(own: Path) -> None:
    """KIP-504: an endpoint's future says when it may accept; the configuration says which may early."""
    config = load_config(
        environ={},
        flags={
            "aclog.log.url": str(own),
            "aclog.listeners": "EARLY://127.0.0.1:1,PLAINTEXT://127.0.0.1:2",
            "listener.security.protocol.map": "EARLY:PLAINTEXT",
            "early.start.listeners": "EARLY",
        },
    )
    with Node.open(config) as node:
        futures = {endpoint.listener_name: future for endpoint, future in node.start().items()}
        assert futures["EARLY"].done()
        assert futures["PLAINTEXT"].result(SOON_S) is None


class StridingClock:
    """Every look at the wall clock finds ten seconds gone: no look at the log is ever recent."""

    def __init__(self) -> None:
        self._looks = itertools.count(1)

    def now_ms(self) -> int:
        return next(self._looks) * 10_000

    def monotonic_s(self) -> float:
        return time.monotonic()


@pytest.mark.parametrize(("max_lag_ms", "ready"), [(1000, False), (0, True), (10**12, True)])
def test_a_node_too_far_behind_reports_itself(own: Path, max_lag_ms: int, ready: bool) -> None:
    """``aclog.max.lag.ms``: a node that may be behind for longer says so; decisions go on. 0 is never."""
    config = load_config(environ={}, flags={"aclog.log.url": str(own), "aclog.max.lag.ms": str(max_lag_ms)})
    with Node.open(config, clock=StridingClock()) as node:
        node.start()
        assert node.wait_until_ready(SOON_S)
        status = node.status()
        assert status.lag_ms >= 10_000
        assert status.ready is ready
        if not ready:
            assert "aclog.max.lag.ms is 1000" in str(status.not_ready_reason)
        assert f"aclog_ready {float(ready)}".encode() in generate_latest(node.metrics)
        assert not may(node.authorizer, "t")


def test_decisions_are_counted(own: Path) -> None:
    """The page of a whole node: what it decided, what it holds, what waits."""
    with opened(own) as node:
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
