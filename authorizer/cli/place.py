"""What a command works on: the log and the snapshot store that flags, environment and file name, and the state.

Also the notes that go with a state: what was a guess, and which snapshots were passed over (stderr).
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from authorizer.cli.output import note
from authorizer.config import Config, load_config
from authorizer.config_keys import BY_NAME, LOG_URL, SNAPSHOT_STORE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from records.log.base import MetadataLog
    from replay.load import LoadResult
    from snapshot.store import SnapshotStore


@dataclass(frozen=True, slots=True)
class Place:
    """A log and perhaps a snapshot store, not opened yet."""

    config: Config

    @classmethod
    def named(
        cls, *, config_file: str | None, log_url: str | None = None, snapshots_url: str | None = None
    ) -> Place:
        """Flags over the environment over the file.

        Raises:
            ConfigError: a file that cannot be read, or a value that is not allowed.
        """
        return cls(load_config(config_file, flags={LOG_URL: log_url, SNAPSHOT_STORE: snapshots_url}))

    @contextmanager
    def log(self, mode: str = "read") -> Iterator[MetadataLog]:
        """The log, open."""
        if self.config.log_url is None:
            raise click.UsageError(_missing("--log", LOG_URL))
        from records.log.open import open_log

        with closing(open_log(self.config.log_url, mode=mode)) as log:
            yield log

    @property
    def has_store(self) -> bool:
        return self.config.snapshot_store is not None

    def store(self) -> SnapshotStore:
        """The snapshot store."""
        if self.config.snapshot_store is None:
            raise click.UsageError(_missing("--snapshots", SNAPSHOT_STORE))
        from snapshot.store import SnapshotStore

        return SnapshotStore(self.config.snapshot_store)

    def state(self, log: MetadataLog, *, at_offset: int | None = None) -> LoadResult:
        """The state at the high watermark, or after the record at ``at_offset``."""
        ...


def _missing(flag: str, key: str) -> str:
    return f"Missing option '{flag}'. (Or set {key} in --config, or {BY_NAME[key].variable}.)"
