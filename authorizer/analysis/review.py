"""Review: the ACLs that recorded requests needed, and those that could be removed.

An ACL is needed by a request that it allows if no other retained ACL allows it: not because a log happens to
name it. Requests of super users, and of what is open to every principal, need none. Of the others

- an ALLOW is unused if all allowed requests are allowed without it;
- a DENY is unused if it overlaps no retained ALLOW;
- with ``allow.everyone.if.no.acl.found`` one ACL stays on each name that had some: the plan grants nothing;
- an ACL with an unknown code stays.

ACLs with equal content under two ids count once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from authorizer.analysis.minimal_cover import MinimalCover, minimal_cover, narrowest_cover
from authorizer.analysis.name_space import NAME_SPACES
from authorizer.analysis.witness import decision_arguments
from authorizer.api.audit_levels import OFF
from authorizer.api.ip_network import address_of, network_of
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
from records.request_line import DEFAULT_ALLOW, SUPER_USER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from authorizer.analysis.minimal_cover import Need
    from authorizer.engine.decisions.state import AuthorizerState
    from records.columns.acl_table import AclTable, AppliedAcl
    from records.entries import AccessControlEntryRecord
    from records.request_line import Logged, Request
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
        requests: different requests that only it allows, of the retained ACLs.
        example: the first of them in order.
    """

    acl: AccessControlEntryRecord
    why: RetainReason
    requests: int = 0
    example: Request | None = None


class UnusedAcl(NamedTuple):
    """An ACL that could be removed."""

    acl: AccessControlEntryRecord
    why: UnusedReason


class ChangedDecision(NamedTuple):
    """A request with another result now than when it was logged."""

    request: Request
    decisions: int
    is_allowed_now: bool


class RequestCounts(NamedTuple):
    """Requests of the window: number of decisions, and of different requests."""

    decisions: int
    requests: int


class Review(NamedTuple):
    """The result; ACLs are sorted by content.

    Attributes:
        by_acls: allowed then, and now by ACLs that are needed.
        by_super_users: allowed then without an ACL, as ``by_default``.
        denied: denied then.
        least: how the fewest ACLs were found; None: ``kept`` are the narrowest.
    """

    unneeded: list[UnusedAcl]
    kept: list[RetainedAcl]
    turned: list[ChangedDecision]
    by_acls: RequestCounts
    by_super_users: RequestCounts
    by_default: RequestCounts
    denied: RequestCounts
    least: MinimalCover | None


