"""What happens to ACLs in a log that is older than what it adds up to; seeded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import UUID_BYTES, Uuid

ChurnRecord = AccessControlEntryRecord | RemoveAccessControlEntryRecord

_SEED = 6


def churn(acls: Sequence[AccessControlEntryRecord]) -> Iterator[ChurnRecord]:
    """First each of these ACLs is added. Then, without an end, an id is drawn, and something happens to it.

    There are half as many ids again as ACLs. One that is in force is removed or replaced, with equal chances,
    and any other is added; so two of three are in force, and about as many ACLs as there were at first. What
    is written is the content of any of them.
    """
    random = Random(_SEED)
    ids = [acl.id for acl in acls]
    in_force = bytearray(b"\1" * len(acls))
    yield from acls
    for _ in range(len(acls) // 2):
        ids.append(Uuid(random.randbytes(UUID_BYTES)))
        in_force.append(0)
    while True:
        which = random.randrange(len(ids))
        if in_force[which] and random.random() < 0.5:
            in_force[which] = 0
            yield RemoveAccessControlEntryRecord(ids[which])
        else:
            in_force[which] = 1
            content = acls[random.randrange(len(acls))].content
            yield AccessControlEntryRecord(ids[which], *content)
