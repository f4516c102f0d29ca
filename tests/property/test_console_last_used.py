"""When rights were last used: by random sets of ACLs and requests, compared with brute force."""

from __future__ import annotations

import random

import pytest

from authorizer.analysis.permissions.access_queries import permitted_principals
from authorizer.api.ip_address import EXACT_HOSTS
from authorizer.console.history.last_used import LastUsed
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.request_line import Logged, Request
from records.request_traffic import Span, Traffic
from support.brute_force import EVERY_KIND, NAMES, OPERATIONS, RequestKind, names_by_kind, random_pair
from support.example_counts import examples

GROUP = ResourceType.GROUP


def logged(kind: RequestKind, bit: int, *, is_allowed: bool = True, rule: str = "MatchingAcl") -> Logged:
    request = Request(kind.principal, kind.host, kind.operation, GROUP, NAMES[bit])
    return Logged(request, is_allowed, rule, is_probe=False)


@pytest.mark.slow
def test_a_class_was_used_when_its_last_allowed_request_was_made() -> None:
    rng = random.Random(30)
    found_any = 0
    for _ in range(examples(gate=200, deep=2_000)):
        records, _ = random_pair(rng)
        table = AclTable.of([AppliedAcl(record, None, 0) for record in records])
        traffic = Traffic()
        times: dict[tuple[RequestKind, int], int] = {}
        for at_ms in range(1, 400):
            kind, bit = rng.choice(EVERY_KIND), rng.randrange(len(NAMES))
            times[kind, bit] = at_ms
            traffic.count(logged(kind, bit), 1, Span(0, at_ms))
            # Neither denied requests nor those of super users use an ACL.
            traffic.count(logged(kind, bit, is_allowed=False), 1, Span(0, at_ms + 1_000))
            traffic.count(logged(kind, bit, rule="SuperUser"), 1, Span(0, at_ms + 1_000))
        last_used = LastUsed(traffic)
        operation = rng.choice(OPERATIONS)
        for each in permitted_principals(table, AuthorizerSettings(), GROUP, ("", False), operation):
            names = names_by_kind([each])
            used = (at_ms for (kind, bit), at_ms in times.items() if names[kind] >> bit & 1)
            expected = max(used, default=None)
            assert last_used.of(each, EXACT_HOSTS) == expected, (records, each)
            found_any += expected is not None
    assert found_any > 20
