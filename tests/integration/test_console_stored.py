"""The console with Spark's output: counts over time, and states before the log's start."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from playwright.sync_api import Browser, expect
from pyspark.sql import SparkSession

from authorizer.console.history.history_scan import History, HistoryScan
from authorizer.console.history.history_states import HistoryState
from authorizer.console.history.stored_counts import StoredCounts
from authorizer.console.history.stored_history import read_stored_states
from records.columns.acl_table import AppliedAcl
from records.entries import MetadataRecord, RemoveAccessControlEntryRecord
from records.log.directory import DirectoryLog
from records.log_batch import LogBatch
from replay.load_image import load_image
from snapshot.delta import AclsDelta
from snapshot.digest import digest_to_string
from snapshot.jobs.changes.changes_job import run_changes
from snapshot.jobs.changes.coverage import put_coverage, read_coverage
from snapshot.jobs.counts.counts_job import run_counts
from snapshot.jobs.running.job import JobSettings
from snapshot.jobs.sources.logs import resolve_logs
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.storage import Storage
from support.console_page import assert_accessible, console_page
from support.directory_logs import read_batches, records_of
from support.naive_counts import NaiveCounts
from support.nodes import SOON_S, running_node, sidecar_of
from support.snapshots import acl, acl_id
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.integration]

START_MS = 1_795_212_000_000
HOUR_MS = 3_600_000
ANONYMOUS: dict[str, Any] = {"resource_type": 4, "resource_name": "kafka-cluster", "operation": 8}


class SparkOutputs(NamedTuple):
    """The complete log, the same log without its beginning, and Spark's outputs."""

    complete: Path
    trimmed: Path
    snapshots: Path
    history: Path
    counts: Path


def random_batches() -> Iterator[list[MetadataRecord]]:
    draw = random.Random(18)
    yield [acl(99, principal="User:ANONYMOUS", host="*", **ANONYMOUS)]
    for _ in range(40):
        number = draw.randrange(12)
        if draw.random() < 0.35:
            yield [RemoveAccessControlEntryRecord(acl_id(number))]
        else:
            yield [acl(number, host=draw.choice(["*", "10.0.0.1"])) for _ in range(draw.choice([1, 1, 2]))]


@pytest.fixture(scope="module")
def outputs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkOutputs:
    home = tmp_path_factory.mktemp("outputs")
    found = SparkOutputs(*(home / name for name in SparkOutputs._fields))
    with DirectoryLog.open(found.complete, mode="create", segment_bytes=1_000) as log:
        log.append_batches([(batch, START_MS + at * HOUR_MS) for at, batch in enumerate(random_batches())])
    for job, output, max_offsets in ((run_changes, found.history, 30), (run_counts, found.counts, None)):
        settings = JobSettings(
            logs=tuple(resolve_logs([f"file:{found.complete}"])),
            checkpoint=str(output / "checkpoint"),
            store=f"{output}/state",
            shards=2,
            max_offsets=max_offsets,
        )
        job(spark, settings, str(output), lambda _: None)
    shutil.copytree(found.complete, found.trimmed)
    segments = sorted(found.trimmed.glob("*.log"))
    assert len(segments) > 3
    with DirectoryLog.open(found.complete) as log:
        first = int(segments[2].stem)
        image = load_image(log, at_offset=first - 1).image
        SnapshotStore(str(found.snapshots)).write(image, log.identity, log_end_time_ms=0)
    for each in segments[:2]:
        each.unlink()
    return found


@pytest.fixture(scope="module")
def client(outputs: SparkOutputs) -> Iterator[httpx.Client]:
    with (
        running_node(
            outputs.trimmed,
            log_mode="read",
            snapshot_store=outputs.snapshots,
            console_history=outputs.history,
            console_counts=outputs.counts,
        ) as node,
        sidecar_of(node, console_listeners="*") as url,
        httpx.Client(base_url=url, timeout=SOON_S) as asking,
    ):
        yield asking


def complete_history(client: httpx.Client) -> dict[str, Any]:
    """The states after the scan has ended."""

    def found() -> dict[str, Any]:
        moments: dict[str, Any] = client.get("/console/v1/moments").json()
        return moments

    wait_until(lambda: found()["progress"] is None)
    return found()


def states(outputs: SparkOutputs) -> dict[int, str]:
    """The digest of each state of the complete log, by end offset."""
    with DirectoryLog.open(outputs.complete) as log:
        return {
            end: digest_to_string(load_image(log, at_offset=end - 1).image.digest)
            for end in range(1, log.high_watermark() + 1)
        }


