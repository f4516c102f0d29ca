"""Workspace: the configuration, log and snapshot store that a command's options name, and the state.

Also the notes about a state, on stderr: guesses, and snapshots that were skipped. Every command imports this
module for its help, so functions import what opens and replays a log.
"""

from __future__ import annotations

import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import click

from authorizer.api.kafka_version import KAFKA_VERSION_CONFIG
from authorizer.cli.invocation import given
from authorizer.cli.rendering.output import Progress, Waiting, note, shown
from authorizer.configuration.keys.names import COMMAND_CONFIG, LOG_URL, SNAPSHOT_STORE
from authorizer.configuration.keys.table import BY_NAME
from records.entries import AclRecord
from records.errors import LogStorageError
from records.log.base import read_with_retry
from records.log.open import open_log
from records.log.url import POLLED, QUORUM, TOPIC, parse_bootstrap_servers
from records.polling import poll_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from authorizer.configuration.load import Config
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.log.base import MetadataLog, Mode, TrailingBytes
    from replay.load_image import LoadResult
    from replay.snapshot_source import SnapshotSource
    from snapshot.store.snapshot_store import SnapshotStore
    from snapshot.store.stored import SkippedSnapshot

_NO_FLAGS: Final[Mapping[str, str | None]] = MappingProxyType({})
#: Readers see a commit within milliseconds; a command waits at most this long for it.
_READABLE_TIMEOUT_S: Final = 5.0
_POLL_INTERVAL_S: Final = 0.01
#: What begins the log's URL, by the option that names the rest.
_LOG_FORMS: Final = {
    "--log": "",
    "--bootstrap-server": f"{POLLED}://",
    "--bootstrap-controller": f"{QUORUM}://",
}


@dataclass(frozen=True, slots=True)
class Workspace:
    """A log and perhaps a snapshot store, not opened yet.

    ``is_store_from_option``: whether --snapshots named the store, rather than a file for several commands.
    """

    config: Config
    is_store_from_option: bool = False

    @classmethod
    def given(cls, flags: Mapping[str, str | None] = _NO_FLAGS, *, is_node: bool = False) -> Workspace:
        """From the options of the running command.

        Args:
            flags: its other settings, by key.
            is_node: whether it runs a node, whose log names the keys without effect.
        """
        from authorizer.configuration.load import load_config

        named = {
            LOG_URL: _log_url(),
            COMMAND_CONFIG: given("--command-config"),
            SNAPSHOT_STORE: given("--snapshots"),
            KAFKA_VERSION_CONFIG: given("--as"),
            **flags,
        }
        config = load_config(given("--config"), flags=named)
        if config.unused_client_keys and not is_node:
            note(f"{config.command_config}: {', '.join(config.unused_client_keys)}: no effect in aclog")
        note(*config.file_notes())
        return cls(config, is_store_from_option=given("--snapshots") is not None)

    @contextmanager
    def log(self, mode: Mode = "read") -> Iterator[MetadataLog]:
        url = self.log_url if mode == "read" else self.writable_log_url
        with Waiting(f"opening {shown(url)}"):
            opened = open_log(url, mode=mode, client=self.config.kafka)
        with closing(opened) as log:
            yield log

    @property
    def log_url(self) -> str:
        """URL of the log to read; click.UsageError without one."""
        if self.config.log_url is None and self.config.broker_log is None:
            raise click.UsageError(_missing("--log", LOG_URL))
        return self.config.require_log_url()

    @property
    def writable_log_url(self) -> str:
        """URL of the log to write; a broker's log directory is read-only."""
        if self.config.log_url is None and self.config.broker_log is not None:
            key = self.config.broker_log.key
            raise click.UsageError(
                f"{_missing('--log', LOG_URL)} The broker's log, which {key} names, is read-only."
            )
        return self.log_url

    def store(self) -> SnapshotStore:
        """The snapshot store, which may not exist yet."""
        from snapshot.store.snapshot_store import SnapshotStore

        if self.config.snapshot_store is None:
            raise click.UsageError(_missing("--snapshots", SNAPSHOT_STORE))
        return SnapshotStore(self.config.snapshot_store)

    def store_to_read(self) -> SnapshotStore:
        """The snapshot store; SnapshotStoreMissingError if it does not exist."""
        store = self.store()
        store.require()
        return store

    def max_removed_percent(self, given: int | None) -> int:
        return self.config.plan_max_removed_percent if given is None else given

    def state(
        self, log: MetadataLog, *, at_offset: int | None = None, with_offsets: bool = False
    ) -> LoadResult:
        """The state at the high watermark, or after the record at ``at_offset``; with notes."""
        return load_noted_state(log, self.sources(), at_offset=at_offset, with_offsets=with_offsets)

    def settings(self, *, is_own: bool) -> AuthorizerSettings:
        """Settings of the authorizer; ``is_own``: the log is aclog-managed: no broker decides by its ACLs."""
        from authorizer.engine.decisions.state import AuthorizerSettings

        of_brokers = not is_own and self.config.broker_log is None
        return AuthorizerSettings.from_configs(self.config.properties, of_brokers=of_brokers)

    def sources(self) -> list[SnapshotSource]:
        """The store, if one is named.

        A store that a file names may not exist yet: a node creates it with its first snapshot.
        """
        if self.config.snapshot_store is None:
            return []
        from replay.snapshot_source import StoredSnapshots

        return [StoredSnapshots(self.store_to_read() if self.is_store_from_option else self.store())]


