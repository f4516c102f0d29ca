"""The changes job on real Spark and real logs: the history is every state that a log had, and once."""

from __future__ import annotations

import json
import random
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from authorizer.cli.spark.access_analysis import SettingsAnalysis
from authorizer.engine.decisions.state import AuthorizerSettings
from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import LogNotFoundError
from records.ids import Uuid, uuid_to_string
from records.log.base import LogIdentity
from records.log.directory import DirectoryLog
from records.log.directory.identity import random_id, write_owner
from records.log.open import open_log
from records.log_batch import LogRecord
from replay.load_image import load_image
from snapshot.errors import HistoryForeignError, HistoryMissingError, HistoryRangeError
from snapshot.jobs.changes.changes_job import ChangeTopic, run_changes
from snapshot.jobs.changes.history import (
    History,
    changes,
    covering_resource,
    in_force_at,
    intervals,
    of_principal,
    of_resource,
)
from snapshot.jobs.running.job import JobSettings
from snapshot.jobs.sources.logs import resolve_logs
from snapshot.store.snapshot_store import SnapshotStore
from support.data import real_log
from support.digests import digest_of
from support.feed_topics import feed_messages, new_feed_topic
from support.histories import as_record
from support.kafka_broker import Broker
from support.naive_tables import rows_of
from support.sim_history import fold
from support.snapshots import acl, acl_id
from support.topic_logs import new_topic, topic_url

pytestmark = [pytest.mark.slow, pytest.mark.integration]

Contents = dict[Uuid, AccessControlEntryRecord]

DAY_MS = 86_400_000
#: 2026-11-20, 22:00 UTC.
BEGIN_MS = 1_795_212_000_000


class ChangesJob:
    """A job that is run again and again: output, checkpoint, logs."""

    def __init__(self, spark: SparkSession, home: Path, logs: Sequence[Path]) -> None:
        self.spark, self.home = spark, home
        self.output, self.checkpoint = home / "out", home / "checkpoint"
        self.urls = [f"file:{log}" for log in logs]

    def run(
        self,
        *,
        max_offsets: int | None = None,
        to_topic: ChangeTopic | None = None,
        access_analysis: SettingsAnalysis | None = None,
    ) -> list[tuple[int, int]]:
        """Take what there is; the ranges of the batches of the first log."""
        ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
        logs = resolve_logs(self.urls)
        settings = JobSettings(
            logs=tuple(logs),
            checkpoint=str(self.checkpoint),
            store="",
            shards=2,
            max_offsets=max_offsets,
        )

        def on_batch(report: object) -> None:
            for log in report.logs:  # type: ignore[attr-defined]
                ranges[log.cluster_id].append((log.start, log.end))

        run_changes(
            self.spark,
            settings,
            str(self.output),
            on_batch,
            to_topic=to_topic,
            access_analysis=access_analysis,
        )
        return ranges[logs[0].identity.cluster_id]

    def history(self, cluster_id: str | None = None) -> History:
        return History.open(self.spark, str(self.output), cluster_id)

    def files(self) -> dict[str, bytes]:
        """What is read of the history, by path."""
        found = (path for table in ("changes", "intervals") for path in (self.output / table).rglob("*.*"))
        return {str(path.relative_to(self.output)): path.read_bytes() for path in found}

    def forget_commit(self) -> None:
        """As if Spark had died before it committed the last batch."""
        (last,) = sorted((self.checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))[-1:]
        last.unlink()
        (self.checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)

    def forget_state(self, cluster_id: str) -> None:
        """As if the job had died before the last manifest."""
        last = max((self.output / "state" / cluster_id).iterdir())
        (last / "manifest.json").unlink()


def states(history: History) -> dict[int, Contents]:
    """By offset, what the history says was in force after its record; one query for all of them."""
    offsets = history._spark.range(history.coverage.begin_offset, history.end).withColumnRenamed("id", "at")
    found: dict[int, Contents] = {at: {} for at in range(history.coverage.begin_offset, history.end)}
    for row in in_force_at(history.intervals().crossJoin(offsets), F.col("at")).collect():
        assert Uuid(bytes(row.id)) not in found[row.at]
        found[row.at][Uuid(bytes(row.id))] = as_record(row.asDict())
    return found


def records_of(rows: DataFrame) -> Contents:
    return {Uuid(bytes(row.id)): as_record(row.asDict()) for row in rows.collect()}