def joined(outputs: SparkOutputs) -> tuple[DirectoryLog, HistoryState]:
    """Another reader of the trimmed log, and its first known state."""
    log = DirectoryLog.open(outputs.trimmed)
    stored = SnapshotStore(str(outputs.snapshots)).latest(log.identity)
    assert stored is not None
    return log, HistoryState(stored.image, stored.image.provenance.timestamp_ms, (), 0, 0)


@pytest.mark.long
def test_each_state_before_the_trimmed_log_is_restored(outputs: SparkOutputs) -> None:
    log, first = joined(outputs)
    with log:
        assert log.start_offset() > 0
        found = read_stored_states(str(outputs.history), log.identity, first)
    expected = states(outputs)
    assert found.is_complete
    assert found.states[0].end_offset == 0
    assert not len(found.states[0].image)
    ends = [each.end_offset for each in found.states]
    assert ends == sorted(set(ends))
    assert len(ends) > 5
    for each in found.states[1:]:
        assert digest_to_string(each.image.digest) == expected[each.end_offset]
        assert each.unknown_from is None
    # Between two states nothing changed.
    known = {each.end_offset: digest_to_string(each.image.digest) for each in found.states}
    for end in range(1, first.end_offset):
        assert known.get(end) or expected[end] == known[max(each for each in ends if each <= end)]


@pytest.mark.long
def test_the_past_and_the_counts_are_shown_from_the_logs_beginning(
    chromium: Browser, outputs: SparkOutputs, client: httpx.Client
) -> None:
    found = complete_history(client)
    assert found["is_whole"]
    assert found["refusal"] is None
    assert found["moments"][0]["end_offset"] == 0
    with DirectoryLog.open(outputs.complete) as log:
        records = list(records_of(read_batches(log)))
        end = log.high_watermark()
    plain = NaiveCounts(records)
    for each in found["moments"][1:]:
        assert each["acls"] == sum(plain.at_end[each["end_offset"]].values())
    counts = client.get("/console/v1/counts").json()["kept"]
    changes = sorted((minute, delta) for _, minute, _, delta in plain.changes)
    minutes, deltas = zip(*changes, strict=True)
    # The last change of a minute counts.
    totals = dict(zip(minutes, accumulate(deltas), strict=True))
    assert dict(counts["points"]).items() <= totals.items()
    assert counts["points"][-1][1] == sum(plain.at_end[end].values())
    url = str(client.base_url).rstrip("/")
    early = found["moments"][3]["end_offset"] - 1
    with console_page(chromium, url) as page:
        page.goto(f"{url}/#view=acls&at={early}")
        expect(page.locator(".counts")).to_contain_text(f"{found['moments'][3]['acls']} ACL")
        expect(page.locator(".unknown")).to_have_count(0)
        page.goto(f"{url}/#view=node")
        expect(page.locator(".counted figcaption")).to_contain_text("Known from 2026-11-20 22:00:00 UTC")
        page.get_by_text("As a table").click()
        expect(page.locator(".counted + details tbody tr").last).to_contain_text(str(counts["points"][-1][1]))
        assert page.locator(".counted + details tbody tr").count() == len(counts["points"])
        assert_accessible(page, "node-stored")


