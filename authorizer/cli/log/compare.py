"""Compares a log's state with another log, a store's newest snapshot or a running node, at one offset.

A log with gaps (compaction, transaction markers) has a known state at its end, and seldom before it (I6). If
the state at a snapshot's end is unknown, the snapshot is continued to the log's end and compared there. If
the state at a node's offset is unknown, the node is polled until its offset has a known state.
"""

from __future__ import annotations

import shlex
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import click

from authorizer.cli.acl_sources.named_acls import split_offset
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.invocation import log_words
from authorizer.cli.rendering.acls import LABEL, Differences
from authorizer.cli.rendering.output import Waiting, answer, note, shown
from authorizer.cli.rendering.terminal import bad, good
from authorizer.cli.sidecar import is_node, node_state
from authorizer.cli.workspace import has_beginning, is_log, load_state, note_skipped
from records.ids import uuid_to_string
from records.log.open import open_log
from replay.core import LOG_START
from replay.errors import OffsetUnavailableError
from replay.load_image import load_image
from replay.snapshot_source import StoredSnapshots
from snapshot.digest import digest_to_string
from snapshot.errors import SnapshotMissingError
from snapshot.files.kraft_checkpoint import read_checkpoint
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from authorizer.api.http.answers.node import NodeState
    from records.log.base import LogIdentity, MetadataLog
    from replay.snapshot_source import SnapshotOffer, SnapshotSource
    from snapshot.store.layout import SnapshotRef
    from snapshot.store.snapshot_store import SnapshotStore
    from snapshot.store.stored import StoredSnapshot

#: Differences of each kind that are printed.
_SHOWN: Final = 10
#: How long two sources that advance are polled until they are at one offset, and the poll interval.
_TIMEOUT_S: Final = 30.0
_POLL_INTERVAL_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two states: at one offset of one log, or at the ends of two logs.

    Attributes:
        end_offset, other_end_offset: of the two states.
        digest, other_digest: of all their ACLs (I12).
        differences: ACL by ACL; None if only the digest of the other source is known.
    """

    other: str
    end_offset: int
    other_end_offset: int
    digest: str
    other_digest: str
    differences: Differences | None

    @classmethod
    def of(cls, other: str, here: AclsImage, there: AclsImage) -> Self:
        return cls(
            other=other,
            end_offset=here.provenance.end_offset,
            other_end_offset=there.provenance.end_offset,
            digest=digest_to_string(here.digest),
            other_digest=digest_to_string(there.digest),
            differences=Differences.between(here, there),
        )

    @property
    def is_equal(self) -> bool:
        """Whether the two hold the same ACLs."""
        return self.digest == self.other_digest and not self.differences

    def to_json(self) -> dict[str, Any]:
        row = {
            "with": self.other,
            "endOffset": self.end_offset,
            "otherEndOffset": self.other_end_offset,
            "equal": self.is_equal,
            "digest": self.digest,
            "otherDigest": self.other_digest,
        }
        return row if self.differences is None else row | self.differences.to_json(_SHOWN)

    def print(self) -> None:
        where = f"{shown(self.other)} at end offset {self.other_end_offset}"
        if self.is_equal:
            answer(f"compared    {good('equal')} to {where}, digest {self.digest}", LABEL)
            return
        answer(f"compared    {bad('DIFFERENT')} from {where}", LABEL)
        answer(f"{'':{LABEL}}digest {self.digest} here, {self.other_digest} there", LABEL)
        if self.differences is not None:
            self.differences.print(_SHOWN)


def compare(
    log: MetadataLog,
    sources: Sequence[SnapshotSource],
    other: str,
    at_offset: int | None,
    client: Mapping[str, str],
) -> Comparison:
    """Compare a log with what ``other`` names: a node, a log, LOG@OFFSET, a snapshot store or a checkpoint.

    ``at_offset``: compare the states after this record; None for the last offset that both have.
    """
    if is_node(other):
        if at_offset is not None:
            raise click.UsageError(
                "--at-offset cannot be used with a node: its state is known only at its current offset"
            )
        return _with_node(log, sources, other)
    source, named_offset = split_offset(other)
    if is_log(source):
        if named_offset is not None:
            _refuse_offset(other, at_offset)
            at_offset = named_offset
        with closing(open_log(source, mode="read", client=client)) as other_log:
            return _with_log(log, other_log, sources, other, at_offset)
    if _is_store(other):
        return _with_store(log, sources, other, at_offset)
    path = Path(other.removeprefix("file:"))
    if path.suffix == ".checkpoint" and path.is_file():
        _refuse_offset(other, at_offset)
        image = read_checkpoint(path)
        return Comparison.of(other, _state_at(log, sources, image.provenance.end_offset), image)
    if other == "-" or path.is_file():
        raise click.UsageError(
            f"--with {other}: a file of ACLs has no state of a log. Compare their permissions: aclog diff "
            f"{shlex.join(log_words())} {shlex.quote(other)}"
        )
    raise click.UsageError(
        f"--with {other}: that is not a log, LOG@OFFSET, checkpoint, snapshot store or node"
    )


def _refuse_offset(other: str, at_offset: int | None) -> None:
    if at_offset is not None:
        raise click.UsageError(f"--at-offset cannot be used with {other}, which has an offset")


def stores_among(urls: Sequence[str]) -> list[SnapshotSource]:
    """The snapshot stores among URLs of logs, stores and nodes."""
    return [StoredSnapshots(_store(url)) for url in urls if _is_store(url)]


def _is_store(other: str) -> bool:
    is_there = "://" in other or Path(other.removeprefix("file:")).is_dir()
    return is_there and not is_node(other) and not is_log(split_offset(other)[0])


def _store(url: str) -> SnapshotStore:
    # Importing Parquet is slow, and most uses of the command compare nothing.
    from snapshot.store.snapshot_store import SnapshotStore

    return SnapshotStore(url)


def _with_log(
    log: MetadataLog,
    other_log: MetadataLog,
    sources: Sequence[SnapshotSource],
    other: str,
    at_offset: int | None,
) -> Comparison:
    if at_offset is not None:
        end = at_offset + 1
    elif other_log.identity == log.identity:
        end = min(log.high_watermark(), other_log.high_watermark())
    else:
        note(f"{other} is a different log, of cluster {shown(other_log.identity.cluster_id)}")
        return Comparison.of(other, load_state(log, sources).image, load_state(other_log, sources).image)
    return Comparison.of(other, _state_at(log, sources, end), _state_at(other_log, sources, end))


def _with_store(
    log: MetadataLog, sources: Sequence[SnapshotSource], other: str, at_offset: int | None
) -> Comparison:
    store = _store(other)
    store.require()
    stored = _stored_snapshot(store, log, at_offset)
    independent = _sources_without(log, [*sources, StoredSnapshots(store)], stored.ref)
    # A snapshot that is not exact can only be continued.
    if stored.manifest.is_exact:
        try:
            return Comparison.of(other, _state_at(log, independent, stored.ref.end_offset), stored.image)
        except OffsetUnavailableError:
            if at_offset is not None:
                raise
    with Waiting(f"comparing with {shown(other)}"):
        for _ in _retries():
            continued = load_image(log, [StoredSnapshots(store)])
            if continued.origin == LOG_START:
                reasons = "; ".join(continued.refused)
                raise SnapshotMissingError(f"{store.url} has no snapshot that the log continues: {reasons}")
            image = load_image(log, independent).image
            if image.provenance.end_offset == continued.image.provenance.end_offset:
                return Comparison.of(
                    f"{other} ({continued.origin} and the log's tail)", image, continued.image
                )
    raise _different_offsets(log, other)


def _sources_without(
    log: MetadataLog, sources: Sequence[SnapshotSource], snapshot: SnapshotRef
) -> list[SnapshotSource]:
    """Sources of the log's state without this snapshot, so that it is not compared with itself."""
    if has_beginning(log):
        return []
    remaining: list[SnapshotSource] = [_OtherSnapshots(source, snapshot) for source in sources]
    start = log.start_offset()
    if not any(offer.end_offset >= start for each in remaining for offer in each.offers(log.identity)):
        raise SnapshotMissingError(
            f"{snapshot.name} cannot be compared: the log starts at {start}, and no other snapshot leads to "
            "its state"
        )
    return remaining


