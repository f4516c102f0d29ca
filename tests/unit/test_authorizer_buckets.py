"""Buckets: small and crowded ones hold the same, whoever asks."""

from __future__ import annotations

from itertools import product

import pytest

from authorizer.buckets import SMALL_MAXIMUM, Bucket, CrowdedBucket, acls_for, by_host, replacing
from snapshot.image import AppliedAcl
from support.decisions import READ, allow, topic

PRINCIPALS = [f"User:{number}" for number in range(20)]
HOSTS = ["*", "h1", "h2", "h3", "h4"]
ACLS = [
    AppliedAcl(allow(principal, READ, topic("t"), host), offset, 0)
    for offset, (principal, host) in enumerate(product(PRINCIPALS, HOSTS))
]


@pytest.mark.parametrize("count", [1, SMALL_MAXIMUM, SMALL_MAXIMUM + 1, len(ACLS)])
def test_a_bucket_holds_what_was_put_in(count: int) -> None:
    """By principal and host; a crowd from SMALL_MAXIMUM on; nothing is left when all are gone."""
    bucket: Bucket | None = None
    for acl in ACLS[:count]:
        bucket = replacing(bucket, None, acl)
    assert bucket is not None
    assert isinstance(bucket, CrowdedBucket) is (count > SMALL_MAXIMUM)
    assert {acl.offset for acl in bucket} == set(range(count))
    for principal, host in product([*PRINCIPALS, "User:x"], [*HOSTS, "other"]):
        mine = [acl for acl in ACLS[:count] if acl.record.principal == principal]
        expected = [acl for acl in mine if acl.record.host in ("*", host)]
        found = sorted(acls_for(bucket, principal, host), key=lambda acl: acl.offset or 0)
        assert found == expected
        assert dict(by_host(bucket, principal).items()) == {acl.record.host: (acl,) for acl in mine}
    for acl in ACLS[:count]:
        assert bucket is not None
        bucket = replacing(bucket, acl, None)
    assert bucket is None


def test_a_crowd_replaces_an_acl_by_its_id() -> None:
    """An equal one under another id stays (I8); one that moves to another host is found there."""
    crowd = CrowdedBucket.of(ACLS)
    twin = AppliedAcl(allow("User:0", READ, topic("t"), "h1"), 1_000, 0)
    both = crowd.replacing(None, twin)
    assert both is not None
    moved = AppliedAcl(allow("User:0", READ, topic("t"), "h9"), 1_001, 0)
    after = both.replacing(ACLS[1], moved)
    assert after is not None
    assert [acl.offset for acl in by_host(after, "User:0").get("h1") or ()] == [1_000]
    assert [acl.offset for acl in by_host(after, "User:0").get("h9") or ()] == [1_001]
    assert len(list(crowd)) == len(ACLS)
