"""The three jobs on topics of a real broker: what a topic can hold, lose and become, against plain folds."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from msgspec import structs
from pyspark.sql import SparkSession

from authorizer.cli.main import cli
from records.acl import AclPermissionType
from records.entries import AccessControlEntryRecord, AclRecord, RemoveAccessControlEntryRecord
from records.errors import AclogError
from records.ids import uuid_to_string
from records.log.directory import DirectoryLog
from records.log.open import open_log
from records.log.topic import TopicLog
from replay.load_image import load_image
from replay.snapshot_source import StoredSnapshots
from snapshot.digest import digest_to_string
from snapshot.errors import SparkJobError
from snapshot.jobs.changes.changes_job import run_changes
from snapshot.jobs.changes.history import History
from snapshot.jobs.counts.count_tables import read_counts
from snapshot.jobs.counts.counts_job import run_counts
from snapshot.jobs.folding.log_plan import LogPlan, LogResult
from snapshot.jobs.running.job import BatchReport, JobSettings, LogReport
from snapshot.jobs.running.query import run_job
from snapshot.jobs.snapshots_job import run_snapshots
from snapshot.jobs.sources.logs import FollowedLog, resolve_logs
from snapshot.store.manifest import SnapshotManifest
from snapshot.store.snapshot_store import SnapshotStore
from support.digests import digest_of
from support.histories import as_record
from support.kafka_broker import Broker
from support.naive_counts import kind_of
from support.node_acls import topic_acl
from support.nodes import SOON_S, running_node
from support.topic_checker import CODEC, TopicHistory, folds, read_raw
from support.topic_nodes import key_of, pattern_logs, produce, produce_raw, raw_topic, record_of, unique_topic
from support.topic_operator import create_again, delete_records, transactional
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.xdist_group("spark")]

COMPACTS_AT_ONCE = {
    "segment.ms": "300",
    "min.cleanable.dirty.ratio": "0.0",
    "min.compaction.lag.ms": "1000",
    "max.compaction.lag.ms": "1200",
    "delete.retention.ms": "600000",
}
KIND = ("resource_type", "pattern_type", "permission_type", "operation")


class Job:
    """A job with its checkpoint and store, below ``home``; to be run again and again."""

    def __init__(
        self,
        spark: SparkSession,
        home: Path,
        *urls: str,
        pattern: tuple[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self.spark, self.home, self.urls, self.pattern = spark, home, urls, pattern
        self.store = SnapshotStore(str(home / "state"))
        self.settings: dict[str, Any] = {
            "checkpoint": f"file://{home / '.checkpoint'}",
            "keep": 100,
            "shards": 2,
        } | settings
        self.reports: list[BatchReport] = []

    def logs(self) -> list[FollowedLog]:
        return resolve_logs(self.urls) if self.pattern is None else pattern_logs(*self.pattern)

    def run(self, kind: str = "snapshots", **changed: Any) -> list[LogReport]:
        """One of the jobs; what it did, log by log."""
        self.reports = []
        given = self.settings | changed
        settings = JobSettings(logs=tuple(self.logs()), store=self.store.url, **given)
        if kind == "snapshots":
            run_snapshots(self.spark, settings, self.reports.append)
        else:
            start = run_changes if kind == "changes" else run_counts
            start(self.spark, settings, str(self.home), self.reports.append)
        return self.done()

    def done(self) -> list[LogReport]:
        return [log for report in self.reports for log in report.logs]

    def manifests(self, cluster_id: str | None = None) -> list[SnapshotManifest]:
        """The snapshots of one log, oldest first; each must be complete."""
        found = []
        for status in self.store.survey(cluster_id or self.logs()[0].identity.cluster_id):
            assert self.store.verify(status.ref) == ()
            assert status.manifest is not None
            found.append(status.manifest)
        return found

    def stop(self) -> None:
        for query in self.spark.streams.active:
            query.stop()


def records(count: int, prefix: str = "t") -> list[AccessControlEntryRecord]:
    return [record_of(topic_acl(f"{prefix}-{number}")) for number in range(count)]


def removal(record: AclRecord) -> RemoveAccessControlEntryRecord:
    return RemoveAccessControlEntryRecord(record.id)


def messages(*of: AclRecord) -> list[tuple[bytes | None, bytes | None]]:
    return [(key_of(record), CODEC.encode(record)) for record in of]


def append(url: str, *batches: Sequence[AclRecord]) -> int:
    """Each as one transaction of aclog's; the end, markers and all."""
    with TopicLog.open(url, mode="write") as log:
        for batch in batches:
            end = log.append(batch)
        wait_until(lambda: log.high_watermark() == log.log_end_offset() >= end, "the last marker")
        return log.high_watermark()


