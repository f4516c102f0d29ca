"""A log's state beside another source of it, at one offset: a log, a store's newest snapshot, a running node.

A log with gaps (compaction, transaction markers) has a known state at its end, and seldom before it (I6). If
the state at a snapshot's end is not known, the snapshot is continued to the log's end and compared there; if
that at a node's offset is not, the node is asked again until it stands where the state is known.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import click

from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.rendering.differences import LABEL, Differences
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
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from authorizer.api.http.answers import NodeState
    from records.log.base import LogIdentity, MetadataLog
    from replay.snapshot_source import SnapshotOffer, SnapshotSource
    from snapshot.store.layout import SnapshotRef
    from snapshot.store.snapshot_store import SnapshotStore
    from snapshot.store.stored import StoredSnapshot

#: Differences of each kind that are printed.
_SHOWN: Final = 10
#: How long two sources that both advance are polled until they are at one offset, and the poll interval.
_WAIT_S: Final = 30.0
_POLL_INTERVAL_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two states: at one offset of one log, or at the ends of two logs.

    Attributes:
        other: what the log was compared with, for people.
        end_offset, other_end_offset: where the two stand.
        digest_here, digest_there: of all their ACLs (I12).
        differences: ACL by ACL; None where the other side gave its digest only.
    """

    other: str
    end_offset: int
    other_end_offset: int
    digest_here: str
    digest_there: str
    differences: Differences | None

    @classmethod
    def of(cls, other: str, here: AclsImage, there: AclsImage) -> Self:
        return cls(
            other=other,
            end_offset=here.provenance.end_offset,
            other_end_offset=there.provenance.end_offset,
            digest_here=digest_to_string(here.digest),
            digest_there=digest_to_string(there.digest),
            differences=Differences.between(here, there),
        )

    @property
    def is_equal(self) -> bool:
        """Whether the two hold the same ACLs."""
        return self.digest_here == self.digest_there and not self.differences

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        row = {
            "with": self.other,
            "endOffset": self.end_offset,
            "otherEndOffset": self.other_end_offset,
            "equal": self.is_equal,
            "digest": self.digest_here,
            "otherDigest": self.digest_there,
        }
        return row if self.differences is None else row | self.differences.to_json(_SHOWN)

    def print(self) -> None:
        """The same for people."""
        where = f"{shown(self.other)} at end offset {self.other_end_offset}"
        if self.is_equal:
            answer(f"compared    {good('equal')} to {where}, digest {self.digest_here}", LABEL)
            return
        answer(f"compared    {bad('DIFFERENT')} from {where}", LABEL)
        answer(f"{'':{LABEL}}digest {self.digest_here} here, {self.digest_there} there", LABEL)
        if self.differences is not None:
            self.differences.print(_SHOWN)


def compare(
    log: MetadataLog,
    sources: Sequence[SnapshotSource],
    other: str,
    at_offset: int | None,
    client: Mapping[str, str],
) -> Comparison:
    """Compare a log with what a URL names.

    Args:
        log: open.
        sources: their snapshots spare reading two logs from their starts, and lead to the state of one whose
            beginning was trimmed.
        other: ``http://...`` of a node, a log, or a snapshot store.
        at_offset: the last record that counts; None for the last offset that both have.
        client: settings of the Kafka client, for another log in a topic.

    Raises:
        click.UsageError: a node has its state at its own offset only.
        OffsetUnavailableError: nothing leads to the state at ``at_offset``.
        SnapshotMissingError: the store has no snapshot to compare with, or none but the one in question.
        Failure: the node cannot be reached, or its state cannot be compared.
    """
    if is_node(other):
        if at_offset is not None:
            raise click.UsageError(
                "--at-offset cannot go with a node: it has the state at its own offset only"
            )
        return _with_node(log, sources, other)
    if _is_store(other):
        return _with_store(log, sources, other, at_offset)
    with closing(open_log(other, mode="read", client=client)) as other_log:
        return _with_log(log, other_log, sources, other, at_offset)


def stores_among(others: Sequence[str]) -> list[SnapshotSource]:
    """Those that name a snapshot store, not a log or a node."""
    return [StoredSnapshots(_store(other)) for other in others if _is_store(other)]


def _is_store(other: str) -> bool:
    return not is_node(other) and not is_log(other)


def _store(url: str) -> SnapshotStore:
    # Parquet takes its time, and most who verify a log compare it with nothing.
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
        note(f"note: {other} is another log, of cluster {shown(other_log.identity.cluster_id)}")
        return Comparison.of(other, load_state(log, sources).image, load_state(other_log, sources).image)
    return Comparison.of(other, _below(log, sources, end), _below(other_log, sources, end))


