"""replay.recovery: the snapshot from which a log is continued, and the reasons against newer ones."""

from __future__ import annotations

from typing import Any

import pytest

from records.errors import LogError
from records.ids import Uuid
from replay.events import Recovered
from replay.recovery import recover
from snapshot.delta import AclsDelta
from snapshot.errors import SnapshotError
from snapshot.image import AclsImage, Provenance
from support.sim_clock import SimClock
from support.sim_log import SimLog, identity
from support.sim_scenario import acl_named
from support.sim_store import SimSnapshot, SimStore

NOW_MS = 1_000_000
DAY_MS = 86_400_000


def snapshot(end_offset: int, epoch: int = 1, **changed: object) -> SimSnapshot:
    image = AclsDelta(AclsImage.EMPTY).apply(Provenance(end_offset, epoch, 0))
    return SimSnapshot(identity(), image, **({"log_end_time_ms": NOW_MS} | changed))  # type: ignore[arg-type]


def store(*snapshots: SimSnapshot) -> SimStore:
    made = SimStore()
    made.snapshots += snapshots
    return made


def log(batches: int = 10) -> SimLog:
    """Ten batches of one record, all committed; no two of the same ACL."""
    made = SimLog()
    for number in range(batches):
        made.append([acl_named("abcdefghij"[number])])
    return made


def forgetful() -> SimLog:
    """The same, but it forgets removals after a day."""
    made = log()
    made.removal_retention_ms = DAY_MS
    return made


def recovered(of: SimLog, *stores: SimStore, **options: Any) -> Recovered:
    return recover(of, stores, SimClock(NOW_MS), **options)


def end_offset(found: Recovered) -> int | None:
    return None if found.snapshot is None else found.snapshot.image.provenance.end_offset


def test_without_a_snapshot_it_begins_at_the_start() -> None:
    """And says where the log stands, and for how long it shows removals."""
    found = recovered(forgetful())
    assert found == Recovered(
        identity=identity(),
        snapshot=None,
        log_start=0,
        high_watermark=10,
        now_ms=NOW_MS,
        removal_retention_ms=DAY_MS,
    )


def test_the_newest_of_all_sources_is_taken() -> None:
    """By end offset within an epoch; nothing is wrong with the older ones, so nothing is refused."""
    found = recovered(log(), store(snapshot(3), snapshot(7)), store(snapshot(5)))
    assert (end_offset(found), found.refused) == (7, ())


def test_on_a_tie_the_first_source_wins() -> None:
    """The store knows more about its ACLs (offsets, times) than a checkpoint at the same offset."""
    first, second = store(snapshot(7)), store(snapshot(7))
    found = recovered(log(), first, second)
    assert found.snapshot is not None
    assert found.snapshot.image is first.snapshots[0].image


def test_a_snapshot_beyond_the_logs_end_is_refused() -> None:
    """I9: the log was truncated, or it is not its log."""
    found = recovered(log(), store(snapshot(3), snapshot(11)))
    assert end_offset(found) == 3
    assert found.refused == ("snapshot 11-1: it ends at 11, beyond the log's end 10",)


def test_a_snapshot_before_the_logs_start_is_refused() -> None:
    """I11: what came between them is gone."""
    of = log()
    of.trim(5)
    found = recovered(of, store(snapshot(4)))
    assert found.snapshot is None
    assert found.refused == ("snapshot 4-1: it ends at 4, the log starts at 5",)
    assert end_offset(recovered(of, store(snapshot(4), snapshot(5)))) == 5


def test_a_snapshot_of_a_truncated_history_is_refused() -> None:
    """I9, I11: the log has another epoch where the snapshot ends. One within the common part is fine."""
    of = log()
    of.truncate(4)
    for name in "uvwxyz":
        of.append([acl_named(name)])
    found = recovered(of, store(snapshot(4), snapshot(8)))
    assert end_offset(found) == 4
    (refused,) = found.refused
    assert refused == (
        "snapshot 8-1: it ends in epoch 1, but the log continues there in another epoch: "
        "the log may have been truncated and rewritten"
    )


def test_a_snapshot_whose_last_batch_was_compacted_away() -> None:
    """Then the next batch must be of its epoch; else nobody knows what was there."""
    of = log()
    of.new_epoch()
    of.append([acl_named("e2")])
    of.append([acl_named("j2")])
    of.compact(12)
    assert [(batch.base_offset, batch.epoch) for batch in of.batches][3:] == [
        *((offset, 1) for offset in range(3, 9) if offset != 4),
        (10, 2),
        (11, 2),
    ]
    assert end_offset(recovered(of, store(snapshot(5)))) == 5
    found = recovered(of, store(snapshot(10)))
    assert found.snapshot is None
    assert "the log continues there in another epoch" in found.refused[0]