@dataclass(frozen=True, slots=True)
class _OtherSnapshots:
    """A SnapshotSource without the snapshots that end at the same offset as ``excluded``."""

    source: SnapshotSource
    excluded: SnapshotRef

    def offers(self, identity: LogIdentity) -> list[SnapshotOffer]:
        offers = self.source.offers(identity)
        return [offer for offer in offers if offer.end_offset != self.excluded.end_offset]


def _with_node(log: MetadataLog, sources: Sequence[SnapshotSource], other: str) -> Comparison:
    if has_beginning(log):
        sources = ()
    with Waiting(f"comparing with {shown(other)}"):
        for _ in _retries():
            state = node_state(other)
            if (state.cluster_id, state.topic_id) != _names(log):
                note(f"{other} follows a different log, of cluster {shown(str(state.cluster_id))}")
                return _comparison_with_node(other, load_image(log, sources).image, state)
            if state.offset > log.high_watermark():
                continue  # the records are not committed in the log yet, or it was truncated
            try:
                return _comparison_with_node(other, _state_at(log, sources, state.offset), state)
            except OffsetUnavailableError:
                continue  # until the node is at the log's end
    raise _different_offsets(log, other)


def _comparison_with_node(other: str, here: AclsImage, node: NodeState) -> Comparison:
    return Comparison(
        other=other,
        end_offset=here.provenance.end_offset,
        other_end_offset=node.offset,
        digest=digest_to_string(here.digest),
        other_digest=node.digest,
        differences=None,
    )


def _names(log: MetadataLog) -> tuple[str, str]:
    return log.identity.cluster_id, uuid_to_string(log.identity.topic_id)


def _retries() -> Iterator[None]:
    deadline_s = time.monotonic() + _TIMEOUT_S
    while True:
        yield
        if time.monotonic() >= deadline_s:
            return
        time.sleep(_POLL_INTERVAL_S)


def _different_offsets(log: MetadataLog, other: str) -> Failure:
    return Failure(
        f"{log.url} and {other} were not at one offset within {_TIMEOUT_S:.0f} s",
        ExitCode.NOT_READY,
        "Try again when there are fewer changes, and check that the node follows the log (/v1/state).",
    )


def _state_at(log: MetadataLog, sources: Sequence[SnapshotSource], end_offset: int) -> AclsImage:
    return load_state(log, sources, at_offset=end_offset - 1).image if end_offset else AclsImage.EMPTY


def _stored_snapshot(store: SnapshotStore, log: MetadataLog, at_offset: int | None) -> StoredSnapshot:
    if at_offset is not None:
        for ref in store.list(log.identity):
            if ref.end_offset == at_offset + 1:
                stored = store.read(ref, log.identity)
                if stored.manifest.is_exact:
                    return stored
        raise SnapshotMissingError(f"{store.url} has no snapshot that ends with offset {at_offset}")
    found = store.latest(log.identity, max_end_offset=log.high_watermark(), on_skipped=note_skipped)
    if found is None:
        raise SnapshotMissingError(f"{store.url} has no usable snapshot of cluster {log.identity.cluster_id}")
    return found
