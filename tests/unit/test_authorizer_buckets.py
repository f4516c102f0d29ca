"""Buckets: small and crowded ones hold the same, whoever asks."""

from __future__ import annotations

from itertools import product

import pytest

from authorizer.index.buckets import (
    SMALL_MAXIMUM,
    Bucket,
    CrowdedBucket,
    acls_for,
    acls_of,
    with_acl,
    without_acl,
)
from records.columns.acl_table import AppliedAcl
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
        bucket = with_acl(bucket, acl)
    assert bucket is not None
    assert isinstance(bucket, CrowdedBucket) is (count > SMALL_MAXIMUM)
    assert {acl.offset for acl in bucket} == set(range(count))
    for principal, host in product([*PRINCIPALS, "User:x"], [*HOSTS, "other"]):
        mine = [acl for acl in ACLS[:count] if acl.record.principal == principal]
        expected = [acl for acl in mine if acl.record.host in ("*", host)]
        found = sorted(acls_for(bucket, principal, host), key=lambda acl: acl.offset or 0)
        assert found == expected
        assert sorted(acls_of(bucket, principal), key=lambda acl: acl.offset or 0) == mine
    for acl in ACLS[:count]:
        assert bucket is not None
        bucket = without_acl(bucket, acl)
    assert bucket is None


@pytest.mark.parametrize("acls", [ACLS, ACLS[:5]])
def test_an_acl_goes_by_its_id(acls: list[AppliedAcl]) -> None:
    """An equal one under another id stays (I8); the bucket that it came from is as it was."""
    before: Bucket | None = None
    for acl in acls:
        before = with_acl(before, acl)
    twin = AppliedAcl(allow("User:0", READ, topic("t"), "h1"), 1_000, 0)
    both = with_acl(before, twin)
    after = without_acl(both, ACLS[1])
    assert before is not None
    assert after is not None
    assert [acl.offset for acl in acls_for(both, "User:0", "h1") if acl.record.host == "h1"] == [1, 1_000]
    assert [acl.offset for acl in acls_for(after, "User:0", "h1") if acl.record.host == "h1"] == [1_000]
    assert len(list(before)) == len(acls)