def test_a_batch_that_cannot_be_decoded_does_not_speak_against_a_snapshot_beyond_it() -> None:
    """It may be the way past a record of a newer version; then the next batch must speak for it."""
    of = log()
    of.damage(6)
    assert end_offset(recovered(of, store(snapshot(7)))) == 7
    of.new_epoch()
    of.append([acl_named("x")])
    of.damage(9)
    found = recovered(of, store(snapshot(10)))
    assert found.snapshot is None
    assert "the log continues there in another epoch" in found.refused[0]
    of.damage(10)
    (refused,) = recovered(of, store(snapshot(10))).refused
    assert refused == "snapshot 10-1: the log has no decodable record that confirms its epoch there"


def test_a_log_that_forgets_removals_wants_a_fresh_snapshot() -> None:
    """I10: less than half of the retention ago."""
    just = snapshot(5, log_end_time_ms=NOW_MS - DAY_MS // 2 + 1)
    old = snapshot(7, log_end_time_ms=NOW_MS - DAY_MS // 2)
    found = recovered(forgetful(), store(just, old))
    assert end_offset(found) == 5
    (refused,) = found.refused
    assert refused == (
        "snapshot 7-1: its end was last the log's end 43200000 ms ago, and the log deletes removals after "
        "86400000 ms"
    )


def test_a_log_that_forgets_removals_wants_to_know_how_old_a_snapshot_is() -> None:
    """I10: a checkpoint does not say it."""
    found = recovered(forgetful(), store(snapshot(5, log_end_time_ms=None)))
    assert found.snapshot is None
    assert "does not record when its end was the log's end" in found.refused[0]
    assert end_offset(recovered(log(), store(snapshot(5, log_end_time_ms=None)))) == 5


def test_a_snapshot_made_past_a_gap_counts_where_the_gap_is_closed() -> None:
    """I6: the log must reach beyond what the gap may hide, and so must the state that was asked for."""
    past_gap = store(snapshot(3), snapshot(5, gap_until=8))
    assert end_offset(recovered(log(), past_gap)) == 5
    assert end_offset(recovered(log(), past_gap, max_end_offset=8)) == 5
    found = recovered(log(), past_gap, max_end_offset=7)
    assert end_offset(found) == 3
    (refused,) = found.refused
    assert refused == (
        "snapshot 5-1: records that count may be missing in it until it is continued to 8, "
        "and the log is known up to 7"
    )
    truncated = log()
    truncated.truncate(6)
    assert end_offset(recovered(truncated, past_gap)) == 3


def test_an_unusable_snapshot_costs_only_itself() -> None:
    """Unfinished when listed, damaged when read: the one before is taken, and both are reported."""
    found = recovered(
        log(),
        store(
            snapshot(3),
            snapshot(5, damage="part 0 has other bytes than its manifest says"),
            snapshot(7, problem="manifest.json is missing"),
        ),
    )
    assert end_offset(found) == 3
    assert found.refused == (
        "snapshot 7-1: manifest.json is missing",
        "snapshot 5-1: part 0 has other bytes than its manifest says",
    )


def test_a_snapshot_of_another_log_is_no_offer() -> None:
    """I9: sources know the identity."""
    foreign = snapshot(7)
    foreign.identity = identity(topic_id=Uuid(b"another topic id"))
    assert recovered(log(), store(foreign)).snapshot is None


class _Unlistable:
    def offers(self, _identity: object) -> list[object]:
        raise SnapshotError("bucket not reachable")


def test_a_source_that_cannot_be_listed_is_reported() -> None:
    """Then the other sources, or the whole log, must do."""
    found = recover(log(), [_Unlistable(), store(snapshot(3))], SimClock(NOW_MS))  # type: ignore[list-item]
    assert (end_offset(found), found.refused) == (3, ("bucket not reachable",))


def test_a_later_snapshot_than_requested_is_ignored() -> None:
    """For a state in the past; the log is taken to end there."""
    found = recovered(log(), store(snapshot(3), snapshot(7)), max_end_offset=5)
    assert (end_offset(found), found.high_watermark, found.refused) == (3, 5, ())


def test_a_log_out_of_reach_is_not_a_snapshots_fault() -> None:
    """It is raised, so that the driver tries again."""
    of = log()
    of.fail_reads(LogError("connection refused"))
    with pytest.raises(LogError, match="connection refused"):
        recovered(of, store(snapshot(7)))