def assert_is_history_of(history: History, directory: Path) -> None:
    """Equal to load_image at every offset, content by id and digest."""
    found = states(history)
    with DirectoryLog.open(directory) as log:
        assert history.end == log.high_watermark()
        assert list(found) == list(range(history.coverage.begin_offset, history.end))
        for offset, there in found.items():
            image = load_image(log, at_offset=offset).image
            assert there == {each.record.id: each.record for each in image}
            assert digest_of(there.values()) == image.digest
    assert digest_of(found[history.end - 1].values()) == history.manifest.digest


def random_batches(seed: int, count: int) -> Iterator[list[MetadataRecord]]:
    """Few ids, added, replaced, repeated and removed; transactions that change one id several times."""
    draw = random.Random(seed)

    def change() -> MetadataRecord:
        number = draw.randrange(12)
        if draw.random() < 0.4:
            return RemoveAccessControlEntryRecord(acl_id(number))
        return acl(number, host=draw.choice(["*", "10.0.0.1"]))

    for _ in range(count):
        if draw.random() < 0.4:
            yield [BeginTransactionRecord("t"), *(change() for _ in range(draw.randrange(6)))]
            yield [change() for _ in range(1 + draw.randrange(3))]
            yield [EndTransactionRecord() if draw.random() < 0.7 else AbortTransactionRecord("no")]
        else:
            yield [change() for _ in range(1 + draw.randrange(4))]


def write(directory: Path, batches: Sequence[Sequence[MetadataRecord]], *, cluster_id: str = "c-1") -> int:
    """Append the batches, seven hours apart, to a directory log; returns its end."""
    with DirectoryLog.open(directory, mode="create", cluster_id=cluster_id) as log:
        begin_ms = BEGIN_MS + 3_600_000 * log.high_watermark()
        return log.append_batches(
            [(batch, begin_ms + 7 * 3_600_000 * at) for at, batch in enumerate(batches)]
        )