def load_noted_state(
    log: MetadataLog,
    snapshots: Sequence[SnapshotSource],
    *,
    at_offset: int | None = None,
    with_offsets: bool = False,
) -> LoadResult:
    """As ``load_state``, with notes: uncommitted changes; of the newest state also trailing bytes and age."""
    note_guess(log, at_offset)
    # Before loading: trailing bytes that turn out to be damage are an error of the load, not a note.
    trailing = log.trailing_bytes() if at_offset is None else None
    result = load_state(log, snapshots, at_offset=at_offset, with_offsets=with_offsets)
    if at_offset is None:
        note_trailing(trailing)
        _note_age(log)
    return result


def load_state(
    log: MetadataLog,
    snapshots: Sequence[SnapshotSource] = (),
    *,
    at_offset: int | None = None,
    with_offsets: bool = False,
) -> LoadResult:
    """Load a state from the newest snapshot, a checkpoint in the log's directory, or the log's start.

    Args:
        log: open.
        snapshots: sources in addition to the checkpoints in the log's directory.
        at_offset: load the state after this record.
        with_offsets: use no checkpoint, which has no offsets of ACLs, if the log has its beginning.
    """
    from replay.load_image import load_image
    from replay.snapshot_source import CheckpointFiles

    sources = [*snapshots, CheckpointFiles(log, only_if_trimmed=with_offsets)]
    with Progress("offsets") as shown_progress:
        result = load_image(log, sources, at_offset=at_offset, on_progress=shown_progress.at)
    for refused in result.refused:
        note(f"{refused} (skipped)")
    return result


def wait_until_readable(log: MetadataLog, end_offset: int) -> None:
    """Wait until readers see the records below ``end_offset``, so that the next command reads them.

    In a topic, a commit succeeds shortly before the transaction marker that readers wait for.
    """
    deadline_s = time.monotonic() + _READABLE_TIMEOUT_S
    with suppress(LogStorageError):  # the write has succeeded, even if the cluster is now unreachable
        is_readable = poll_until(lambda: log.high_watermark() >= end_offset, _POLL_INTERVAL_S, deadline_s)
        if not is_readable and (transaction := log.open_transaction()) is not None:
            note(f"the change is written, but readers cannot see it yet: {transaction}")


def has_beginning(log: MetadataLog) -> bool:
    """Whether a log gives its state without a snapshot store: from offset 0 or a checkpoint next to it."""
    return log.start_offset() == 0 or bool(log.checkpoints())


def note_guess(log: MetadataLog, at_offset: int | None = None) -> None:
    """Print a note if ACLs of the state at ``at_offset``, or the newest, may be uncommitted."""
    high_watermark = log.high_watermark()
    end_offset = high_watermark if at_offset is None else at_offset + 1
    position = end_offset if log.uncommitted_from is None else log.uncommitted_from
    while position < end_offset and (batches := read_with_retry(log, position)):
        for logged in chain.from_iterable(batch.records for batch in batches):
            if position <= logged.offset < end_offset and isinstance(logged.record, AclRecord):
                note(
                    f"{log.url} is a broker's directory and does not say whether the changes of ACLs "
                    f"from offset {logged.offset} on are committed; they count here. With "
                    "aclog.kafka.bootstrap.servers aclog asks the brokers"
                )
                return
        position = batches[-1].end_offset


def _note_age(log: MetadataLog) -> None:
    freshness = log.freshness()
    if freshness is not None and freshness.error is not None:
        note(f"these are stored ACLs of {_ago(freshness.age_ms)}: {freshness.error}")


def _ago(age_ms: int | None) -> str:
    return "an unknown time" if age_ms is None else f"{age_ms / 1000:.0f} s ago"


def note_trailing(trailing: TrailingBytes | None) -> None:
    """Print a note if a log ended with an incomplete batch, not being written, before it was read."""
    if trailing is not None and not trailing.is_being_written:
        note(f"{described(trailing)}; they are ignored, and the state is the one before this offset")


def described(trailing: TrailingBytes) -> str:
    """Text about the bytes after the last complete batch."""
    writing = "they are being written" if trailing.is_being_written else "they are not being written"
    return (
        f"{trailing.path}: its last {trailing.size_bytes} bytes, from byte {trailing.position} on, where "
        f"offset {trailing.offset} would be, are no complete batch, and {writing}"
    )


def note_skipped(skipped: SkippedSnapshot) -> None:
    """Print a note about a snapshot that could not be used."""
    note(f"snapshot {skipped.ref.name} was skipped: {skipped.error}")


def is_log(url: str) -> bool:
    """Whether a URL names a log rather than a snapshot store, by its scheme or the files at its path."""
    if url.lower().startswith((f"{TOPIC}://", f"{QUORUM}://", f"{POLLED}://")):
        return True
    directory = Path(url.removeprefix("file:"))
    return (directory / "aclog.properties").exists() or any(directory.glob("*.log"))


def _log_url() -> str | None:
    """The log that --log, --bootstrap-server or --bootstrap-controller names; --log first."""
    urls = {flag: f"{form}{servers}" for flag, form in _LOG_FORMS.items() if (servers := given(flag))}
    for flag in urls:
        if flag != "--log":  # also beside --log, which names the directory of these brokers
            servers = given(flag)
            parse_bootstrap_servers(f"{flag} {servers}", servers, f"{flag} HOST:PORT[,HOST:PORT...]")
    return next(iter(urls.values()), None)


def _missing(flag: str, key: str) -> str:
    return f"Missing option '{flag}'. (Or set {key} in --config, or {BY_NAME[key].variable}.)"
