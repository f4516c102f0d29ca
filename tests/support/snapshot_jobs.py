"""A snapshots job on real Spark; each batch is compared with the naive fold of its log."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from records.log.directory import DirectoryLog
from replay.load_image import load_image
from snapshot.digest import digest_to_string
from snapshot.jobs.running.job import BatchReport, JobSettings, LogReport
from snapshot.jobs.snapshots_job import run_snapshots
from snapshot.jobs.sources.logs import resolve_logs
from snapshot.store.layout import SnapshotRef
from snapshot.store.manifest import SnapshotManifest
from snapshot.store.snapshot_store import SnapshotStore
from support.snapshots import contents


class SnapshotsJob:
    """A job that is started several times on one checkpoint and store.

    Attributes:
        checkpoint: Spark's.
        store: the store of its snapshots.
        reports: of the last run.
    """

    def __init__(self, spark: SparkSession, home: Path, directories: Sequence[Path], **settings: Any) -> None:
        self.checkpoint = home / "checkpoint"
        self.store = SnapshotStore(home / "store")
        self.reports: list[BatchReport] = []
        self._reported = threading.Condition()
        self._spark = spark
        self._directories = {str(directory): directory for directory in directories}
        self._settings = {"store": self.store.url, "checkpoint": f"file://{self.checkpoint}"} | settings

    def settings(self) -> JobSettings:
        logs = tuple(resolve_logs([f"file:{directory}" for directory in self._directories]))
        return JobSettings(logs=logs, **self._settings)

    def run(self, **changed: Any) -> list[tuple[int, int]]:
        """Process all records and compare every batch; returns (start, end) of each log's batches."""
        self.reports = []
        settings = replace(self.settings(), **changed)
        urls = {log.identity.cluster_id: log.url for log in settings.logs}

        def on_batch(report: BatchReport) -> None:
            for log in report.logs:
                self._compare(urls[log.cluster_id], log)
            with self._reported:
                self.reports.append(report)
                self._reported.notify_all()

        run_snapshots(self._spark, settings, on_batch)
        return self.ranges

    @property
    def logs(self) -> list[LogReport]:
        """The reports of the last run, by log."""
        return [log for report in self.reports for log in report.logs]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """(start, end) of each log's batches in the last run."""
        return [(log.start, log.end) for log in self.logs]

    def wait_until(self, end: int, timeout_s: float) -> bool:
        """Whether a batch that ends there, or later, was compared in time; from another thread than `run`."""
        with self._reported:
            return self._reported.wait_for(lambda: any(log.end >= end for log in self.logs), timeout_s)

    def manifests(self) -> list[SnapshotManifest]:
        """The manifests of all stored snapshots, oldest first; each must be complete."""
        found = []
        for cluster_id in self.store.clusters():
            for status in self.store.survey(cluster_id):
                assert status.manifest is not None, status
                assert self.store.verify(status.ref) == ()
                found.append(status.manifest)
        return found

    def forget_commit(self, batch_id: int) -> None:
        """Undo Spark's commit of the batch, as after a crash before it."""
        for name in (f"{batch_id}", f".{batch_id}.crc"):
            (self.checkpoint / "commits" / name).unlink()

    @property
    def writer(self) -> str:
        """The writer's name in the names of its files."""
        return str(json.loads((self.checkpoint / "aclog-job.json").read_text())["writer"])

    def directory_of(self, ref: SnapshotRef) -> Path:
        return Path(self.store.url) / ref.directory

    def _compare(self, url: str, log: LogReport) -> None:
        """The stored snapshot must equal the one that a node would have stored."""
        with DirectoryLog.open(url) as opened:
            expected = load_image(opened, at_offset=log.end - 1).image
            identity = opened.identity
        ref = SnapshotRef(cluster_id=log.cluster_id, epoch=expected.provenance.epoch, end_offset=log.end)
        stored = self.store.read(ref, identity)
        manifest = stored.manifest
        assert manifest.provenance == expected.provenance
        assert (manifest.count, manifest.digest) == (len(expected), expected.digest)
        assert (log.count, log.digest) == (len(expected), digest_to_string(expected.digest))
        assert stored.image.metadata == expected.metadata
        assert manifest.count_by_resource_type == expected.merged().columns.count_by_resource_type()
        assert manifest.is_exact
        assert contents(stored.image) == contents(expected)
        assert self.store.verify(ref, identity) == ()