@pytest.fixture(scope="module")
def fleet(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ChangesJob:
    """One job, two clusters: a real broker's log, and one of random records."""
    home = tmp_path_factory.mktemp("fleet")
    # No id that aclog gives, but one that a cluster may have.
    (home / "random").mkdir()
    write_owner(home / "random", LogIdentity("čluster/2", random_id()))
    write(home / "random", list(random_batches(1, 60)), cluster_id="čluster/2")
    job = ChangesJob(spark, home, [real_log("kraft-small"), home / "random"])
    assert len(job.run(max_offsets=100)) >= 3
    return job


def test_the_history_has_every_state_of_a_real_log(fleet: ChangesJob) -> None:
    """Two clusters in one job do not mix."""
    assert_is_history_of(fleet.history("aclogFixtureCluster001"), real_log("kraft-small"))


@pytest.mark.long
def test_the_history_has_every_state_of_a_random_log(fleet: ChangesJob) -> None:
    """Metadata transactions take effect where they end; each life of an id is an interval."""
    assert_is_history_of(fleet.history("čluster/2"), fleet.home / "random")


@pytest.mark.long
@pytest.mark.parametrize("max_offsets", [None, 25])
def test_the_history_does_not_depend_on_the_batches(
    spark: SparkSession, tmp_path: Path, fleet: ChangesJob, max_offsets: int | None
) -> None:
    """Whatever their sizes: the same changes and intervals."""
    log_directory = tmp_path / "log"
    write(log_directory, list(random_batches(2, 20)))
    job = ChangesJob(spark, tmp_path, [log_directory])
    ranges = job.run(max_offsets=max_offsets)
    assert len(ranges) == 1 or max_offsets is not None
    assert_is_history_of(job.history(), log_directory)
    rows = job.history().changes().collect()
    assert len({(row.offset, bytes(row.id)) for row in rows}) == len(rows)


@pytest.mark.long
def test_tables_contain_all_clusters(fleet: ChangesJob) -> None:
    """All histories in one table each, in directories by cluster and by the day of the change."""
    rows = changes(fleet.spark, str(fleet.output))
    by_cluster = {row.cluster_id: row["count"] for row in rows.groupBy("cluster_id").count().collect()}
    assert by_cluster == {
        cluster_id: fleet.history(cluster_id).changes().count()
        for cluster_id in ("aclogFixtureCluster001", "čluster/2")
    }
    found = intervals(fleet.spark, str(fleet.output)).groupBy("cluster_id").count().collect()
    assert {row.cluster_id for row in found} == set(by_cluster)
    of_random = fleet.history("čluster/2").changes()
    days = {
        datetime.fromtimestamp(row.timestamp_ms / 1000, UTC).date().isoformat() for row in of_random.collect()
    }
    directory = fleet.output / "changes" / "cluster_id=%C4%8Dluster%2F2"
    assert {path.name for path in directory.iterdir()} == {f"date={day}" for day in days}
    assert len(days) > 2
    with pytest.raises(HistoryMissingError, match="2 clusters: name one with --cluster-id"):
        fleet.history()
    with pytest.raises(HistoryMissingError, match="no history of cluster nobody"):
        fleet.history("nobody")


@pytest.mark.long
def test_changes_between_two_offsets_are_read(fleet: ChangesJob) -> None:
    """Applied to the state at the first one, exclusive, it gives the state at the second, inclusive."""
    history = fleet.history("čluster/2")
    found = states(history)
    draw = random.Random(7)
    for _ in range(3):
        after, until = sorted(draw.sample(range(history.end), 2))
        answer = history.changed(after=after, until=until)
        assert (answer.after_offset, answer.at_offset, answer.notes) == (after, until, ())
        rows = answer.rows.collect()
        assert [(row.offset, bytes(row.id)) for row in rows] == sorted(
            (row.offset, bytes(row.id)) for row in rows
        )
        state = dict(found[after])
        for row in rows:
            assert after < row.offset <= until
            acl_of = {
                side: None if row[side] is None else as_record(row[side].asDict() | {"id": row.id})
                for side in ("before", "after")
            }
            assert state.pop(Uuid(bytes(row.id)), None) == acl_of["before"]
            if acl_of["after"] is not None:
                state[Uuid(bytes(row.id))] = acl_of["after"]
        assert state == found[until]


@pytest.mark.long
def test_acls_in_force_at_a_time_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """After the last record that is not later; before the first one nothing was, and later nobody knows."""
    log_directory = tmp_path / "log"
    write(
        log_directory,
        [[acl(1)], [acl(2), acl(1, host="10.0.0.1")], [RemoveAccessControlEntryRecord(acl_id(2))]],
    )
    job = ChangesJob(spark, tmp_path, [log_directory])
    job.run()
    history = job.history()
    hours = [BEGIN_MS / 1000 + 7 * 3_600 * at for at in range(3)]

    def at(seconds: float) -> tuple[int, list[str]]:
        answer = history.in_force(at_time=datetime.fromtimestamp(seconds, UTC))
        return answer.at_offset, sorted(f"{row.resource_name} {row.host}" for row in answer.rows.collect())

    assert at(hours[0] - 0.001) == (-1, [])
    assert at(hours[0]) == (0, ["t-1 *"])
    assert at(hours[1] - 0.001) == (0, ["t-1 *"])
    assert at(hours[1]) == (2, ["t-1 10.0.0.1", "t-2 *"])
    assert at(hours[2] + 3_600) == (3, ["t-1 10.0.0.1"])
    (ended,) = history.in_force(at_offset=0).rows.collect()
    assert (ended.valid_from_offset, ended.valid_to_offset) == (0, 2)
    (began, closed) = (
        history.intervals()
        .where("valid_to_offset IS NOT NULL")
        .select(F.unix_millis("valid_from_time").alias("from"), F.unix_millis("valid_to_time").alias("to"))
        .orderBy("to")
        .collect()
    )
    assert (began["from"], began["to"]) == (BEGIN_MS, BEGIN_MS + 7 * 3_600_000)
    assert (closed["from"], closed["to"]) == (BEGIN_MS + 7 * 3_600_000, BEGIN_MS + 14 * 3_600_000)
    by_time = history.changed(
        after=datetime.fromtimestamp(hours[0], UTC), until=datetime.fromtimestamp(hours[1], UTC)
    )
    assert (by_time.after_offset, by_time.at_offset) == (0, 2)
    assert {(row.offset, row.change) for row in by_time.rows.collect()} == {(1, "added"), (2, "replaced")}
    with pytest.raises(HistoryRangeError, match="run the job again"):
        history.in_force(at_time=datetime.now(UTC) + timedelta(days=1))
    with pytest.raises(HistoryRangeError, match="offset 4 is not in the history yet: its last one is 3"):
        history.in_force(at_offset=4)
    with pytest.raises(HistoryRangeError, match="it ends at offset 1, before 2"):
        history.changed(after=2, until=1)


@pytest.mark.long
def test_the_history_is_filtered_by_principal_and_resource(spark: SparkSession, tmp_path: Path) -> None:
    """Of ACLs in force and of changes: by what was before, or by what came after."""
    log_directory = tmp_path / "log"
    literal = acl(1, resource_name="orders")
    prefix = acl(2, resource_name="ord", pattern_type=4)
    star = acl(3, resource_name="*", principal="User:b")
    group = acl(4, resource_type=3, resource_name="orders")
    other = acl(5, resource_name="orders-2")
    moved = acl(5, resource_name="orders-2", principal="User:b")
    write(log_directory, [[literal, prefix, star, group, other], [moved]])
    job = ChangesJob(spark, tmp_path, [log_directory])
    job.run()
    history = job.history()
    now, rows = history.in_force().rows, history.changed().rows

    def ids(rows: DataFrame) -> list[int]:
        return sorted(int.from_bytes(row.id, "big") for row in rows.collect())

    assert ids(of_principal(now, "User:b")) == [3, 5]
    assert ids(of_principal(rows, "User:u5")) == [5, 5]
    assert ids(of_principal(rows, "User:b")) == [3, 5]
    assert ids(of_resource(now, "TOPIC", "orders")) == [1]
    assert ids(of_resource(now, "TOPIC", "ord", "PREFIXED")) == [2]
    assert ids(of_resource(now, "TOPIC", "ord", "LITERAL")) == []
    assert ids(covering_resource(now, "TOPIC", "orders")) == [1, 2, 3]
    assert ids(covering_resource(rows, "TOPIC", "orders-2")) == [2, 3, 5, 5]


def test_a_repeated_batch_is_stored_once(spark: SparkSession, tmp_path: Path) -> None:
    """Died before its manifest, or after it and before Spark's commit: the same files, and no more."""
    log_directory = tmp_path / "log"
    write(log_directory, list(random_batches(3, 20)))
    job = ChangesJob(spark, tmp_path, [log_directory])
    ranges = job.run(max_offsets=30)
    files, rows = job.files(), job.history().changes().collect()
    job.forget_commit()
    assert job.run(max_offsets=30) == []
    assert job.files() == files
    job.forget_commit()
    job.forget_state("c-1")
    # What was written counts only with its state.
    assert job.history().end == ranges[-1][0]
    assert job.history().changes().count() == sum(row.offset < ranges[-1][0] for row in rows)
    assert job.run(max_offsets=7) == ranges[-1:]
    assert job.files() == files
    assert job.history().changes().collect() == rows
    assert_is_history_of(job.history(), log_directory)


@pytest.mark.long
def test_a_new_checkpoint_continues_at_the_historys_end(spark: SparkSession, tmp_path: Path) -> None:
    """Also where a batch that never came to count was cut otherwise; what counts is never touched."""
    log_directory = tmp_path / "log"
    write(log_directory, list(random_batches(4, 20)))
    job = ChangesJob(spark, tmp_path, [log_directory])
    ranges = job.run(max_offsets=30)
    before = job.files()
    job.forget_state("c-1")
    shutil.rmtree(job.checkpoint)
    write(log_directory, list(random_batches(5, 5)))
    assert [start for start, _ in job.run()] == [ranges[-1][0]]
    after = job.files()
    unchanged = {path for path in before if int(Path(path).name[:20]) < ranges[-1][0]}
    assert unchanged
    assert {path: after[path] for path in unchanged} == {path: before[path] for path in unchanged}
    assert not {path for path in after if path in before and path not in unchanged}
    assert_is_history_of(job.history(), log_directory)
    shutil.rmtree(job.checkpoint)
    shutil.rmtree(job.output / "state")
    with pytest.raises(HistoryForeignError, match="start a new history with another output"):
        job.run()
    assert job.files() == after


@pytest.mark.long
def test_a_history_may_begin_with_a_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    """A node's, in the history's store: what was before it is refused, and said."""
    log_directory = tmp_path / "log"
    begin = write(log_directory, list(random_batches(6, 15)))
    job = ChangesJob(spark, tmp_path, [log_directory])
    with DirectoryLog.open(log_directory) as log:
        SnapshotStore(str(job.output / "state")).write(load_image(log).image, log.identity, log_end_time_ms=1)
    write(log_directory, list(random_batches(7, 15)))
    job.run()
    history = job.history()
    assert history.coverage.begin_offset == begin
    assert_is_history_of(history, log_directory)
    with DirectoryLog.open(log_directory) as log:
        image = load_image(log, at_offset=begin - 1).image
    assert records_of(history.in_force(at_offset=begin - 1).rows) == {
        each.record.id: each.record for each in image
    }
    with pytest.raises(HistoryRangeError, match=f"which begins with the state at {begin - 1}"):
        history.in_force(at_offset=begin - 2)


@pytest.mark.long
def test_another_log_in_its_place_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Its history would be mixed with the first one's: refused, with the way out."""
    log_directory = tmp_path / "log"
    write(log_directory, [[acl(1)]])
    job = ChangesJob(spark, tmp_path, [log_directory])
    job.run()
    coverage = job.output / "coverage" / "c-1.json"
    other: Mapping[str, object] = json.loads(coverage.read_bytes()) | {"topicId": "AAAAAAAAAAAAAAAAAAAAAg"}
    coverage.write_text(json.dumps(other))
    with pytest.raises(HistoryForeignError, match="has the history of topic id AAAAAAAAAAAAAAAAAAAAAg"):
        job.run()


@pytest.mark.long
def test_changes_are_sent_to_a_topic(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Each once, also where the batch comes again; the topic must be there."""
    log_directory = tmp_path / "log"
    write(log_directory, list(random_batches(8, 12)))
    job = ChangesJob(spark, tmp_path, [log_directory])
    topic = ChangeTopic(url=topic_url(broker, "changes"))
    with pytest.raises(LogNotFoundError, match="create it with Kafka's own tools"):
        job.run(to_topic=topic)
    name = new_feed_topic(broker, topic.url)
    job.run(to_topic=topic)
    write(log_directory, list(random_batches(9, 12)))
    job.run(to_topic=topic)
    job.forget_commit()
    job.forget_state("c-1")
    job.run(to_topic=topic)
    found = [(key, json.loads(value)) for _, key, value in feed_messages(broker, name)]
    rows = job.history().changes().collect()
    assert len(found) == len(rows) > 0
    by_key = {(value["offset"], value["id"]): (key, value) for key, value in found}
    for row in rows:
        acl_id_text = uuid_to_string(bytes(row.id))
        key, value = by_key[row.offset, acl_id_text]
        assert key == f"c-1/{acl_id_text}".encode()
        assert (value["clusterId"], value["topicId"]) == ("c-1", row.topic_id)
        assert (value["change"], value["timestampMs"]) == (row.change, row.timestamp_ms)
        for side in ("before", "after"):
            if row[side] is None:
                assert value[side] is None
            else:
                assert value[side]["principal"] == row[side].principal
                assert value[side]["host"] == row[side].host
                assert value[side]["offset"] == row[side].offset
                assert value[side]["permissionType"] == row[side].permission_type == "ALLOW"


@pytest.mark.long
def test_a_topic_has_a_history(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Every state, with a note where only a difference is known because the log was read again (I10)."""
    url = new_topic(broker)
    job = ChangesJob(spark, tmp_path, [])
    job.urls = [url]
    records: list[LogRecord] = []
    with closing(open_log(url, mode="write")) as log:
        for batches in (random_acls(11, 12), random_acls(12, 12)):
            for batch in batches:
                log.append(batch)
            job.run()
            # As if the job had been down for so long that the log may have forgotten removals.
            make_outdated(job)
        position = 0
        while read := log.read(position):
            records += [record for found in read for record in found.records]
            position = read[-1].end_offset
    history = job.history()
    assert history.end >= position
    (_, began_anew), _ = history.coverage.coarse
    for offset, there in states(history).items():
        if began_anew <= offset < history.end - 1:
            continue
        assert there == fold([each.record for each in records if each.offset <= offset]).acls  # type: ignore[misc]
    rows = history.changes().collect()
    assert len({(row.offset, bytes(row.id)) for row in rows}) == len(rows)
    begun = [since for since, _ in history.coverage.coarse]
    assert begun[0] == 0
    assert len(begun) == 2
    assert history.in_force().notes == ()
    (note,) = history.in_force(at_offset=3).notes
    assert note.startswith("the log is compacted, and this range was read after it was written")
    assert history.changed(after=3).notes == (note,)
    assert history.changed(after=history.end - 1).notes == ()
    job.run(access_analysis=SettingsAnalysis(AuthorizerSettings()))
    (covered,) = rows_of(job.output, "acl_coverage")
    ranges = tuple((each["from_offset"], each["until_offset"]) for each in covered["compacted_ranges"])
    assert ranges == job.history().coverage.coarse
    assert ranges[: len(begun) - 1] == history.coverage.coarse[:-1]


def random_acls(seed: int, count: int) -> Iterator[list[MetadataRecord]]:
    """The same without what only KRaft has."""
    for batch in random_batches(seed, count):
        acls: list[MetadataRecord] = [
            record
            for record in batch
            if isinstance(record, AccessControlEntryRecord | RemoveAccessControlEntryRecord)
        ]
        if acls:
            yield acls


def make_outdated(job: ChangesJob) -> None:
    store = SnapshotStore(str(job.output / "state"))
    (cluster_id,) = store.clusters()
    manifest = store.survey(cluster_id)[-1].manifest
    assert manifest is not None
    store._storage.put(manifest.ref.file("manifest.json"), replace(manifest, log_end_time_ms=0).to_json())
