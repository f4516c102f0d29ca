"""General policy engines with the same ACLs: pycasbin and cedarpy, if they are installed.

They are no dependencies of anything; ``make bench`` installs them beside aclog (requirements/bench.lock).
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice

from benchmarks.arena import Arena, DecisionsDifferError, sampled
from benchmarks.figures import Row, Spread, alternate, faster
from benchmarks.requests import Request
from benchmarks.settings import progress
from records.acl import (
    IMPLIES_DESCRIBE,
    IMPLIES_DESCRIBE_CONFIGS,
    WILDCARD,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from records.entries import AccessControlEntryRecord
from records.principal import WILDCARD_PRINCIPAL

_LIST = "distinct"
_COMPARED = 100
_CALLS = {"pycasbin": 50, "cedarpy": 500}

_CASBIN_MODEL = """
[request_definition]
r = principal, host, operation, type, name
[policy_definition]
p = principal, host, operations, type, name, pattern, eft
[policy_effect]
e = some(where (p.eft == allow)) && !some(where (p.eft == deny))
[matchers]
m = (p.principal == r.principal || p.principal == "User:*") && p.type == r.type \
    && (p.host == "*" || p.host == r.host) && covers(p.name, p.pattern, r.name) \
    && has(p.operations, r.operation)
"""


def measure(arena: Arena) -> Iterator[Row]:
    makers = {"pycasbin": _casbin, "cedarpy": _cedar}
    for name, make in makers.items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            ours = Spread.of(arena.our_round(_LIST)())
            yield Row(
                what="decision",
                workload=arena.workload,
                unit="ns",
                ours=ours,
                note=f"{name} is not installed: pip install -r requirements/bench.lock",
            )
            continue
        progress(f"{arena.workload}: {name}")
        decide = make([acl.record for acl in arena.ours.image])
        requests = arena.requests(_LIST)
        _compare(name, arena, decide, sampled(requests, _COMPARED))
        a_round = _timed(decide, requests, _CALLS[name])
        theirs, ours = alternate(arena.settings.rounds, a_round, arena.our_round(_LIST))
        yield Row(
            what="decision",
            workload=arena.workload,
            unit="ns",
            ours=ours,
            other=theirs,
            against=f"{name} {version}",
            ratio=faster(theirs, ours),
            note=f"{_COMPARED} decisions equal",
        )


def _compare(name: str, arena: Arena, decide: Callable[[Request], bool], requests: list[Request]) -> None:
    theirs = "".join("A" if decide(request) else "D" for request in requests)
    ours = arena.ours.decide(requests, allow_everyone=False)
    if theirs != ours:
        raise DecisionsDifferError(f"{name} does not decide as aclog: {theirs} is not {ours}")


def _timed(decide: Callable[[Request], bool], requests: list[Request], calls: int) -> Callable[[], float]:
    endless = cycle(requests)

    def a_round() -> float:
        began = time.thread_time_ns()
        for request in islice(endless, calls):
            decide(request)
        return (time.thread_time_ns() - began) / calls

    return a_round


def operations_of(acl: AccessControlEntryRecord) -> list[str]:
    """Everything that the ACL allows or denies: neither engine knows of ALL, or of operations implied."""
    operation = AclOperation(acl.operation)
    if operation is AclOperation.ALL:
        return [each.name for each in AclOperation if each > AclOperation.ALL]
    names = {operation.name}
    if acl.permission_type == AclPermissionType.ALLOW:
        if operation in IMPLIES_DESCRIBE:
            names.add(AclOperation.DESCRIBE.name)
        if operation in IMPLIES_DESCRIBE_CONFIGS:
            names.add(AclOperation.DESCRIBE_CONFIGS.name)
    return sorted(names)


def _casbin(acls: Sequence[AccessControlEntryRecord]) -> Callable[[Request], bool]:
    casbin = importlib.import_module("casbin")
    model = casbin.Model()
    model.load_model_from_text(_CASBIN_MODEL)
    enforcer = casbin.Enforcer(model)
    enforcer.add_function("covers", _covers)
    enforcer.add_function("has", lambda operations, operation: operation in operations.split("|"))
    for acl in acls:
        enforcer.add_policy(
            acl.principal,
            acl.host,
            "|".join(operations_of(acl)),
            ResourceType(acl.resource_type).name,
            acl.resource_name,
            PatternType(acl.pattern_type).name,
            "allow" if acl.permission_type == AclPermissionType.ALLOW else "deny",
        )

    def decide(request: Request) -> bool:
        context, (action,) = request.context, request.actions
        pattern = action.resource_pattern
        return bool(
            enforcer.enforce(
                str(context.principal),
                context.client_address,
                action.operation.name,
                pattern.resource_type.name,
                pattern.name,
            )
        )

    return decide


def _covers(name: str, pattern: str, requested: str) -> bool:
    return (
        requested.startswith(name) if pattern == PatternType.PREFIXED.name else name in {requested, WILDCARD}
    )


def _cedar(acls: Sequence[AccessControlEntryRecord]) -> Callable[[Request], bool]:
    cedarpy = importlib.import_module("cedarpy")
    policies = cedarpy.PolicySet.from_str("\n".join(map(_cedar_policy, acls)))

    def decide(request: Request) -> bool:
        context, (action,) = request.context, request.actions
        pattern = action.resource_pattern
        cedar_request = {
            "principal": f"Principal::{json.dumps(str(context.principal))}",
            "action": f'Action::"{action.operation.name}"',
            "resource": f'Type::"{pattern.resource_type.name}"',
            "context": {"name": pattern.name, "host": context.client_address},
        }
        return bool(cedarpy.is_authorized(cedar_request, policies, []).allowed)

    return decide


def _cedar_policy(acl: AccessControlEntryRecord) -> str:
    effect = "permit" if acl.permission_type == AclPermissionType.ALLOW else "forbid"
    everyone = acl.principal == WILDCARD_PRINCIPAL
    principal = "principal" if everyone else f"principal == Principal::{json.dumps(acl.principal)}"
    operations = ", ".join(f'Action::"{name}"' for name in operations_of(acl))
    conditions = []
    if acl.pattern_type == PatternType.PREFIXED:
        conditions.append(f'context.name like "{acl.resource_name}*"')
    elif acl.resource_name != WILDCARD:
        conditions.append(f"context.name == {json.dumps(acl.resource_name)}")
    if acl.host != WILDCARD:
        conditions.append(f'context.host == "{acl.host}"')
    when = f" when {{ {' && '.join(conditions)} }}" if conditions else ""
    resource = f'resource == Type::"{ResourceType(acl.resource_type).name}"'
    return f"{effect} ({principal}, action in [{operations}], {resource}){when};"
