"""What a command works on: the configuration, the log and the snapshot store that it names, and the state.

Also the notes that go with a state, on stderr: what was a guess, and which snapshots were passed over. Every
command imports this module for its options and its help; what opens and replays a log comes with the
functions that do that.
"""

from __future__ import annotations

import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import click

from authorizer.api.kafka_version import KAFKA_VERSION_CONFIG
from authorizer.cli.invocation import given
from authorizer.cli.rendering.output import Progress, Waiting, note, shown
from authorizer.configuration.keys.names import LOG_URL, SNAPSHOT_STORE
from authorizer.configuration.keys.table import BY_NAME
from records.errors import LogStorageError
from records.log.open import POLLED, QUORUM, TOPIC, open_log
from records.polling import poll_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from authorizer.configuration.load import Config
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.log.base import MetadataLog, TrailingBytes
    from records.log.directory.log import Mode
    from replay.load_image import LoadResult
    from replay.snapshot_source import SnapshotSource
    from snapshot.store.snapshot_store import SnapshotStore
    from snapshot.store.stored import SkippedSnapshot

_NO_FLAGS: Final[Mapping[str, str | None]] = MappingProxyType({})
#: What was committed can be read within milliseconds; a command waits for it no longer than this.
_READABLE_TIMEOUT_S: Final = 5.0
_POLL_INTERVAL_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Workspace:
    """A log and perhaps a snapshot store, not opened yet.

    Attributes:
        config: says which.
        is_store_from_option: the store was named for this one command, and not in a file for all of them.
    """

    config: Config
    is_store_from_option: bool = False

    @classmethod
    def given(cls, flags: Mapping[str, str | None] = _NO_FLAGS) -> Workspace:
        """As --log, --snapshots and --config of the running command say; ``flags``: others of its, by key.

        Raises:
            ConfigError: a file that cannot be read, or a value that is not allowed.
        """
        from authorizer.configuration.load import load_config

        named = {
            LOG_URL: given("--log"),
            SNAPSHOT_STORE: given("--snapshots"),
            KAFKA_VERSION_CONFIG: given("--as"),
            **flags,
        }
        config = load_config(given("--config"), flags=named)
        return cls(config, is_store_from_option=given("--snapshots") is not None)

    @contextmanager
    def log(self, mode: Mode = "read") -> Iterator[MetadataLog]:
        """The log, open."""
        url = self.log_url if mode == "read" else self.writable_log_url
        with Waiting(f"looking at {shown(url)}"):
            opened = open_log(url, mode=mode, client=self.config.kafka)
        with closing(opened) as log:
            yield log

    @property
    def log_url(self) -> str:
        """The log's URL, to read it; click.UsageError if none is named."""
        if self.config.log_url is None and self.config.broker_log is None:
            raise click.UsageError(_missing("--log", LOG_URL))
        return self.config.require_log_url()

    @property
    def writable_log_url(self) -> str:
        """The log's URL, to write to it: that of a broker's own file is not meant."""
        if self.config.log_url is None and self.config.broker_log is not None:
            key = self.config.broker_log.key
            raise click.UsageError(
                f"{_missing('--log', LOG_URL)} The broker's log, which {key} names, is only read."
            )
        return self.log_url

    def store(self) -> SnapshotStore:
        """The snapshot store, which need not be there yet."""
        from snapshot.store.snapshot_store import SnapshotStore

        if self.config.snapshot_store is None:
            raise click.UsageError(_missing("--snapshots", SNAPSHOT_STORE))
        return SnapshotStore(self.config.snapshot_store)

    def store_to_read(self) -> SnapshotStore:
        """The snapshot store; SnapshotStoreMissingError if there is none."""
        store = self.store()
        store.require()
        return store

    def max_removed_percent(self, given: int | None) -> int:
        """The largest share of the ACLs that a plan may remove: as a command says it, or the settings."""
        return self.config.plan_max_removed_percent if given is None else given

    def state(
        self, log: MetadataLog, *, at_offset: int | None = None, with_offsets: bool = False
    ) -> LoadResult:
        """The state at the high watermark, or after the record at ``at_offset``; with notes."""
        note_guess(log)
        result = load_state(log, self.sources(), at_offset=at_offset, with_offsets=with_offsets)
        if at_offset is None:
            note_trailing(log)
            note_age(log)
        return result

    def settings(self, *, is_own: bool) -> AuthorizerSettings:
        """Those of the configuration.

        ``is_own``: the ACLs are of a log of aclog's own. By others a cluster's brokers decide, too.
        """
        from authorizer.engine.decisions.state import AuthorizerSettings

        of_brokers = not is_own and self.config.broker_log is None
        return AuthorizerSettings.from_configs(self.config.properties, of_brokers=of_brokers)

    def sources(self) -> list[SnapshotSource]:
        """The store, if one is named.

        What a file names for all commands may not be there yet: a node makes it with its first snapshot.

        Raises:
            SnapshotStoreMissingError, SnapshotStoreUnavailableError: what the user asks for is not to be had.
        """
        if self.config.snapshot_store is None:
            return []
        from replay.snapshot_source import StoredSnapshots

        return [StoredSnapshots(self.store_to_read() if self.is_store_from_option else self.store())]