def digests(broker: Broker, url: str, ends: Sequence[int], start: int = 0) -> list[str]:
    """The states of the topic at these ends, by the checker's rules, from what it holds now."""
    topic = url.rpartition("/")[2]
    held = {each.offset: each for each in read_raw(broker.bootstrap_servers, topic, start, max(ends))}
    return [digest_to_string(digest) for _end, _acls, digest in folds(held, ends)]


def loaded(url: str, at_offset: int | None = None) -> str:
    with closing(open_log(url)) as log:
        return digest_to_string(load_image(log, at_offset=at_offset).image.digest)


def assert_continued(url: str, store: SnapshotStore, end: int) -> None:
    """A node starts from the snapshot there and the log's tail, and has what one has that replayed it all."""
    with closing(open_log(url)) as log:
        continued = load_image(log, [StoredSnapshots(store)])
    assert continued.origin.startswith(f"snapshot {end:020d}-")
    assert digest_to_string(continued.image.digest) == loaded(url)


def write_everything(broker: Broker, url: str) -> int:
    """Transactions of aclog's and of others, aborted and interleaved ones, plain messages; markers last."""
    servers, topic = broker.bootstrap_servers, url.rpartition("/")[2]
    plain = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    some = records(14)
    append(url, some[:1], [*some[1:4], removal(some[0])])
    other = transactional(broker, "foreign")
    other.begin_transaction()
    produce(other, topic, messages(*some[4:7], removal(some[1])))
    other.abort_transaction(SOON_S)
    produce_raw(servers, topic, list(some[4:6]))
    produce(plain, topic, [(key_of(some[4]), None)])
    other.begin_transaction()
    produce(other, topic, messages(some[7], removal(some[2])))
    produce_raw(servers, topic, [some[2], some[8]])
    produce(other, topic, messages(some[9]))
    other.commit_transaction(SOON_S)
    append(url, [removal(some[8]), some[0]], [some[10]])
    other.begin_transaction()
    produce(other, topic, messages(some[11], some[12]))
    other.abort_transaction(SOON_S)
    return append(url, [removal(some[3]), *some[11:14]])


