"""Queries about a complete set: its effective permissions, a change, who can do something below a prefix.

No other tool answers them. They are compared with an enumeration: decisions for every principal, name and
host that an ACL mentions, and one new one each, for one operation. It would take too long, so a sample of its
requests is timed and extrapolated to all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from authorizer.analysis.permissions.access_queries import permitted_principals
from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.permissions.decision_changes import decision_changes_by
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.api.authorizer_api import Action, RequestContext
from authorizer.engine.decisions.authorize import decide
from authorizer.engine.decisions.state import AuthorizerState
from benchmarks.arena import Arena
from benchmarks.cases import commands
from benchmarks.figures import Goal, Row, Spread, alternate, faster
from benchmarks.settings import progress
from benchmarks.stored import EDITS
from records.acl import AclOperation, PatternType, ResourcePattern, ResourceType
from records.columns.acl_table import AclTable
from records.principal import parse_kafka_principal

_SAMPLE = 2_000
_FRESH = 1
_OPERATION = AclOperation.WRITE
_MS_PER_S = 1000
_GOALS = {
    "meaning": Goal("at most", 10, of="ours"),
    "diff": Goal("at most", 100, of="ours"),
    "who-can": Goal("at most", 50, of="ours"),
}


class _Enumeration(NamedTuple):
    """All possible requests, of which a sample is timed."""

    principals: list[str]
    names: list[str]
    hosts: list[str]

    @property
    def total(self) -> int:
        return (len(self.principals) + _FRESH) * (len(self.names) + _FRESH) * (len(self.hosts) + _FRESH)

    def seconds(self, state: AuthorizerState, rng: random.Random) -> float:
        """CPU of all requests, extrapolated from a sample."""
        sample = [
            (
                RequestContext(parse_kafka_principal(rng.choice(self.principals)), rng.choice(self.hosts)),
                Action(
                    _OPERATION,
                    ResourcePattern(ResourceType.TOPIC, rng.choice(self.names), PatternType.LITERAL),
                ),
            )
            for _ in range(_SAMPLE)
        ]
        took = _seconds(lambda: [decide(state, *request) for request in sample])
        return took / _SAMPLE * self.total


def measure(arena: Arena) -> Iterator[Row]:
    """The index and the columns are in memory, but for the last: a command, which reads its files."""
    state = arena.ours.authorizer.state
    settings, table = state.settings, state.index.image.merged().columns
    rng = random.Random(16)
    edits = _edits(table, rng)
    prefix = _prefix(table)
    principals = [each for each in table.principals.texts if ":" in each]
    names, hosts = [*table.names.texts], [*table.hosts.texts]
    everything = _Enumeration(principals, names, hosts)
    touched = _Enumeration(sorted(edits.principals), names, hosts)
    below = _Enumeration(principals, [each for each in names if each.startswith(prefix)], hosts)
    permissions = EffectivePermissions.of(table, settings)
    rounds, loads = arena.settings.rounds, arena.settings.loads

    def row(
        what: str, unit: str, goal: str | None, requests: _Enumeration, work: Callable[[], object], times: int
    ) -> Row:
        progress(f"{arena.workload}: {what}")
        scale = _MS_PER_S if unit == "ms" else 1
        other, ours = alternate(
            times, lambda: requests.seconds(state, rng) * scale, lambda: _seconds(work) * scale
        )
        return Row(
            what=what,
            workload=arena.workload,
            unit=unit,
            ours=ours,
            other=other,
            against="enumeration",
            ratio=faster(other, ours),
            goal=None if goal is None else _GOALS[goal],
            note=f"{requests.total:,} requests, extrapolated from {_SAMPLE:,}",
        )

    yield row(
        "the effective permissions",
        "s",
        "meaning",
        everything,
        lambda: EffectivePermissions.of(table, settings),
        loads,
    )
    yield row(
        "their digest", "s", None, everything, lambda: EffectivePermissions.digest_of(table, settings), loads
    )
    yield Row(
        what="the digest of computed effective permissions",
        workload=arena.workload,
        unit="s",
        ours=Spread(tuple(_seconds(lambda: permissions.digest) for _ in range(loads))),
    )
    yield row(
        f"diff after {EDITS} edits",
        "ms",
        "diff",
        touched,
        lambda: decision_changes_by(edits, table, settings),
        rounds,
    )
    yield row(
        "who-can on a prefix",
        "ms",
        "who-can",
        below,
        lambda: [*permitted_principals(table, settings, ResourceType.TOPIC, (prefix, False), _OPERATION)],
        rounds,
    )
    yield from commands.measure_diff(arena)


def _edits(table: AclTable, rng: random.Random) -> ChangedAcls:
    """Half of them take an ACL away, half narrow one to a host."""
    rows = sorted(rng.sample(range(len(table)), EDITS))
    removed, narrowed = table.take(rows[: EDITS // 2]), table.take(rows[EDITS // 2 :])
    added = [replace(acl, record=replace(acl.record, host="10.255.255.1")) for acl in narrowed]
    return ChangedAcls(removed, AclTable.of(added))


def _prefix(table: AclTable) -> str:
    """Of the names of one team's one domain: what people ask about."""
    dotted = (name for name in table.names.texts if name.count(".") > 1)
    return ".".join(next(dotted).split(".")[:2]) + "."


def _seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began
