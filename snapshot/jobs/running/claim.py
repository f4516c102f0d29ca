"""A job's claims of its checkpoint and of its output: of several jobs only the newest owner may publish.

    <checkpoint or output>/aclog-owners/<epoch, 10 digits>.json

The owner is the job that created the file with the highest epoch; a put that fails if the file exists decides
between two. The owner renews its file every RENEWAL_S, and marks it at its end. A job that finds a file which
is not marked waits: if the file is renewed, the directory is in use; if not for STALE_S, the owner is dead
and the job creates the next epoch. No clocks of two machines are compared. An owner that was only slow finds
the higher epoch before it publishes, and ends.

On a local directory a lock replaces the waiting: the kernel frees it when its holder ends in any way.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from logging import getLogger
from typing import Final, Self
from uuid import uuid4

import msgspec

from snapshot.errors import CheckpointClaimedError, SnapshotError, SparkJobError
from snapshot.files.atomic_file import make_directories
from snapshot.store.storage import Storage

_log: Final = getLogger(__name__)
RENEWAL_S: Final = 5.0
#: Four renewals: one may be slow, or the store be out of reach for some seconds.
STALE_S: Final = 20.0
_POLLS: Final = 20
_DIRECTORY: Final = "aclog-owners"
_LOCK: Final = f"{_DIRECTORY}/lock"
_FILE: Final = re.compile(r"([0-9]{10})\.json")


class Owner(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The content of an owner's file.

    Attributes:
        checkpoint_id: the same in all epochs of a directory.
        epoch: the file's number.
        job: unique id of the claim; that of an output is the checkpoint's.
        host: of the job's driver.
        process: its number there.
        started_ms: when the job claimed it, since the epoch of time.
        renewal: number of the last renewal.
        is_ended: the job has ended by itself.
    """

    checkpoint_id: str
    epoch: int
    job: str
    host: str
    process: int
    started_ms: int
    renewal: int = 0
    is_ended: bool = False

    def __str__(self) -> str:
        started = datetime.fromtimestamp(self.started_ms / 1000, UTC).isoformat(timespec="seconds")
        return f"process {self.process} on {self.host}, started {started}"