class Compacted:
    """A log without the batches whose records were all superseded."""

    def __init__(self, log: DirectoryLog) -> None:
        self._log = log
        batches = read_batches(log)
        last = {getattr(each.record, "id", None): each.offset for each in records_of(batches)}
        left = set(last.values())
        self._left = [each for each in batches if any(logged.offset in left for logged in each.records)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def read(self, offset: int) -> list[LogBatch]:
        return [each for each in self._left if each.end_offset > offset]


@pytest.mark.long
def test_gaps_of_a_compacted_log_are_filled_from_the_stored_history(outputs: SparkOutputs) -> None:
    expected = states(outputs)
    with DirectoryLog.open(outputs.complete) as log:
        now = load_image(log).image

    def compacted() -> Any:
        return Compacted(DirectoryLog.open(outputs.complete))

    def scan_with(read_stored: Any) -> History:
        scan = HistoryScan(compacted, lambda _: [], lambda: None, read_stored)
        scan.update(0, now)
        while not scan.is_done:
            scan.extend()
        return scan.update(0, now)

    end = max(expected)
    incomplete = scan_with(None)
    assert incomplete.states[-1].unknown_from is not None
    history = scan_with(partial(read_stored_states, str(outputs.history)))
    assert history.is_complete
    assert all(each.unknown_from is None for each in history.states)
    assert len(history.states) > len(incomplete.states)
    for each in history.states[1:]:
        assert digest_to_string(each.image.digest) == expected[each.end_offset]
    assert history.states[-1].end_offset == end
    assert history.index_at(end - 1) is not None


@pytest.mark.long
def test_a_coarse_span_of_the_history_is_hatched(
    chromium: Browser, outputs: SparkOutputs, tmp_path: Path
) -> None:
    shutil.copytree(outputs.history, tmp_path / "history")
    storage = Storage(str(tmp_path / "history"))
    log, first = joined(outputs)
    log.close()
    coverage = read_coverage(storage, log.identity.cluster_id)
    assert coverage is not None
    start, end = 4, first.end_offset - 3
    put_coverage(storage, coverage.with_coarse(start, end))
    with (
        running_node(
            outputs.trimmed,
            log_mode="read",
            snapshot_store=outputs.snapshots,
            console_history=tmp_path / "history",
        ) as node,
        sidecar_of(node, console_listeners="*") as url,
        httpx.Client(base_url=url, timeout=SOON_S) as asking,
    ):
        moments = complete_history(asking)["moments"]
        (hole,) = [each for each in moments if each["unknown_from"] is not None]
        assert (hole["unknown_from"], hole["end_offset"]) == (start, end)
        assert not [each for each in moments if start < each["end_offset"] < end]
        status = httpx.codes.GONE, httpx.codes.OK, httpx.codes.OK
        for offset, code in zip((start, start - 1, end - 1), status, strict=True):
            question = {"at_offset": offset}
            assert asking.get("/console/v1/acls", params=question).status_code == code, offset
        with console_page(chromium, url) as page:
            page.goto(f"{url}/#at={end - 1}")
            expect(page.locator(".gap")).to_have_count(1)
            ends = rf"between offset {start - 1} \([^)]+\) and offset {end - 1} \([^)]+\)"
            expect(page.locator(".shown-state")).to_contain_text(re.compile(f"{ends} the states are unknown"))
            page.get_by_text("1 gap in the known history").click()
            expect(page.locator(".gaps")).to_contain_text(re.compile(ends))
            assert_accessible(page, "hole")


@pytest.mark.long
def test_unreadable_files_are_reported_and_the_rest_is_shown(
    chromium: Browser, outputs: SparkOutputs, tmp_path: Path
) -> None:
    shutil.copytree(outputs.history, tmp_path / "history")
    for each in (tmp_path / "history" / "changes").rglob("*.parquet"):
        each.write_bytes(b"no table")
    (tmp_path / "counts" / "counts_by_time" / "_delta_log").mkdir(parents=True)
    shutil.copytree(outputs.counts / "state", tmp_path / "counts" / "state")
    with (
        running_node(
            outputs.trimmed,
            log_mode="read",
            snapshot_store=outputs.snapshots,
            console_history=tmp_path / "history",
            console_counts=tmp_path / "counts",
        ) as node,
        sidecar_of(node, console_listeners="*") as url,
        console_page(chromium, url) as page,
    ):
        page.goto(f"{url}/#view=node")
        expect(page.locator("footer .error")).to_contain_text("is not a table of changes")
        expect(page.locator("main .error")).to_contain_text("is a table of Delta Lake")
        expect(page.locator(".unknown")).to_have_count(1)
        page.get_by_text("1 gap in the known history").click()
        expect(page.locator(".gaps li")).to_contain_text("no state is known before offset 19: snapshot")
        expect(page.locator(".facts")).to_contain_text("ready")


@pytest.mark.long
def test_a_history_that_does_not_match_the_log_is_rejected(outputs: SparkOutputs) -> None:
    """Each undone change must match the state after it."""
    log, first = joined(outputs)
    with log:
        delta = AclsDelta(first.image)
        for number in range(12):
            delta.put(AppliedAcl(acl(number, host="10.9.9.9"), 0, 0))
        wrong = first._replace(image=delta.apply(first.image.provenance))
        found = read_stored_states(str(outputs.history), log.identity, wrong)
    assert not found.is_complete
    assert "and the log differ at offset" in found.origin
    assert found.states == ()


@pytest.mark.long
def test_each_file_of_counts_is_read_once(outputs: SparkOutputs, tmp_path: Path) -> None:
    shutil.copytree(outputs.counts, tmp_path / "counts")
    log, _ = joined(outputs)
    log.close()
    counts = StoredCounts(str(tmp_path / "counts"))
    first = counts.read(log.identity)
    assert first["files_left"] == 0
    # Files are not read again, unless the output was started again.
    shutil.rmtree(tmp_path / "counts")
    assert counts.read(log.identity) == first
    counts._cached_until_s = 0.0  # the cache has expired
    assert counts.read(log.identity)["points"] == []
