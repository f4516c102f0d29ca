"""Errors of the snapshot layer, below AclogError of records.errors.

SnapshotError
+-- SnapshotMissingError      no (usable) snapshot where one was asked for
+-- SnapshotCorruptError      a snapshot whose parts do not fit its manifest, or that has no manifest
+-- SnapshotUnsupportedError  a snapshot in a newer format than this build knows
+-- SnapshotForeignError      a snapshot of another log (cluster id, topic id), or beyond this one's end (I9)
+-- SnapshotRefusedError      writing this snapshot would freeze a wrong state (I13)
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