@pytest.mark.long
def test_every_batch_of_a_topic_equals_the_naive_fold(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Whatever the batches' sizes: each state is the fold of what is below its end, the last one a node's.

    Batches of two offsets end between records and their markers, and some hold no record at all.
    """
    url = raw_topic(broker.bootstrap_servers, unique_topic("spark-all"))
    end = write_everything(broker, url)
    for max_offsets in (2, 7, None):
        job = Job(spark, tmp_path / str(max_offsets), url, max_offsets=max_offsets)
        done = job.run()
        ends = [log.end for log in done]
        assert [log.start for log in done] == [0, *ends[:-1]]
        assert ends == [*range(max_offsets or end, end, max_offsets or end), end]
        assert [log.digest for log in done] == digests(broker, url, ends)
        assert done[-1].digest == loaded(url)
        if max_offsets == 2:
            assert 0 < sum(not any((log.counts.added, log.counts.removed)) for log in done) < len(done)
        manifests = job.manifests()
        assert [digest_to_string(each.digest) for each in manifests] == [log.digest for log in done]
        # The log was longer already; only of its end is the state surely one that it had.
        assert [each.gap_until for each in manifests] == [end] * (len(ends) - 1) + [0]
    with running_node(url, log_mode="read") as node:
        status = node.status()
        assert (status.end_offset, status.digest) == (end, loaded(url))
    append(url, records(2, "tail"))
    assert_continued(url, SnapshotStore(str(tmp_path / "2" / "state")), end)


@pytest.mark.long
def test_a_compacted_topic_is_processed(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The end is right from a checkpoint before the gap and from a new one; no state in between claims to be.

    What was in the log is known from a consumer that read everything before it was compacted.
    """
    servers, topic = broker.bootstrap_servers, unique_topic("spark-gaps")
    url = raw_topic(servers, topic, COMPACTS_AT_ONCE)
    history = TopicHistory(servers, topic)
    draw, some = random.Random(3), records(12)
    there: set[int] = set()

    def changes() -> list[AclRecord]:
        batch: list[AclRecord] = []
        for number in draw.sample(range(len(some)), 4):
            is_there = number in there
            batch.append(removal(some[number]) if is_there else some[number])
            there.symmetric_difference_update({number})
        return batch

    append(url, changes(), changes())
    before = Job(spark, tmp_path / "before", url)
    before.run()

    def compacted() -> bool:
        end = append(url, changes())
        time.sleep(0.3)  # a segment is closed only by its age
        return len(read_raw(servers, topic, 0, end)) < len(history.by_offset) / 2

    wait_until(compacted, "the cleaner")
    end = append(url, changes())
    history.wait_for(end)
    size = max(end // 7, 1)
    for job in (before, Job(spark, tmp_path / "after", url, max_offsets=size)):
        done = job.run(max_offsets=size)
        assert len(done) > 3
        manifests = job.manifests()
        ends = [each.provenance.end_offset for each in manifests]
        real = [digest for _end, _acls, digest in folds(dict(history.by_offset), ends)]
        is_real = [each.digest == digest for each, digest in zip(manifests, real, strict=True)]
        assert all(each.gap_until == end for each, same in zip(manifests, is_real, strict=True) if not same)
        assert not all(is_real)
        assert (ends[-1], is_real[-1], manifests[-1].is_exact) == (end, True, True)
        assert done[-1].digest == loaded(url)
        # A node may start from one that is not exact: it is right again from gapUntil on.
        inexact = [each for each, same in zip(manifests, is_real, strict=True) if not same][-1]
        for each in manifests:
            if each.provenance.end_offset > inexact.provenance.end_offset:
                shutil.rmtree(job.home / "state" / each.ref.directory)
        assert_continued(url, job.store, inexact.provenance.end_offset)
    history.close()


def aclog(*args: object) -> Result:
    """On the tests' own session, which is there already."""
    return CliRunner().invoke(cli, [str(arg) for arg in args])


def stored(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in store.glob("[!.]*/*/*")}


@pytest.mark.long
def test_records_deleted_past_the_checkpoint_fail_the_job(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """The job stops, each time, and stores nothing; it goes on from a node's snapshot, as documented."""
    topic = unique_topic("spark-cut")
    url = raw_topic(broker.bootstrap_servers, topic)
    some = records(9)
    append(url, some[:3])
    store, of_node = tmp_path / "store", tmp_path / "node"
    job = ("spark", "snapshots", "--log", url, "--snapshots", store, "--once")
    assert aclog(*job).exit_code == 0
    known = stored(store)
    cut = append(url, [removal(some[0]), *some[3:6]])
    with running_node(url, log_mode="read", snapshot_store=of_node, snapshot_max_bytes=1):
        wait_until(lambda: bool(list(of_node.rglob("manifest.json"))), "a node's snapshot")
    delete_records(broker, topic, cut - 1)
    end = append(url, [removal(some[3]), *some[6:]])
    for flags in ((), ("--checkpoint", tmp_path / "other")):
        refused = aclog(*job, *flags)
        assert refused.exit_code == 4, refused.output
        assert "Traceback" not in refused.stderr
        assert "aclog snapshot create" in refused.stderr
        assert stored(store) == known
    for snapshot in of_node.glob("*/*"):
        shutil.copytree(snapshot, store / snapshot.relative_to(of_node))
    # The old checkpoint still begins in the hole.
    refused = aclog(*job)
    assert refused.exit_code == 4, refused.output
    assert f"was trimmed: it starts at offset {cut - 1}, but the next one to read is" in refused.stderr
    done = aclog(*job, "--checkpoint", tmp_path / "new", "--json")
    assert done.exit_code == 0, done.output
    batch, _summary = map(json.loads, done.stdout.splitlines())
    (line,) = batch["logs"]
    expected_records = {record.id: record for record in (*some[1:3], *some[4:])}
    assert (line["endOffset"], line["digest"]) == (
        end,
        digest_to_string(digest_of(expected_records.values())),
    )


@pytest.mark.long
def test_a_recreated_topic_fails_the_job(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Its checkpoint is refused, with both ids, and so is its store's state; a new pair begins anew."""
    topic = unique_topic("spark-again")
    url = raw_topic(broker.bootstrap_servers, topic)
    append(url, records(3))
    store = tmp_path / "store"
    job = ("spark", "snapshots", "--log", url, "--once", "--snapshots")
    assert aclog(*job, store).exit_code == 0
    known, (old,) = stored(store), resolve_logs([url])
    create_again(broker, topic)
    append(url, records(2, "new"), records(3, "newer"))
    (new,) = resolve_logs([url])
    refused = aclog(*job, store)
    assert refused.exit_code == 4, refused.output
    assert all(uuid_to_string(log.identity.topic_id) in refused.stderr for log in (old, new))
    assert "--checkpoint" in refused.stderr
    assert stored(store) == known
    done = aclog(*job, tmp_path / "new", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["logs"][0]["digest"] == loaded(url)


@pytest.mark.long
def test_a_topic_recreated_during_a_job_fails_it(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """It fails before a state of the other topic is stored; another checkpoint and store go on."""
    topic = unique_topic("spark-swapped")
    url = raw_topic(broker.bootstrap_servers, topic)
    append(url, records(2))
    job = Job(spark, tmp_path / "old", url)
    (old,) = job.logs()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(job.run, interval_s=0.2)
        try:
            wait_until(lambda: bool(job.done()) or running.done(), "the first batch", timeout_s=120)
            known = job.done()
            create_again(broker, topic)
            append(url, records(4, "new"), records(4, "newer"))
            error = running.exception(120)
        finally:
            job.stop()
    assert isinstance(error, AclogError), error
    assert job.done() == known
    assert {each.identity for each in job.manifests()} == {old.identity}
    again = Job(spark, tmp_path / "new", url)
    assert again.run()[-1].digest == loaded(url)


class Swapping:
    """A sink in whose batches the topic is deleted and created again: planned of one, read of the other."""

    name = "swapping"
    wants_changes = False
    wants_count_deltas = False

    def __init__(self, broker: Broker, url: str) -> None:
        self._swap = partial(create_again, broker, url.rpartition("/")[2])
        self._url = url

    def changes_writer(self, plans: Sequence[LogPlan]) -> None:
        self._swap()
        append(self._url, records(4, "new"), records(4, "newer"))

    def commit(self, results: Sequence[LogResult]) -> None:
        raise AssertionError("the rows are of another topic")


@pytest.mark.long
def test_a_topic_recreated_during_a_batch_fails_it(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Between its planning and its reading: the rows are the other one's, and nothing is stored."""
    url = raw_topic(broker.bootstrap_servers, unique_topic("spark-within"))
    append(url, records(2))
    job = Job(spark, tmp_path, url)
    settings = JobSettings(logs=tuple(job.logs()), store=job.store.url, **job.settings)
    with pytest.raises(SparkJobError, match=r"deleted and created again.*--checkpoint"):
        run_job(spark, settings, Swapping(broker, url), lambda _: None)
    assert [status.manifest for status in job.store.survey(settings.logs[0].identity.cluster_id)] == [None]


@pytest.mark.long
@pytest.mark.parametrize("fleet", ["two topics", "a directory and a topic"])
def test_one_job_processes_two_clusters(
    spark: SparkSession, broker: Broker, tmp_path: Path, fleet: str
) -> None:
    """The same ids in both, with other content: states, changes and counts are each cluster's own."""
    prefix = unique_topic("spark-fleet")
    servers = broker.bootstrap_servers
    topics = [f"{prefix}-east", f"{prefix}-west"] if fleet == "two topics" else [f"{prefix}-west"]
    urls = {f"{servers}/{topic}": raw_topic(servers, topic) for topic in topics}
    west = urls[f"{servers}/{prefix}-west"]
    some = records(9)
    if fleet == "two topics":
        east = urls[f"{servers}/{prefix}-east"]
        append(east, some[:6], [removal(some[0]), some[6]], [removal(some[1])])
        named: dict[str, Any] = {"pattern": (servers, f"{prefix}-(.+)")}
    else:
        east = f"file:{tmp_path / 'log'}"
        with DirectoryLog.open(tmp_path / "log", mode="create", cluster_id="east") as log:
            log.append(some[:6])
            log.append([removal(some[0]), some[6]])
            log.append([removal(some[1])])
        named = {}
    deny = [record_of(topic_acl(each.resource_name, permission=AclPermissionType.DENY)) for each in some]
    deny = [structs.replace(each, id=same.id) for each, same in zip(deny, some, strict=True)]
    append(west, deny[3:], [removal(deny[4])], [deny[0], removal(deny[8])])
    # The states of the other two are snapshots as well.
    for kind in (*(["snapshots"] if named else []), "changes", "counts"):
        job = Job(spark, tmp_path / kind, *([] if named else (east, west)), max_offsets=8, **named)
        of = {log.url: log.identity.cluster_id for log in job.logs()}
        done = job.run(kind)
        for url, cluster_id in of.items():
            logs_of_cluster = [log for log in done if log.cluster_id == cluster_id]
            if url == east and not named:
                expected = [loaded(url, log.end - 1) for log in logs_of_cluster]
            else:
                expected = digests(broker, url, [log.end for log in logs_of_cluster])
            assert [log.digest for log in logs_of_cluster] == expected
            assert logs_of_cluster[-1].digest == loaded(url)
            assert [digest_to_string(each.digest) for each in job.manifests(cluster_id)] == expected
            if kind == "changes":
                assert_own_changes(spark, job.home, cluster_id, is_east=url == east, some=some, deny=deny)
            if kind == "counts":
                assert_counts_of_cluster(spark, job.home, cluster_id, logs_of_cluster[-1], url)
        assert len(of) == 2


def assert_own_changes(
    spark: SparkSession,
    output: Path,
    cluster_id: str,
    *,
    is_east: bool,
    some: Sequence[AccessControlEntryRecord],
    deny: Sequence[AccessControlEntryRecord],
) -> None:
    rows_by_change: dict[str, list[AccessControlEntryRecord]] = defaultdict(list)
    for row in History.open(spark, str(output), cluster_id).changes().collect():
        side = row.before if row.after is None else row.after
        rows_by_change[row.change].append(as_record(side.asDict() | {"id": row.id}))
    by_id = partial(sorted, key=lambda record: record.id)
    added, removed = (some[:7], some[:2]) if is_east else ([deny[0], *deny[3:]], [deny[4], deny[8]])
    assert {change: by_id(found) for change, found in rows_by_change.items()} == {
        "added": by_id(added),
        "removed": by_id(removed),
    }


def assert_counts_of_cluster(
    spark: SparkSession, output: Path, cluster_id: str, last: LogReport, url: str
) -> None:
    rows = read_counts(spark, str(output)).where(f"end_offset = {last.end}").collect()
    with closing(open_log(url)) as log:
        expected = Counter(kind_of(each.record) for each in load_image(log).image)
    found = {tuple(row[name] for name in KIND): row["count"] for row in rows if row.cluster_id == cluster_id}
    assert {kind: count for kind, count in found.items() if count} == dict(expected)


@pytest.mark.long
def test_an_undecodable_message_fails_the_job(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The job fails with its offset, again and again, and no state goes beyond it."""
    topic = unique_topic("spark-bad")
    url = raw_topic(broker.bootstrap_servers, topic)
    plain = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all", "log_level": 0})
    some = records(5)
    bad = append(url, some[:3])
    produce(plain, topic, [(key_of(some[3]), b"what is this?")])
    end = append(url, some[4:])
    job = Job(spark, tmp_path, url, max_offsets=2)
    for _ in range(2):
        with pytest.raises(AclogError, match=rf"neither Avro nor a KRaft frame .*offset {bad}\b"):
            job.run()
        ends = [each.provenance.end_offset for each in job.manifests()]
        assert ends == list(range(2, bad + 1, 2))
        assert digest_to_string(job.manifests()[-1].digest) == digests(broker, url, [ends[-1]])[0]
    assert end > bad
