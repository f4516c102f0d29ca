"""replay.core: details that scenarios cannot express; tests/scenarios/replay has the rules."""

from __future__ import annotations

import pytest

from records.entries import OtherRecord
from records.log_batch import LogBatch, LogRecord
from replay.core import Core, Phase
from replay.errors import InvariantError
from replay.events import BatchesRead, Effect, Fail, LoadedSnapshot, Publish, Recovered
from replay.manifest import LogDeltaManifest, ReloadManifest
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support.sim_log import batch_of, identity
from support.sim_scenario import acl_named


def recovered(high_watermark: int, **changed: object) -> Recovered:
    fields: dict[str, object] = {
        "identity": identity(),
        "snapshot": None,
        "log_start": 0,
        "high_watermark": high_watermark,
        "now_ms": 1000,
        "removal_retention_ms": None,
    }
    return Recovered(**(fields | changed))  # type: ignore[arg-type]


def read(*batches: LogBatch, high_watermark: int, now_ms: int = 2000) -> BatchesRead:
    return BatchesRead(batches=batches, high_watermark=high_watermark, now_ms=now_ms)


def only_publish(effects: list[Effect]) -> Publish:
    (found,) = [effect for effect in effects if isinstance(effect, Publish)]
    return found


def following() -> Core:
    core = Core()
    core.step(recovered(0))
    assert core.phase is Phase.FOLLOWING
    return core


def test_the_manifest_says_what_was_read() -> None:
    """Counts are those of the batches since the update before, and the time is that of the last look."""
    core = following()
    first = batch_of([acl_named("a"), OtherRecord(20, 0)], 0, epoch=3)
    second = batch_of([acl_named("a2")], 2, epoch=4)
    manifest = only_publish(core.step(read(first, second, high_watermark=3, now_ms=5000))).manifest
    assert isinstance(manifest, LogDeltaManifest)
    assert manifest.identity == identity()
    assert manifest.provenance == Provenance(3, 4, second.timestamp_ms)
    assert (manifest.batches, manifest.records, manifest.size_bytes) == (2, 3, 300)
    assert (manifest.counts.added, manifest.counts.replaced, manifest.counts.ignored) == (1, 1, 1)
    assert (manifest.high_watermark, manifest.log_end_time_ms) == (3, 5000)
    later = only_publish(
        core.step(read(batch_of([acl_named("b")], 3, epoch=4), high_watermark=9, now_ms=6000))
    )
    assert (later.manifest.batches, later.manifest.records) == (1, 1)
    # 9 is beyond what was applied, so 5000 is still the last time that nothing was.
    assert later.manifest.log_end_time_ms == 5000


def test_offsets_without_records_at_the_end_are_counted() -> None:
    """From the last record on, over several reads; a record ends them, so does a batch of another epoch."""

    def tail(*batches: LogBatch) -> int:
        end = batches[-1].end_offset
        return only_publish(core.step(read(*batches, high_watermark=end))).image.provenance.empty_tail

    def empty(base_offset: int, end_offset: int, epoch: int = 1) -> LogBatch:
        return LogBatch(base_offset, end_offset, epoch, 0, 0, ())

    core = following()
    record = batch_of([acl_named("a")], 0)
    marked = LogBatch(0, 2, 1, 0, 100, record.records)
    assert tail(marked) == 1
    assert tail(empty(2, 5)) == 4
    assert tail(empty(5, 6)) == 5
    assert tail(batch_of([acl_named("b")], 6)) == 0
    assert tail(empty(7, 9), empty(9, 10, epoch=2)) == 0


def test_a_log_delta_is_based_on_the_very_image_before() -> None:
    """Publishers rely on identity to know that they missed nothing."""
    core = Core()
    first = only_publish(core.step(recovered(0)))
    assert first.delta.image is AclsImage.EMPTY
    assert isinstance(first.manifest, ReloadManifest)
    second = only_publish(core.step(read(batch_of([acl_named("a")], 0), high_watermark=1)))
    assert second.delta.image is first.image
    assert core.published is second.image


def test_batches_that_were_applied_are_passed_over() -> None:
    """A read may begin with batches below the position; even a wrong epoch there is nobody's business."""
    core = following()
    core.step(read(batch_of([acl_named("a")], 0, epoch=5), high_watermark=1))
    effects = core.step(
        read(batch_of([acl_named("x")], 0, epoch=1), batch_of([acl_named("b")], 1, epoch=5), high_watermark=2)
    )
    assert sorted(found.record.resource_name for found in only_publish(effects).image) == ["a", "b"]


@pytest.mark.parametrize(
    "batch",
    [
        LogBatch(1, 2, 1, 0, 1, (LogRecord(0, 0, acl_named("a")),)),
        LogBatch(1, 2, 1, 0, 1, (LogRecord(2, 0, acl_named("a")),)),
        LogBatch(1, 2, 1, 0, 1, (LogRecord(1, 0, acl_named("a")), LogRecord(1, 0, acl_named("b")))),
        LogBatch(1, 3, 1, 0, 1, (LogRecord(2, 0, acl_named("a")), LogRecord(1, 0, acl_named("b")))),
    ],
    ids=["below", "beyond", "too-many", "out-of-order"],
)
def test_a_batch_must_hold_its_own_records(batch: LogBatch) -> None:
    """Offsets that a sound source never gives stop replay, with nothing of the batch applied."""
    core = following()
    core.step(read(batch_of([acl_named("z")], 0), high_watermark=1))
    effects = core.step(read(batch, high_watermark=9))
    assert [type(effect.error) for effect in effects if isinstance(effect, Fail)] == [InvariantError]
    assert core.position == 1
    assert not core.ready


def test_events_out_of_phase_are_the_drivers_fault() -> None:
    """They raise: nothing sensible can be done with them."""
    core = Core()
    with pytest.raises(InvariantError, match="before the recovery"):
        core.step(read(high_watermark=0))
    core.step(recovered(0))
    with pytest.raises(InvariantError, match="recovered while following"):
        core.step(recovered(0))


def test_a_snapshot_beyond_the_logs_end_is_the_drivers_fault() -> None:
    """I9: recovery refuses it before."""
    image = AclsDelta(AclsImage.EMPTY).apply(Provenance(5, 1, 0))
    snapshot = LoadedSnapshot(image=image, log_end_time_ms=None, origin="snapshot 5")
    with pytest.raises(InvariantError, match="ends at 5, beyond the log's end 4"):
        Core().step(recovered(4, snapshot=snapshot))


def test_a_log_that_forgets_immediately_cannot_be_followed() -> None:
    """I10 with no time at all would mean to begin anew for ever."""
    with pytest.raises(InvariantError, match="drops removals immediately"):
        Core().step(recovered(0, removal_retention_ms=0))


def test_the_time_of_the_logs_end_is_the_snapshots_until_it_is_reached() -> None:
    """I10: the end of a stored snapshot was the log's end at the time that it says, not when it was read."""
    image = AclsDelta(AclsImage.EMPTY).apply(Provenance(5, 1, 0))
    core = Core()
    core.step(recovered(9, snapshot=LoadedSnapshot(image=image, log_end_time_ms=77, origin="snapshot 5")))
    assert core.log_end_time_ms == 77
    core.step(read(batch_of([acl_named("a")] * 4, 5), high_watermark=9, now_ms=5000))
    assert core.log_end_time_ms == 5000
