"""Readers in other threads see only states of the log during thousands of updates.

The writer adds a DENY before the ALLOW that it limits and removes them in reverse, in separate batches
or in one: no reader may see an ALLOW without its DENY. The authorizer has a similar test.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from replay.loader import Loader
from replay.manifest import LoaderManifest
from snapshot.delta import AclsDelta
from snapshot.digest import DIGEST_MASK, acl_hash
from snapshot.image import AclsImage
from support.digests import digest_of
from support.sim_log import SimLog

ROUNDS: Final = 800
NAMES: Final = 8
READERS: Final = 3
DENY: Final = 2
ALLOW: Final = 3
TIMEOUT_S: Final = 60.0


class Holder:
    """Like an authorizer for threads: one reference, assigned by the loader, read by any thread."""

    name = "holder"

    def __init__(self) -> None:
        self.image = AclsImage.EMPTY
        self.updates = 0

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        self.image = image
        self.updates += 1

    def on_ready(self) -> None:
        """Nothing to do."""

    def on_not_ready(self, reason: str) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


def acl(name: int, permission: int) -> AccessControlEntryRecord:
    acl_id = Uuid(bytes([permission, name]) * 8)
    return AccessControlEntryRecord(acl_id, 2, f"topic-{name}", 3, "User:a", "*", 3, permission)


class Writer:
    """Appends rounds, and knows the digest at the end of every batch before it is visible."""

    def __init__(self, log: SimLog, seed: int) -> None:
        self._log = log
        self._random = random.Random(seed)
        self._digest = 0
        self.digests: dict[int, int] = {0: 0}

    def round(self) -> None:
        name = self._random.randrange(NAMES)
        deny, allow = acl(name, DENY), acl(name, ALLOW)
        come = [deny, allow]
        go = [RemoveAccessControlEntryRecord(allow.id), RemoveAccessControlEntryRecord(deny.id)]
        for record in come:
            self._digest = (self._digest + acl_hash(record)) & DIGEST_MASK
        if self._random.random() < 0.5:
            self._append(come, self._digest)
        else:
            self._append(come[:1], (self._digest - acl_hash(allow)) & DIGEST_MASK)
            self._append(come[1:], self._digest)
        self._digest = (self._digest - acl_hash(allow)) & DIGEST_MASK
        self._append(go[:1], self._digest)
        self._digest = (self._digest - acl_hash(deny)) & DIGEST_MASK
        self._append(go[1:], self._digest)

    def _append(
        self, records: list[AccessControlEntryRecord] | list[RemoveAccessControlEntryRecord], digest: int
    ) -> None:
        self.digests[self._log.end_offset + len(records)] = digest
        self._log.append(records)


class Reader:
    """Reads the reference once, as a request does, and checks the complete state."""

    def __init__(self, holder: Holder, writer: Writer) -> None:
        self._holder = holder
        self._writer = writer
        self.states: set[int] = set()
        self.problem: str | None = None

    def read_until(self, done: threading.Event) -> None:
        last = 0
        while self.problem is None and not done.is_set():
            image = self._holder.image
            end_offset = image.provenance.end_offset
            held = {(found.record.resource_name, found.record.permission_type) for found in image}
            self.states.add(end_offset)
            if end_offset < last:
                self.problem = f"went back from {last} to {end_offset}"
            elif digest_of(found.record for found in image) != self._writer.digests.get(end_offset):
                self.problem = f"no state of the log at {end_offset}"
            elif any((name, DENY) not in held for name, permission in held if permission == ALLOW):
                self.problem = f"an ALLOW without its DENY at {end_offset}"
            last = end_offset


@contextmanager
def frequent_switches() -> Iterator[None]:
    """Let the interpreter switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.mark.slow
def test_readers_see_only_states_of_the_log() -> None:
    """I1, I2: one immutable image at a time, at the end of a batch, with its own digest."""
    log = SimLog()
    log.read_bytes_max = 1  # one batch a read, one update a batch
    holder, writer, done = Holder(), Writer(log, seed=20), threading.Event()
    readers = [Reader(holder, writer) for _ in range(READERS)]
    threads = [threading.Thread(target=reader.read_until, args=(done,)) for reader in readers]
    loader = Loader(log, (), [holder])
    with frequent_switches():
        loader.start()
        for thread in threads:
            thread.start()
        try:
            for _ in range(ROUNDS):
                writer.round()
                assert loader.wait_for(log.end_offset - 4, TIMEOUT_S)
            assert loader.wait_for(log.end_offset, TIMEOUT_S)
        finally:
            done.set()
            for thread in threads:
                thread.join(TIMEOUT_S)
            loader.close()
    assert [reader.problem for reader in readers] == [None] * READERS
    assert len(holder.image) == 0
    # The readers have seen many states.
    assert holder.updates > 3 * ROUNDS
    assert min(len(reader.states) for reader in readers) > 10
