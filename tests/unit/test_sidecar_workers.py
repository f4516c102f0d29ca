"""Metrics of several workers: their sums, and the counts from which a new worker continues."""

from __future__ import annotations

import io
import logging
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from authorizer.api.authorizer_api import Endpoint, SecurityProtocol
from authorizer.api.errors import ConfigError, OperationTimedOutError
from authorizer.configuration.log_setup import SharedHandler
from authorizer.listeners.binding import bind_listener, reserve_listener, share_listener
from authorizer.sidecar.workers.forwarded_writes import ForwardedWrites
from authorizer.sidecar.workers.metric_families import (
    Family,
    MergedFamilies,
    MetricArchive,
    collect_families,
    family_by_worker,
    merge_families,
    read_archive,
    sum_families,
)
from authorizer.sidecar.workers.socket_directory import SocketDirectory
from support.node_acls import topic_acl

KEY = "listeners"


def registry(count: int, level: float, took_s: float) -> CollectorRegistry:
    """A counter, a gauge and a histogram."""
    made = CollectorRegistry()
    counter = Counter("asked", "Requests.", ["result"], registry=made)
    counter.labels("allowed").inc(count)
    Gauge("level", "Now.", registry=made).set(level)
    Histogram("took_s", "Times.", buckets=(0.1, 1), registry=made).observe(took_s)
    return made


def text(*metric_families: Family) -> list[str]:
    """As Prometheus reads it, without what counters and histograms say of their making."""
    lines = generate_latest(MergedFamilies(metric_families)).decode().splitlines()
    return [line for line in lines if not line.startswith("#") and "_created" not in line]


def test_counters_and_histograms_are_added_up_and_gauges_say_whose_they_are() -> None:
    reports = {
        0: collect_families(registry(3, 1.5, 0.05)),
        1: collect_families(registry(4, float("inf"), 0.5)),
    }
    assert text(*merge_families(reports)) == [
        'asked_total{result="allowed"} 7.0',
        'took_s_bucket{le="0.1"} 1.0',
        'took_s_bucket{le="1.0"} 2.0',
        'took_s_bucket{le="+Inf"} 2.0',
        "took_s_count 2.0",
        "took_s_sum 0.55",
        'level{worker="0"} 1.5',
        'level{worker="1"} +Inf',
    ]


def test_labels_that_one_worker_alone_has_are_there() -> None:
    one = Family("f", "", "counter", [("f_total", {"a": "1"}, 1.0), ("f_total", {"a": "2"}, 2.0)])
    other = Family("f", "", "counter", [("f_total", {"a": "2"}, 5.0), ("f_total", {"a": "3"}, 3.0)])
    assert sum_families([one, other])[0].samples == [
        ("f_total", {"a": "1"}, 1.0),
        ("f_total", {"a": "2"}, 7.0),
        ("f_total", {"a": "3"}, 3.0),
    ]


def test_a_value_for_each_worker() -> None:
    assert text(family_by_worker("restarts", "", "counter", [0, 2])) == [
        'restarts_total{worker="0"} 0.0',
        'restarts_total{worker="1"} 2.0',
    ]


def test_a_successor_begins_with_what_was_shown(tmp_path: Path) -> None:
    """Not with what was counted since, which is lost with the process; gauges are its own."""
    path = tmp_path / "0.counts"
    assert read_archive(path) == []
    first = registry(3, 1, 0.05)
    shown = MetricArchive(first, path).collect_and_store()
    assert 'asked_total{result="allowed"} 3.0' in text(*shown)
    successor = MetricArchive(registry(2, 9, 0.5), path)
    again = text(*successor.collect_and_store())
    assert {'asked_total{result="allowed"} 5.0', 'took_s_bucket{le="1.0"} 2.0', "level 9.0"} <= set(again)
    # Once more: nothing is counted twice.
    assert text(*successor.collect_and_store()) == again
    assert [family.name for family in read_archive(path)] == ["asked", "took_s"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", None])
def test_a_reserved_address_is_shared_and_taken(host: str | None) -> None:
    """By any number of sockets that are meant, and by no other one."""
    endpoint = Endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, host, 0)
    with reserve_listener(endpoint, KEY) as reserved:
        port = reserved.getsockname()[1]
        at = host or "127.0.0.1"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((at, port))
        with share_listener(reserved) as one, share_listener(reserved) as other:
            assert one.getsockname() == other.getsockname() == reserved.getsockname()
            connected = [socket.create_connection((at, port)) for _ in range(64)]
            assert min(accepted(one), accepted(other)) > 0
            again = Endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, host, port)
            for bind in (bind_listener, reserve_listener):
                with pytest.raises(ConfigError, match="in use"):
                    bind(again, KEY)
            for each in connected:
                each.close()


def accepted(listening: socket.socket) -> int:
    """How many connections wait there."""
    listening.setblocking(False)
    count = 0
    while True:
        try:
            listening.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


WRITE = """
import logging, sys
from pathlib import Path
from authorizer.configuration.log_setup import SharedHandler
logger = logging.getLogger("test")
logger.addHandler(SharedHandler(sys.stderr, Path(sys.argv[1])))
for number in range(300):
    logger.error(sys.argv[2] * 20_000)
"""


def test_lines_longer_than_an_atomic_write_are_not_interleaved(tmp_path: Path) -> None:
    """Of processes that write to one pipe."""
    command = [sys.executable, "-c", WRITE, str(tmp_path / "lock")]
    with subprocess.Popen([*command, "a"], stderr=subprocess.PIPE) as one:
        assert one.stderr is not None
        # Its end of the pipe is this process's, too.
        with (
            Path(f"/proc/{one.pid}/fd/2").open("wb") as end,
            subprocess.Popen([*command, "b"], stderr=end),
        ):
            end.close()
            lines = one.stderr.read().split()
    assert sorted(set(lines)) == [b"a" * 20_000, b"b" * 20_000]
    assert len(lines) == 600


def test_the_lock_is_given_back_when_it_was_taken_several_times(tmp_path: Path) -> None:
    """``flush`` takes it within ``emit``, and the audit log around several."""
    lock = tmp_path / "lock"
    handlers = [SharedHandler(io.StringIO(), lock) for _ in range(2)]
    for handler in handlers * 2:
        handler.acquire()
        handler.handle(logging.makeLogRecord({"msg": "x"}))
        handler.flush()
        handler.release()


def test_without_a_writer_the_error_says_that_nothing_was_written(tmp_path: Path) -> None:
    """After half of the timeout, or immediately when the worker ends."""
    writes = ForwardedWrites(SocketDirectory(tmp_path), 200, writable=True)
    (result,) = writes.create_acls([topic_acl("t")])
    assert "Nothing was written" in str(result.result(10).exception)
    writes.close()
    (result,) = writes.create_acls([topic_acl("t")])
    error = result.result(0).exception
    assert isinstance(error, OperationTimedOutError)
    assert "Nothing was written" in str(error)
