"""Errors of snapshots, Spark jobs and histories, below AclogError of records.errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from records.errors import AclogError

if TYPE_CHECKING:
    from collections.abc import Mapping


class SnapshotError(AclogError):
    """Base of errors about stored snapshots."""


class SnapshotMissingError(SnapshotError):
    """The store has no usable snapshot."""


class SnapshotCorruptError(SnapshotError):
    """The snapshot's parts do not match its manifest, or it has no manifest."""


class SnapshotUnsupportedError(SnapshotError):
    """The snapshot has a newer format than this build knows; it is not necessarily damaged."""


class SnapshotForeignError(SnapshotError):
    """The snapshot belongs to another log (cluster id, topic id), or ends beyond this log's end."""


class SnapshotRefusedError(SnapshotError):
    """The snapshot must not be written: the state is wrong, or differs from a stored one."""


class SnapshotStoreMissingError(SnapshotError):
    """The store does not exist: no such directory, or no such bucket."""


class SnapshotStoreUnavailableError(SnapshotError):
    """A store on another machine does not answer, denies access, or fails."""


class SparkJobError(AclogError):
    """A Spark job failed, or cannot start."""


class SparkArchiveError(SparkJobError):
    """An archive of packages cannot be made or read, or does not fit the driver."""


class SparkConnectError(SparkJobError):
    """A Spark Connect server cannot be reached."""


class SparkJarsError(SparkJobError):
    """Jars are missing and cannot be fetched, or have other checksums than the reviewed ones."""


class SparkBusyError(SparkJobError):
    """The machine was too busy for Spark; logs and stored data are intact."""


class PlotUnsupportedError(SparkJobError):
    """The format cannot be drawn, or matplotlib is missing; found before the job starts."""


class CheckpointForeignError(SparkJobError):
    """The checkpoint belongs to other logs than those that the job follows."""


class CheckpointClaimedError(SparkJobError):
    """Another job uses the checkpoint or the output, or has taken it over."""


class LogsFailedError(SparkJobError):
    """Some logs of a job failed, and the job continues with the others.

    Attributes:
        failures: the text of each error, by cluster id, or by topic where that is not known.
    """

    def __init__(self, failures: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {text}" for name, text in sorted(failures.items())))
        self.failures = dict(failures)


class HistoryError(AclogError):
    """Base of errors about a history of changes."""


class HistoryMissingError(HistoryError):
    """The store has no history of this cluster, or none at all."""


class HistoryRangeError(HistoryError):
    """The history does not cover the offset or time."""


class HistoryQueryError(HistoryError):
    """A query of the history's tables is not valid."""


class HistoryForeignError(HistoryError):
    """The history belongs to another log, or does not match its stored state."""
