"""Errors of the snapshot layer, below AclogError of records.errors.

SnapshotError
+-- SnapshotMissingError      no (usable) snapshot where one was asked for
+-- SnapshotCorruptError      a snapshot whose parts do not fit its manifest, or that has no manifest
+-- SnapshotUnsupportedError  a snapshot in a newer format than this build knows
+-- SnapshotForeignError      a snapshot of another log (cluster id, topic id), or beyond this one's end (I9)
+-- SnapshotRefusedError      writing this snapshot would freeze a wrong state (I13)
+-- SnapshotStoreMissingError      the store itself is not there: no such directory, no such bucket
+-- SnapshotStoreUnavailableError  a store elsewhere that does not answer, or does not let us in

SparkJobError                 a job failed, or cannot start
+-- SparkJarsError            the jars that it needs are not there and cannot be had
+-- PlotUnsupportedError      a picture that cannot be drawn here: its format, or no matplotlib
+-- CheckpointForeignError    a checkpoint of other logs than those that the job is to follow (I9)

HistoryError                  something about the history of a log's changes
+-- HistoryMissingError       there is none of this cluster, or none at all
+-- HistoryRangeError         an offset or time that it does not cover
+-- HistoryForeignError       it is of another log, or does not fit the state beside it
"""

from __future__ import annotations

from records.errors import AclogError


class SnapshotError(AclogError):
    """Something is wrong with a stored snapshot."""


class SnapshotMissingError(SnapshotError):
    """There is no usable snapshot."""


class SnapshotCorruptError(SnapshotError):
    """A snapshot that does not hold what its manifest says, or is unfinished."""


class SnapshotUnsupportedError(SnapshotError):
    """A snapshot in a newer format than this build knows; nothing says that it is damaged."""


class SnapshotForeignError(SnapshotError):
    """A snapshot of another log, or one that ends beyond this log's end."""


class SnapshotRefusedError(SnapshotError):
    """A snapshot that must not be written: the state is wrong, or differs from a stored one."""


class SnapshotStoreMissingError(SnapshotError):
    """There is no such store: no such directory, or on an object store no such bucket."""


class SnapshotStoreUnavailableError(SnapshotError):
    """A store on another machine that does not answer, does not let us in, or fails."""


class SparkJobError(AclogError):
    """A Spark job failed, or cannot start."""


class SparkJarsError(SparkJobError):
    """Jars that are not there and cannot be had, or are not the ones that were reviewed."""


class SparkBusyError(SparkJobError):
    """The machine was too busy for Spark; nothing is wrong with a log, or with what is stored."""


class PlotUnsupportedError(SparkJobError):
    """A picture in a format that cannot be drawn, or nothing to draw it with; found before the job starts."""


class CheckpointForeignError(SparkJobError):
    """A checkpoint that belongs to other logs than those that the job is to follow."""


class HistoryError(AclogError):
    """Something is wrong with a history of changes, or with what it is asked for."""


class HistoryMissingError(HistoryError):
    """There is no such history."""


class HistoryRangeError(HistoryError):
    """An offset or a time that the history does not cover."""


class HistoryForeignError(HistoryError):
    """A history of another log, or one that its own state does not reach."""
