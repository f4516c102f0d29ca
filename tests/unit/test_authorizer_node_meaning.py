"""The semantic digest of a node's states, computed from the changes since the last requested one."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.api.errors import AuthorizerNotReadyError
from authorizer.engine.decisions.state import AuthorizerSettings
from authorizer.node.effective_permissions_digest import KnownDigest, NodePermissionsDigest
from authorizer.node.standard_authorizer import StandardAuthorizer
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance, restore_image
from support.waiting import wait_until

TIMEOUT_S = 60


def random_acl(rng: random.Random, number: int) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        Uuid(number.to_bytes(16, "big")),
        rng.choice([ResourceType.TOPIC, ResourceType.GROUP]),
        "".join(rng.choices("ab*", k=rng.randrange(1, 4))),
        rng.choice([PatternType.LITERAL, PatternType.PREFIXED]),
        rng.choice(["User:*", *(f"User:{each}" for each in "abcdefghij")]),
        rng.choice(["*", "*", "10.0.0.1"]),
        rng.choice([AclOperation.READ, AclOperation.WRITE, AclOperation.ALL]),
        rng.choice([AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY]),
    )


def known_at(meaning: NodePermissionsDigest, end_offset: int) -> KnownDigest:
    """Poll until the digest of this state is known."""

    def known() -> KnownDigest | None:
        found = meaning.latest()
        return found if found is not None and found.end_offset == end_offset else None

    return wait_until(known)


@pytest.mark.parametrize("allow_everyone", [False, True])
def test_the_digest_of_every_state_is_right(allow_everyone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It equals the digest of all ACLs; all of them are read only if wildcard-principal ACLs changed."""
    is_complete_digest = []
    digest_of = EffectivePermissions.digest_of

    def counted(table: AclTable, settings: AuthorizerSettings, *principals: Any, **more: Any) -> Any:
        is_complete_digest.append(len(table) > 150 and not principals)
        return digest_of(table, settings, *principals, **more)

    monkeypatch.setattr(EffectivePermissions, "digest_of", staticmethod(counted))
    rng = random.Random(33)
    settings = AuthorizerSettings(frozenset(["User:a"]), allow_everyone=allow_everyone)
    authorizer = StandardAuthorizer()
    authorizer.configure(
        {"super.users": "User:a", "allow.everyone.if.no.acl.found": str(allow_everyone).lower()}
    )
    meaning = NodePermissionsDigest(authorizer)
    assert meaning.latest() is None
    records = [random_acl(rng, number) for number in range(200)]
    image = restored(records)
    authorizer.load(image)
    authorizer.on_ready()
    digests = set()
    for number in range(12):
        end_offset = image.provenance.end_offset
        known = known_at(meaning, end_offset)
        assert known.digest == EffectivePermissions.of(image.merged().columns, settings).digest
        digests.add(known.digest)
        delta = AclsDelta(image)
        for each in range(3):
            delta.put(AppliedAcl(random_acl(rng, rng.randrange(220)), end_offset + each, 0))
        image = delta.apply(Provenance(1000 + number, 1, 0))
        authorizer.load(image)
    assert len(digests) > 3
    assert 0 < sum(is_complete_digest) < len(is_complete_digest)


def test_a_waiting_caller_gets_the_digest_of_its_state() -> None:
    """The first digest is computed from all ACLs, the next from the changed ones; a closed node raises."""
    rng = random.Random(7)
    authorizer = StandardAuthorizer()
    image = restored([random_acl(rng, number) for number in range(50)])
    authorizer.load(image)
    authorizer.on_ready()
    meaning = NodePermissionsDigest(authorizer)
    for number in range(3):
        state = authorizer.state
        digest = meaning.digest_of(state)
        assert digest == EffectivePermissions.digest_of(state.index.image.merged().columns, state.settings)
        assert meaning.latest() == KnownDigest(state.end_offset, digest.combined)
        delta = AclsDelta(image)
        delta.put(AppliedAcl(random_acl(rng, number), number, 0))
        image = delta.apply(Provenance(1000 + number, 1, 0))
        authorizer.load(image)
    meaning.close()
    with pytest.raises(AuthorizerNotReadyError, match="is being closed"):
        meaning.digest_of(authorizer.state)


def test_close_ends_a_running_computation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread stops between two slices, before the interpreter ends."""
    authorizer = StandardAuthorizer()
    authorizer.load(restored([random_acl(random.Random(1), number) for number in range(50)]))
    authorizer.on_ready()
    meaning = NodePermissionsDigest(authorizer)
    has_started, may_continue, slices = threading.Event(), threading.Event(), []
    go_on = meaning._check_cancelled

    def wait_and_continue() -> None:
        has_started.set()
        assert may_continue.wait(TIMEOUT_S)
        slices.append(threading.current_thread())
        go_on()

    monkeypatch.setattr(meaning, "_check_cancelled", wait_and_continue)
    assert meaning.latest() is None
    assert has_started.wait(TIMEOUT_S)
    threading.Timer(0.05, may_continue.set).start()
    meaning.close()
    (thread,) = slices
    assert not thread.is_alive()
    assert meaning.latest() is None


def restored(records: list[AccessControlEntryRecord]) -> AclsImage:
    table = AclTable.of([AppliedAcl(record, None, 0) for record in records])
    return restore_image([table], provenance=Provenance(len(records), 1, 0))
