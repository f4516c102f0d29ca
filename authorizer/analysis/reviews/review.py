"""Review: the ACLs that recorded requests needed, and those that could be removed.

A request needs an ACL that allows it if no other retained ACL does; the ACL that a log line names does not
matter. Requests of super users, and on names that are open to every principal, need none. Of the other ACLs

- an ALLOW is unused if all allowed requests are allowed without it;
- a DENY is unused if it overlaps no retained ALLOW;
- with ``allow.everyone.if.no.acl.found`` one ACL of each name is retained, so that the plan grants nothing;
- an ACL with an unknown code is retained.

ACLs with equal content under two ids count once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from authorizer.analysis.permissions.witness import decision_arguments
from authorizer.analysis.request_space.name_space import NAME_SPACES
from authorizer.analysis.reviews.minimal_cover import MinimalCover, Need, minimal_cover, narrowest_cover
from authorizer.api.audit_levels import OFF
from authorizer.api.ip_address import address_of, network_of
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.authorize import authorize_actions
from authorizer.engine.decisions.by_resource_type import allows_some_resource
from authorizer.engine.decisions.decision import BY_SUPER_USER, DecidedAction, DecisionCounts
from authorizer.engine.decisions.reason import matching_acls
from authorizer.engine.decisions.rules import allows
from authorizer.engine.index.masks import ALLOW_MASKS, EVERYTHING, acl_mask
from authorizer.engine.index.pattern_keys import LITERAL_PATTERN, has_unknown_code
from records.acl import WILDCARD, AclOperation
from records.principal import WILDCARD_PRINCIPAL
from records.request_line import DEFAULT_ALLOW, SUPER_USER, Logged, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from authorizer.engine.decisions.state import AuthorizerState
    from records.columns.acl_table import AclTable, AppliedAcl
    from records.entries import AccessControlEntryRecord
    from records.request_traffic import Traffic

#: ``needed``: by a request; ``denies``: it overlaps a retained ALLOW; ``closes``: without it a name would be
#: open to every principal; ``unknown``: it has a code that this build does not know.
RetainReason = Literal["needed", "denies", "closes", "unknown"]
#: ``unused``: it allowed nothing; ``covered``: retained ACLs allow the same; ``denies nothing``.
UnusedReason = Literal["unused", "covered", "denies nothing"]

_SILENT: Final = AuditLog(OFF)
_DENY_SHIFT: Final = 16
#: ACLs for other operations imply them, but not for a probe.
_IMPLIED: Final = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)


class RetainedAcl(NamedTuple):
    """An ACL to keep.

    Attributes:
        requests: number of distinct requests that no other retained ACL allows.
        example: the first of them in order.
    """

    acl: AccessControlEntryRecord
    reason: RetainReason
    requests: int = 0
    example: Request | None = None


class UnusedAcl(NamedTuple):
    """An ACL that could be removed."""

    acl: AccessControlEntryRecord
    reason: UnusedReason


class ChangedDecision(NamedTuple):
    """A request with another result now than when it was logged."""

    request: Request
    decisions: int
    is_allowed_now: bool


class RequestCounts(NamedTuple):
    """Number of decisions and of distinct requests in the window."""

    decisions: int
    requests: int


class Review(NamedTuple):
    """The result; ACLs are sorted by content.

    Attributes:
        changed_decisions: requests with another result now.
        by_acls: requests that were allowed, and that needed ACLs allow now.
        by_super_users, by_default: requests that were allowed without an ACL.
        cover: the search for the fewest ACLs; None: ``retained`` are the narrowest.
    """

    unused: list[UnusedAcl]
    retained: list[RetainedAcl]
    changed_decisions: list[ChangedDecision]
    by_acls: RequestCounts
    by_super_users: RequestCounts
    by_default: RequestCounts
    denied: RequestCounts
    cover: MinimalCover | None


def review(
    table: AclTable,
    state: AuthorizerState,
    traffic: Traffic,
    *,
    minimizes_count: bool = False,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Review:
    """Compare the ACLs of ``table``, which are those of ``state``, with the traffic of a window.

    ``minimizes_count``: keep as few ACLs as possible, instead of the narrowest. ``on_progress`` gets the
    number of processed and of all distinct requests.
    """
    acls = _Acls(table)
    requests_seen = _Requests(acls, state)
    # Probes last: other requests decide whether they need an ACL.
    found = sorted(traffic.counts.items(), key=lambda each: each[0].is_probe)
    for number, (logged, decisions) in enumerate(found):
        on_progress(number, len(found))
        requests_seen.add(logged, decisions)
    least = minimal_cover(requests_seen.needs) if minimizes_count else None
    needed = narrowest_cover(requests_seen.needs) if least is None else least.acls
    retained: dict[int, RetainedAcl] = {
        position: RetainedAcl(acls.records[position], "needed") for position in needed
    }
    for need, (requests, example) in requests_seen.needs.items():
        only, *rest = need & needed
        if not rest:
            acl, why, before, first = retained[only]
            retained[only] = RetainedAcl(
                acl, why, before + requests, example if first is None else min(first, example)
            )
    acls.retain_others(retained, closes_names=state.settings.allow_everyone)
    used = frozenset().union(*requests_seen.needs)
    unused = [
        UnusedAcl(acl, ("covered" if position in used else "unused") if allows(acl) else "denies nothing")
        for position, acl in enumerate(acls.records)
        if position not in retained
    ]
    return Review(
        sorted(unused, key=lambda each: each.acl.content),
        sorted(retained.values(), key=lambda each: each.acl.content),
        sorted(requests_seen.changed_decisions),
        requests_seen.answers("acl"),
        requests_seen.answers("super"),
        requests_seen.answers("default"),
        requests_seen.answers("denied"),
        least,
    )


class _Requests:
    """The requests, and the ACLs that satisfy each."""

    def __init__(self, acls: _Acls, state: AuthorizerState) -> None:
        self.needs: dict[Need, tuple[int, Request]] = {}
        self.changed_decisions: list[ChangedDecision] = []
        self._acls = acls
        self._state = state
        self._decisions: Counter[str] = Counter()
        self._requests: Counter[str] = Counter()
        self._named: set[tuple[object, ...]] = set()

    def answers(self, kind: str) -> RequestCounts:
        return RequestCounts(self._decisions[kind], self._requests[kind])

    def add(self, logged: Logged, decisions: int) -> None:
        kind = self._kind(logged, decisions)
        self._decisions[kind] += decisions
        self._requests[kind] += 1

    def _kind(self, logged: Logged, decisions: int) -> str:
        request = logged.request
        if logged.is_allowed and logged.rule == SUPER_USER:
            return "super"
        if logged.is_probe:
            if not logged.is_allowed:
                return "denied"  # a denied probe: its request may have been allowed later
            if request.operation not in _IMPLIED and request[:4] in self._named:
                return "acl"  # the principal was allowed the operation on a name
        context, action = decision_arguments(*request)
        decided: list[DecidedAction] = []
        authorize_actions(self._state, context, (action,), _SILENT, DecisionCounts(), decided)
        (now,) = decided
        if not logged.is_allowed:
            if now.is_allowed:
                self.changed_decisions.append(ChangedDecision(request, decisions, True))
            return "denied"
        if now.cached_decision is BY_SUPER_USER:
            return "super"
        if now.is_allowed and not now.answer:
            return "default"
        if now.is_allowed:
            need = self._acls.allowing(matching_acls(self._state.index, context, action))
            requests, example = self.needs.get(need, (0, request))
            self.needs[need] = requests + 1, min(example, request)
            if not logged.is_probe:
                self._named.add(request[:4])
            return "acl"
        index = self._state.index
        if logged.is_probe and allows_some_resource(index, context.principal, request.host, *request[2:4]):
            return "acl"  # by authorize-by-resource-type, of which Kafka logs no line
        resources = index.resources
        if logged.rule == DEFAULT_ALLOW and not resources.covers(
            request.resource_type, request.resource_name
        ):
            return "default"  # the settings differ from those of the log
        self.changed_decisions.append(ChangedDecision(request, decisions, False))
        return "changed"


class _Acls:
    """The ACLs, the narrowest first, each once; ``records``: the first of equal ACLs."""

    def __init__(self, table: AclTable) -> None:
        distinct: dict[object, AccessControlEntryRecord] = {}
        for acl in table:
            distinct.setdefault(acl.record.content, acl.record)
        self.records = sorted(distinct.values(), key=_breadth)
        self._positions = {record.content: position for position, record in enumerate(self.records)}

    def allowing(self, matching: Iterable[AppliedAcl]) -> Need:
        positions = self._positions
        return frozenset(positions[acl.record.content] for acl in matching if allows(acl.record))

    def retain_others(self, retained: dict[int, RetainedAcl], *, closes_names: bool) -> None:
        """Add the ACLs to keep for other reasons than requests."""
        for position, record in enumerate(self.records):
            if (
                has_unknown_code(record)
                or record.operation not in ALLOW_MASKS
                or record.resource_type not in NAME_SPACES
            ):
                retained.setdefault(position, RetainedAcl(record, "unknown"))
        self._retain_denies(retained)
        if closes_names:
            self._retain_closing(retained)
            self._retain_denies(retained)

    def _retain_denies(self, retained: dict[int, RetainedAcl]) -> None:
        allowing: dict[tuple[int, str], list[AccessControlEntryRecord]] = defaultdict(list)
        for each in retained.values():
            if allows(each.acl):
                allowing[each.acl.resource_type, each.acl.principal].append(each.acl)
                allowing[each.acl.resource_type, ""].append(each.acl)
        for position, record in enumerate(self.records):
            if position in retained or allows(record):
                continue
            principals = (
                ("",) if record.principal == WILDCARD_PRINCIPAL else (record.principal, WILDCARD_PRINCIPAL)
            )
            candidates = (
                acl for each in principals for acl in allowing.get((record.resource_type, each), ())
            )
            if any(_denies_some(record, acl) for acl in candidates):
                retained[position] = RetainedAcl(record, "denies")

    def _retain_closing(self, retained: dict[int, RetainedAcl]) -> None:
        by_pattern: dict[tuple[int, bool, str], list[int]] = defaultdict(list)
        for position, record in enumerate(self.records):
            name, is_prefix = _pattern(record)
            by_pattern[record.resource_type, not is_prefix, name].append(position)
        closed: set[tuple[int, bool, str]] = set()
        # Prefixes before longer prefixes, and prefixes before names.
        for pattern in sorted(by_pattern):
            resource_type, is_name, name = pattern
            positions = by_pattern[pattern]
            lengths = range(len(name) + is_name)
            if any(position in retained for position in positions):
                closed.add(pattern)
            elif not any((resource_type, False, name[:length]) in closed for length in lengths):
                closed.add(pattern)
                position = min(positions, key=lambda each: (allows(self.records[each]), each))
                retained[position] = RetainedAcl(self.records[position], "closes")


def _pattern(record: AccessControlEntryRecord) -> tuple[str, bool]:
    """A name or a prefix, and whether it is a prefix; the empty prefix stands for all names."""
    if record.pattern_type == LITERAL_PATTERN:
        return ("", True) if record.resource_name == WILDCARD else (record.resource_name, False)
    return record.resource_name, True


def _breadth(record: AccessControlEntryRecord) -> tuple[object, ...]:
    """Sort key: principals, names, operations, hosts; the narrowest first."""
    name, is_prefix = _pattern(record)
    return (
        record.principal == WILDCARD_PRINCIPAL,
        is_prefix,
        -len(name) if is_prefix else 0,
        (ALLOW_MASKS.get(record.operation, 0) & EVERYTHING).bit_count(),
        record.host == WILDCARD,
        network_of(record.host) is not None,
        record.content,
    )


def _may_share(host: str, other: str) -> bool:
    """Whether two ACLs may match one client."""
    if host == other or WILDCARD in (host, other):
        return True
    one, another = (network_of(each) or address_of(each) for each in (host, other))
    return one is not None and another is not None and (one.is_within(another) or another.is_within(one))


def _denies_some(deny: AccessControlEntryRecord, allow: AccessControlEntryRecord) -> bool:
    """Whether a DENY overlaps an ALLOW of the same type, if their principals overlap."""
    if not acl_mask(deny.operation, deny.permission_type) >> _DENY_SHIFT & ALLOW_MASKS.get(
        allow.operation, 0
    ):
        return False
    if not _may_share(deny.host, allow.host):
        return False
    (denied, denies_prefix), (allowed, allows_prefix) = _pattern(deny), _pattern(allow)
    return (
        denied == allowed
        or (denies_prefix and allowed.startswith(denied))
        or (allows_prefix and denied.startswith(allowed))
    )