def review(
    table: AclTable,
    state: AuthorizerState,
    traffic: Traffic,
    *,
    is_fewest: bool = False,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Review:
    """Compare the ACLs of ``table``, which are those of ``state``, with traffic.

    Args:
        table: by column.
        state: at the same offset.
        traffic: of a window.
        is_fewest: keep as few ACLs as possible, instead of the narrowest.
        on_progress: called with the number of processed requests, and of all different ones.
    """
    acls = _Acls(table)
    seen = _Requests(acls, state)
    # Probes last: other requests decide whether one matters.
    found = sorted(traffic.counts.items(), key=lambda each: each[0].is_probe)
    for number, (logged, decisions) in enumerate(found):
        on_progress(number, len(found))
        seen.look_at(logged, decisions)
    least = minimal_cover(seen.needs) if is_fewest else None
    needed = narrowest_cover(seen.needs) if least is None else least.acls
    kept: dict[int, RetainedAcl] = {place: RetainedAcl(acls.records[place], "needed") for place in needed}
    for need, (requests, example) in seen.needs.items():
        only, *others = need & needed
        if not others:
            acl, why, before, first = kept[only]
            kept[only] = RetainedAcl(
                acl, why, before + requests, example if first is None else min(first, example)
            )
    acls.keep_beside(kept, closes=state.settings.allow_everyone)
    used = frozenset().union(*seen.needs)
    unneeded = [
        UnusedAcl(acl, ("covered" if place in used else "unused") if allows(acl) else "denies nothing")
        for place, acl in enumerate(acls.records)
        if place not in kept
    ]
    return Review(
        sorted(unneeded, key=lambda each: each.acl.content),
        sorted(kept.values(), key=lambda each: each.acl.content),
        sorted(seen.turned),
        seen.answers("acl"),
        seen.answers("super"),
        seen.answers("default"),
        seen.answers("denied"),
        least,
    )


class _Requests:
    """What was asked, and which ACLs would do."""

    def __init__(self, acls: _Acls, state: AuthorizerState) -> None:
        self.needs: dict[Need, tuple[int, Request]] = {}
        self.turned: list[ChangedDecision] = []
        self._acls = acls
        self._state = state
        self._decisions: Counter[str] = Counter()
        self._requests: Counter[str] = Counter()
        self._named: set[tuple[object, ...]] = set()

    def answers(self, kind: str) -> RequestCounts:
        return RequestCounts(self._decisions[kind], self._requests[kind])

    def look_at(self, logged: Logged, decisions: int) -> None:
        """One more of the different requests."""
        kind = self._kind(logged, decisions)
        self._decisions[kind] += decisions
        self._requests[kind] += 1

    def _kind(self, logged: Logged, decisions: int) -> str:
        request = logged.request
        if logged.is_allowed and logged.rule == SUPER_USER:
            return "super"
        if logged.is_probe:
            if not logged.is_allowed:
                return "denied"  # it is, and the request may have been allowed
            if request.operation not in _IMPLIED and request[:4] in self._named:
                return "acl"  # it may do that on a name that it asked for
        context, action = decision_arguments(*request)
        decided: list[DecidedAction] = []
        authorize_actions(self._state, context, (action,), _SILENT, DecisionCounts(), decided)
        (now,) = decided
        if not logged.is_allowed:
            if now.is_allowed:
                self.turned.append(ChangedDecision(request, decisions, True))
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
            return "acl"  # by what Kafka logs no line of
        resources = index.resources
        if logged.rule == DEFAULT_ALLOW and not resources.covers(
            request.resource_type, request.resource_name
        ):
            return "default"  # the settings are others than the log's
        self.turned.append(ChangedDecision(request, decisions, False))
        return "turned"


class _Acls:
    """The ACLs, the narrowest first, each once.

    Attributes:
        records: of equal ACLs the first.
    """

    def __init__(self, table: AclTable) -> None:
        distinct: dict[object, AccessControlEntryRecord] = {}
        for acl in table:
            distinct.setdefault(acl.record.content, acl.record)
        self.records = sorted(distinct.values(), key=_breadth)
        self._places = {record.content: place for place, record in enumerate(self.records)}

    def allowing(self, matching: Iterable[AppliedAcl]) -> Need:
        """Return those of the matching ACLs that allow."""
        places = self._places
        return frozenset(places[acl.record.content] for acl in matching if allows(acl.record))

    def keep_beside(self, kept: dict[int, RetainedAcl], *, closes: bool) -> None:
        """Add what is kept for other reasons than requests."""
        for place, record in enumerate(self.records):
            if (
                has_unknown_code(record)
                or record.operation not in ALLOW_MASKS
                or record.resource_type not in NAME_SPACES
            ):
                kept.setdefault(place, RetainedAcl(record, "unknown"))
        self._keep_denies(kept)
        if closes:
            self._keep_closing(kept)
            self._keep_denies(kept)

    def _keep_denies(self, kept: dict[int, RetainedAcl]) -> None:
        allowing: dict[tuple[int, str], list[AccessControlEntryRecord]] = defaultdict(list)
        for each in kept.values():
            if allows(each.acl):
                allowing[each.acl.resource_type, each.acl.principal].append(each.acl)
                allowing[each.acl.resource_type, ""].append(each.acl)
        for place, record in enumerate(self.records):
            if place in kept or allows(record):
                continue
            whose = (
                ("",) if record.principal == WILDCARD_PRINCIPAL else (record.principal, WILDCARD_PRINCIPAL)
            )
            near = (acl for each in whose for acl in allowing.get((record.resource_type, each), ()))
            if any(_denies_some(record, acl) for acl in near):
                kept[place] = RetainedAcl(record, "denies")

    def _keep_closing(self, kept: dict[int, RetainedAcl]) -> None:
        by_pattern: dict[tuple[int, bool, str], list[int]] = defaultdict(list)
        for place, record in enumerate(self.records):
            name, is_prefix = _pattern(record)
            by_pattern[record.resource_type, not is_prefix, name].append(place)
        closed: set[tuple[int, bool, str]] = set()
        # A prefix before what is below it, and prefixes before names.
        for pattern in sorted(by_pattern):
            resource_type, is_name, name = pattern
            here = by_pattern[pattern]
            lengths = range(len(name) + is_name)
            if any(place in kept for place in here):
                closed.add(pattern)
            elif not any((resource_type, False, name[:length]) in closed for length in lengths):
                closed.add(pattern)
                place = min(here, key=lambda each: (allows(self.records[each]), each))
                kept[place] = RetainedAcl(self.records[place], "closes")


def _pattern(record: AccessControlEntryRecord) -> tuple[str, bool]:
    """A name, or a prefix; the empty prefix for all names."""
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
    places = [network_of(each) or address_of(each) for each in (host, other)]
    one, another = places
    return one is not None and another is not None and (one.is_within(another) or another.is_within(one))


def _denies_some(deny: AccessControlEntryRecord, allow: AccessControlEntryRecord) -> bool:
    """Whether a DENY overlaps an ALLOW of the same type; their principals do."""
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
