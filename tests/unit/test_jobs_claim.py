"""Claims of a checkpoint: of several jobs one owns it, whatever the order of their requests."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from authorizer.cli.failure import ExitCode
from authorizer.cli.main import cli
from snapshot.errors import CheckpointClaimedError, SparkJobError
from snapshot.jobs.running.claim import CheckpointClaim
from snapshot.store.storage import Storage
from support.waiting import wait_until

OWNERS = "aclog-owners"
#: Longer than a test.
NEVER_S = 3600.0


def new_store() -> str:
    """A store of this test; a put fails there if the file exists, as on S3."""
    return f"memory://{uuid4().hex}"


@contextmanager
def silent_claim(url: str, **options: object) -> Iterator[CheckpointClaim]:
    """A claim whose job never renews it, as if it were killed, paused or cut off; and not released."""
    claim = CheckpointClaim(url, renewal_s=NEVER_S, **options)  # type: ignore[arg-type]
    try:
        yield claim
    finally:
        claim._has_ended.set()


def is_owner(claim: CheckpointClaim) -> bool:
    try:
        claim.check()
    except CheckpointClaimedError:
        return False
    return True


def test_a_renewed_claim_refuses_a_second_job() -> None:
    """Long before the time after which a silent owner is replaced."""
    url = new_store()
    first = CheckpointClaim(url, renewal_s=0.05)
    with pytest.raises(
        CheckpointClaimedError, match=rf"checkpoint {url} is in use by process \d+ on .*, started 20"
    ):
        CheckpointClaim(url, stale_s=30)
    first.check()
    first.release()


def test_a_silent_owner_is_replaced_and_finds_that() -> None:
    """The next epoch has the checkpoint's id; the former owner's files are removed."""
    url = new_store()
    with silent_claim(url) as first, silent_claim(url, stale_s=0.2) as second:
        second.check()
        with pytest.raises(CheckpointClaimedError, match=r"has lost its checkpoint .*: another job has it"):
            first.check()
        first.release()
        second.check()
        assert (first.owner.epoch, second.owner.epoch) == (1, 2)
        assert first.owner.checkpoint_id == second.owner.checkpoint_id
        assert list(Storage(url).files(OWNERS)) == ["0000000002.json"]


def test_a_renewal_finds_the_next_owner_without_a_batch() -> None:
    """So an idle job ends, too."""
    url = new_store()
    first = CheckpointClaim(url, renewal_s=0.02)
    with silent_claim(url, take_over=True) as second:
        wait_until(lambda: first._lost is not None, "the renewal that finds it")
        with pytest.raises(CheckpointClaimedError):
            first.raise_if_lost()
        first.release()
        second.check()


def test_a_job_that_ended_is_not_waited_for() -> None:
    """The waiting time of an hour would fail the test."""
    url = new_store()
    CheckpointClaim(url).release()
    with silent_claim(url, stale_s=NEVER_S) as claim:
        assert claim.owner.epoch == 2


def test_a_stopped_job_does_not_wait() -> None:
    """SIGTERM ends the waiting."""
    url, stop = new_store(), threading.Event()
    stop.set()
    with silent_claim(url), pytest.raises(CheckpointClaimedError, match="is in use by"):
        CheckpointClaim(url, stop=stop, stale_s=NEVER_S)


@contextmanager
def overtaken(url: str, by: int) -> Iterator[list[CheckpointClaim]]:
    """Before the next put of a claim, so many other jobs claim the checkpoint, one after the other."""
    rivals: list[CheckpointClaim] = []
    put_new = Storage.put_new
    with ExitStack() as on_exit:

        def delayed(storage: Storage, path: str, data: bytes) -> bool:
            patched.stop()
            rivals.extend(on_exit.enter_context(silent_claim(url, take_over=True)) for _ in range(by))
            return put_new(storage, path, data)

        patched = patch.object(Storage, "put_new", delayed)
        patched.start()
        yield rivals


def test_a_job_whose_put_came_second_is_refused() -> None:
    """Two found the same owner silent; the first one owns the checkpoint."""
    url, stop = new_store(), threading.Event()
    with silent_claim(url), overtaken(url, by=1) as rivals:
        with (
            patch.object(stop, "wait", side_effect=lambda _: bool(rivals)),
            pytest.raises(CheckpointClaimedError, match="is in use by"),
        ):
            CheckpointClaim(url, stale_s=0, stop=stop)
        assert rivals[0].owner.epoch == 2
        rivals[0].check()


def test_an_old_epoch_that_was_removed_is_not_owned() -> None:
    """Two jobs claimed this epoch and the next, and removed its file, before the put: that is undone."""
    url = new_store()
    with overtaken(url, by=2) as rivals, silent_claim(url, take_over=True) as last:
        assert [claim.owner.epoch for claim in (*rivals, last)] == [1, 2, 3]
        assert [is_owner(claim) for claim in (*rivals, last)] == [False, False, True]
        assert list(Storage(url).files(OWNERS)) == ["0000000003.json"]


def test_a_lost_response_of_the_put_is_no_second_job() -> None:
    """The client repeats the put, and the server refuses the second one."""
    url, put_new = new_store(), Storage.put_new

    def repeated(storage: Storage, path: str, data: bytes) -> bool:
        put_new(storage, path, data)
        return put_new(storage, path, data)

    with patch.object(Storage, "put_new", repeated), silent_claim(url) as claim:
        claim.check()
        assert claim.owner.epoch == 1


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["start", "take over", "renew", "end", "check"])),
        max_size=25,
    )
)
def test_only_the_newest_owner_passes_a_check(steps: list[tuple[int, str]]) -> None:
    """Three jobs start, renew, end and check in any order: as in a model with one owner."""
    url = new_store()
    jobs: list[CheckpointClaim | None] = [None, None, None]
    owner: CheckpointClaim | None = None
    stop = threading.Event()
    stop.set()
    with ExitStack() as on_exit:
        for number, step in steps:
            job = jobs[number]
            if step in ("start", "take over"):
                # Without time to wait, a job that would wait is refused.
                is_refused = step == "start" and owner is not None
                try:
                    new = silent_claim(url, take_over=step == "take over", stop=stop)
                    jobs[number] = owner = on_exit.enter_context(new)
                    assert not is_refused
                except CheckpointClaimedError:
                    assert is_refused
            elif job is not None and step == "renew":
                if is_owner(job):
                    job._put(job.owner)
            elif job is not None and step == "end":
                job.release()
                jobs[number] = None
                owner = None if job is owner else owner
            for each in jobs:
                assert each is None or is_owner(each) == (each is owner)


def test_a_local_checkpoint_is_locked_until_its_job_ends(tmp_path: Path) -> None:
    """No waiting in either case."""
    first = CheckpointClaim(str(tmp_path / "new"), stale_s=NEVER_S)
    with pytest.raises(CheckpointClaimedError, match=r"new is in use by process \d+ on "):
        CheckpointClaim(f"file://{tmp_path}/new", stale_s=NEVER_S, take_over=True)
    first.check()
    first._unlock()  # as the kernel does for a killed process
    second = CheckpointClaim(str(tmp_path / "new"), stale_s=NEVER_S)
    assert second.owner.epoch == 2
    second.release()


def test_two_checkpoints_cannot_write_to_one_output() -> None:
    """The claim of an output fails with the job's checkpoint, and is free with it."""
    output, url = new_store(), new_store()
    with silent_claim(url) as killed, silent_claim(output, kind="output", beside=killed) as written:
        other = CheckpointClaim(new_store())
        stop = threading.Event()
        stop.set()
        with pytest.raises(CheckpointClaimedError, match=rf"the output {output} is in use by process"):
            CheckpointClaim(output, "output", beside=other, stop=stop, stale_s=NEVER_S)
        other.release()
        written.check()
        next_job = CheckpointClaim(url, stale_s=0)
        # It does not wait for the output of the job from which it has taken the checkpoint.
        taken = CheckpointClaim(output, "output", beside=next_job, stale_s=NEVER_S)
        with pytest.raises(CheckpointClaimedError, match=rf"has lost its checkpoint {url}"):
            written.check()
        taken.check()
        with silent_claim(url, take_over=True), pytest.raises(CheckpointClaimedError, match=url):
            taken.check()
        for claim in (taken, next_job):
            claim.release()


def test_a_damaged_owner_is_reported() -> None:
    """With the file and the way out."""
    url = new_store()
    Storage(url).put(f"{OWNERS}/0000000007.json", b"{")
    with pytest.raises(
        SparkJobError, match=r"0000000007.json is damaged: .* Remove it if no job uses the checkpoint"
    ):
        CheckpointClaim(url)


def test_maintenance_that_rewrites_the_history_is_refused_beside_its_job(tmp_path: Path) -> None:
    """By its claim of the output, before Spark starts."""
    claim = CheckpointClaim(str(tmp_path), "output")
    command = ["spark", "maintain", "--history", str(tmp_path), "--keep-rows", "7d"]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == ExitCode.NOT_READY, done.output
    assert re.search(rf"the output file://{tmp_path} is in use by process {os.getpid()} on", done.stderr)
    claim.release()