class CheckpointClaim:
    """The claim of a directory, from construction to ``release``.

    Args:
        directory: URL or local path of a checkpoint or an output.
        kind: its name in errors.
        beside: the claim of the same job's checkpoint, which is checked, too.
        take_over: do not wait for an owner on an object store; it ends when it finds this claim.
        stop: ends the waiting.
        renewal_s, stale_s: see RENEWAL_S and STALE_S.

    Raises:
        CheckpointClaimedError: another job uses the directory.
        SparkJobError: an owner's file is damaged.
        SnapshotError: the directory cannot be read or written.
    """

    def __init__(
        self,
        directory: str,
        kind: str = "checkpoint",
        *,
        beside: CheckpointClaim | None = None,
        take_over: bool = False,
        stop: threading.Event | None = None,
        renewal_s: float = RENEWAL_S,
        stale_s: float = STALE_S,
    ) -> None:
        self._storage = Storage(directory)
        self._kind, self._shown = kind, self._storage.shown("")
        self._beside = beside
        #: The owner before this job, which has ended.
        self.job_before: str | None = None
        self._stop = threading.Event() if stop is None else stop
        self._renewal_s, self._stale_s = renewal_s, stale_s
        self._has_ended = threading.Event()
        self._lost: CheckpointClaimedError | None = None
        self._lock = self._locked()
        try:
            self._owner = self._created(is_free=take_over or self._lock is not None)
        except BaseException:
            self._unlock()
            raise
        self._renewing = threading.Thread(target=self._renew, daemon=True)
        if self._lock is None:
            self._renewing.start()

    @property
    def owner(self) -> Owner:
        return self._owner

    def check(self) -> None:
        """Check in the store that no other job has claimed the directory since.

        Raises:
            CheckpointClaimedError: one has.
            SnapshotError: the store cannot be read.
        """
        if self._beside is not None:
            self._beside.check()
        newest = self._newest()
        if newest is None or newest.job != self._owner.job:
            by = "its owners' files were removed" if newest is None else f"another job has it: {newest}"
            self._lost = CheckpointClaimedError(
                f"this job has lost its {self._kind} {self._shown}: {by}. It has published nothing since"
            )
        self.raise_if_lost()

    def raise_if_lost(self) -> None:
        """Raise the CheckpointClaimedError that a check or a renewal has found."""
        if self._beside is not None:
            self._beside.raise_if_lost()
        if self._lost is not None:
            raise self._lost

    def release(self) -> None:
        """Let the next job start without waiting."""
        self._has_ended.set()
        if self._renewing.ident is not None:
            self._renewing.join()
        # Without the mark the next job waits.
        with suppress(CheckpointClaimedError, SnapshotError):
            self.check()
            self._put(msgspec.structs.replace(self._owner, is_ended=True))
        self._unlock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()

    def _renew(self) -> None:
        while not self._has_ended.wait(self._renewal_s):
            with suppress(SnapshotError):  # batches report it
                try:
                    self.check()
                except CheckpointClaimedError:
                    return
                self._put(msgspec.structs.replace(self._owner, renewal=self._owner.renewal + 1))

    def _created(self, *, is_free: bool) -> Owner:
        """The file of the next epoch, when the owner before it has ended."""
        job = uuid4().hex if self._beside is None else self._beside.owner.job
        started_ms = time.time_ns() // 1_000_000
        while True:
            before = self._ended_owner(is_free=is_free)
            self.job_before = None if before is None else before.job
            owner = Owner(
                checkpoint_id=uuid4().hex if before is None else before.checkpoint_id,
                epoch=1 if before is None else before.epoch + 1,
                job=job,
                host=socket.gethostname(),
                process=os.getpid(),
                started_ms=started_ms,
            )
            self._storage.put_new(_path(owner.epoch), msgspec.json.encode(owner))
            # Read in any case: a put whose response was lost has created the file, and a store without
            # conditional puts may have replaced it.
            if self._read(owner.epoch) != owner:
                continue
            epochs = self._epochs()
            if max(epochs) == owner.epoch:
                for epoch in epochs - {owner.epoch}:
                    self._storage.remove(_path(epoch))
                return owner
            # Other jobs claimed this epoch and the next, and removed its file, after it was listed.
            self._storage.remove(_path(owner.epoch))

    def _ended_owner(self, *, is_free: bool) -> Owner | None:
        """The newest owner, which has ended or does not renew its file; None if there was none."""
        found = self._newest()
        if found is not None and self._beside is not None and found.job == self._beside.job_before:
            return found  # its checkpoint has been taken over
        if not (found is None or found.is_ended or is_free):
            _log.warning(
                "%s was left by %s; waiting up to %.0f s for its renewal", self._shown, found, self._stale_s
            )
        deadline_s = time.monotonic() + self._stale_s
        while not (found is None or found.is_ended or is_free):
            is_stopped = self._stop.wait(self._stale_s / _POLLS)
            newest = self._newest()
            if is_stopped or (newest is not None and newest != found and not newest.is_ended):
                raise self._in_use(newest or found)
            found, is_free = newest, time.monotonic() >= deadline_s
        return found

    def _newest(self) -> Owner | None:
        while epochs := self._epochs():
            if (owner := self._read(max(epochs))) is not None:
                return owner
        return None

    def _epochs(self) -> set[int]:
        return {int(found[1]) for found in map(_FILE.fullmatch, self._storage.files(_DIRECTORY)) if found}

    def _read(self, epoch: int) -> Owner | None:
        """The owner of an epoch; None if a later one has removed its file."""
        try:
            return msgspec.json.decode(self._storage.read(_path(epoch)), type=Owner)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise SparkJobError(
                f"{self._storage.shown(_path(epoch))} is damaged: {error}. Remove it if no job uses the "
                f"{self._kind}"
            ) from error

    def _put(self, owner: Owner) -> None:
        self._owner = owner
        self._storage.put(_path(owner.epoch), msgspec.json.encode(owner))

    def _in_use(self, owner: Owner | None) -> CheckpointClaimedError:
        by = "another job" if owner is None else owner
        return CheckpointClaimedError(f"the {self._kind} {self._shown} is in use by {by}")

    def _locked(self) -> int | None:
        """Descriptor of the locked file; None if the checkpoint is elsewhere, or its disk has no locks."""
        path = self._storage.local_path(_LOCK)
        if path is None:
            return None
        try:
            make_directories(path.parent)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise SnapshotError(f"cannot write {path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise self._in_use(self._newest()) from error
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)


def _path(epoch: int) -> str:
    return f"{_DIRECTORY}/{epoch:010d}.json"