def _with_store(
    log: MetadataLog, sources: Sequence[SnapshotSource], other: str, at_offset: int | None
) -> Comparison:
    store = _store(other)
    store.require()
    there = _stored(store, log, at_offset)
    beside = _beside_it(log, [*sources, StoredSnapshots(store)], there.ref)
    # One that is not exact can only be continued.
    if there.manifest.is_exact:
        try:
            return Comparison.of(other, _below(log, beside, there.ref.end_offset), there.image)
        except OffsetUnavailableError:
            if at_offset is not None:
                raise
    with Waiting(f"comparing with {shown(other)}"):
        for _ in _retries():
            continued = load_image(log, [StoredSnapshots(store)])
            if continued.origin == LOG_START:
                reasons = "; ".join(continued.refused)
                raise SnapshotMissingError(f"{store.url} has no snapshot that the log continues: {reasons}")
            alone = load_image(log, beside).image
            if alone.provenance.end_offset == continued.image.provenance.end_offset:
                return Comparison.of(
                    f"{other} ({continued.origin} and the log's tail)", alone, continued.image
                )
    raise _not_seen_together(log, other)


def _beside_it(
    log: MetadataLog, sources: Sequence[SnapshotSource], snapshot: SnapshotRef
) -> list[SnapshotSource]:
    """What leads to the log's state without this snapshot, which must not vouch for itself.

    Nothing but the log is needed if that has its beginning.
    """
    if has_beginning(log):
        return []
    others: list[SnapshotSource] = [_OtherSnapshots(source, snapshot) for source in sources]
    start = log.start_offset()
    if not any(offer.end_offset >= start for each in others for offer in each.offers(log.identity)):
        raise SnapshotMissingError(
            f"{snapshot.name} cannot be compared: the log starts at {start}, and no other snapshot leads to "
            "its state"
        )
    return others


@dataclass(frozen=True, slots=True)
class _OtherSnapshots:
    """A SnapshotSource: all of another one but the snapshots that end where this one does."""

    source: SnapshotSource
    without: SnapshotRef

    def offers(self, identity: LogIdentity) -> list[SnapshotOffer]:
        offers = self.source.offers(identity)
        return [offer for offer in offers if offer.end_offset != self.without.end_offset]


def _with_node(log: MetadataLog, sources: Sequence[SnapshotSource], other: str) -> Comparison:
    if has_beginning(log):
        sources = ()
    with Waiting(f"comparing with {shown(other)}"):
        for _ in _retries():
            state = node_state(other)
            if (state.cluster_id, state.topic_id) != _names(log):
                note(f"note: {other} follows another log, of cluster {shown(str(state.cluster_id))}")
                return _beside(other, load_image(log, sources).image, state)
            if state.offset > log.high_watermark():
                continue  # looked at before it was committed there, or the log was truncated
            try:
                return _beside(other, _below(log, sources, state.offset), state)
            except OffsetUnavailableError:
                continue  # a node that is at the end when the log is quiet
    raise _not_seen_together(log, other)


def _beside(other: str, here: AclsImage, node: NodeState) -> Comparison:
    return Comparison(
        other=other,
        end_offset=here.provenance.end_offset,
        other_end_offset=node.offset,
        digest_here=digest_to_string(here.digest),
        digest_there=node.digest,
        differences=None,
    )


def _names(log: MetadataLog) -> tuple[str, str]:
    return log.identity.cluster_id, uuid_to_string(log.identity.topic_id)


def _retries() -> Iterator[None]:
    deadline_s = time.monotonic() + _WAIT_S
    while True:
        yield
        if time.monotonic() >= deadline_s:
            return
        time.sleep(_POLL_INTERVAL_S)


def _not_seen_together(log: MetadataLog, other: str) -> Failure:
    return Failure(
        f"{log.url} and {other} were not at one offset within {_WAIT_S:.0f} s",
        ExitCode.NOT_READY,
        "Try again when fewer changes are written, and check that the node follows the log (/v1/state).",
    )


def _below(log: MetadataLog, sources: Sequence[SnapshotSource], end_offset: int) -> AclsImage:
    return load_state(log, sources, at_offset=end_offset - 1).image if end_offset else AclsImage.EMPTY


def _stored(store: SnapshotStore, log: MetadataLog, at_offset: int | None) -> StoredSnapshot:
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