def load_state(
    log: MetadataLog,
    snapshots: Sequence[SnapshotSource] = (),
    *,
    at_offset: int | None = None,
    with_offsets: bool = False,
) -> LoadResult:
    """The same for any log and stores: from the newest snapshot, a checkpoint beside the log, or its start.

    Args:
        log: open.
        snapshots: where there may be some; checkpoints beside the log are looked for anyway.
        at_offset: the last record that counts, inclusive.
        with_offsets: do without checkpoints, in which ACLs have lost their offsets, if the log reaches back
            far enough.
    """
    from replay.load_image import load_image
    from replay.snapshot_source import CheckpointFiles

    sources = [*snapshots, CheckpointFiles(log, only_if_trimmed=with_offsets)]
    with Progress("offsets") as shown_progress:
        result = load_image(log, sources, at_offset=at_offset, on_progress=shown_progress.at)
    for refused in result.refused:
        note(f"note: {refused} (passed over)")
    return result


def wait_until_readable(log: MetadataLog, end_offset: int) -> None:
    """Wait until others can read what was appended below ``end_offset``: a moment, where the log is a topic.

    A commit is answered before the marker is in the log that readers wait for, and the next command is to
    find what this one wrote.
    """
    deadline_s = time.monotonic() + _READABLE_TIMEOUT_S
    with suppress(LogStorageError):  # it is written, though the cluster is away now
        is_readable = poll_until(lambda: log.high_watermark() >= end_offset, _POLL_INTERVAL_S, deadline_s)
        if not is_readable and (transaction := log.open_transaction()) is not None:
            note(f"note: it is written, and cannot be read yet: {transaction}")


def has_beginning(log: MetadataLog) -> bool:
    """Whether a log leads to its state by itself: from its first record, or from a checkpoint beside it."""
    return log.start_offset() == 0 or bool(log.checkpoints())


def note_guess(log: MetadataLog) -> None:
    """Say so, if the high watermark is one."""
    end_offset, certain_end = log.high_watermark(), log.uncommitted_from
    if certain_end is not None:
        note(
            f"note: {log.url} is a broker's directory and does not say what is committed; its last whole "
            f"batch, before offset {end_offset}, is taken as committed, which is certain up to {certain_end} "
            "alone (aclog.kafka.bootstrap.servers: the brokers are asked)"
        )


def note_age(log: MetadataLog) -> None:
    """Say how old the state is, if its cluster could not be asked."""
    freshness = log.freshness()
    if freshness is not None and freshness.error is not None:
        note(f"note: these are the ACLs of {_ago(freshness.age_ms)}, which were kept: {freshness.error}")


def _ago(age_ms: int | None) -> str:
    return "an unknown time" if age_ms is None else f"{age_ms / 1000:.0f} s ago"


def note_trailing(log: MetadataLog) -> None:
    """Say that a log ends with something that does not count, and will not."""
    trailing = log.trailing_bytes()
    if trailing is not None and not trailing.is_being_written:
        note(f"note: {described(trailing)}; they do not count, and the state is that before this offset")


def described(trailing: TrailingBytes) -> str:
    """What stands behind the last whole batch, for people."""
    who = "they are being written" if trailing.is_being_written else "they are not being written"
    return (
        f"{trailing.path}: its last {trailing.size_bytes} bytes, from byte {trailing.position} on, where "
        f"offset {trailing.offset} would be, are no whole batch, and {who}"
    )


def note_skipped(skipped: SkippedSnapshot) -> None:
    """A snapshot that could not be used."""
    note(f"note: snapshot {skipped.ref.name} was passed over: {skipped.error}")


def is_log(url: str) -> bool:
    """Whether a URL names a log rather than a snapshot store: by its scheme, else by the files there."""
    if url.lower().startswith((f"{TOPIC}://", f"{QUORUM}://", f"{POLLED}://")):
        return True
    directory = Path(url.removeprefix("file:"))
    return (directory / "aclog.properties").exists() or any(directory.glob("*.log"))


def _missing(flag: str, key: str) -> str:
    return f"Missing option '{flag}'. (Or set {key} in --config, or {BY_NAME[key].variable}.)"
