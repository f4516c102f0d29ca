"""The index, compared with a naive scan after any history: decisions, rules, listings, by-resource-type."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import snapshot.image
from authorizer.api.audit_levels import OFF
from authorizer.api.authorizer_api import AuthorizationResult
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.authorize import authorize_actions
from authorizer.engine.decisions.decision import DecisionCounts
from authorizer.engine.decisions.listing import entry_order, list_acls, utf16
from authorizer.engine.decisions.state import AuthorizerState
from authorizer.engine.explanation.near_misses import NearMiss
from authorizer.node.standard_authorizer import StandardAuthorizer
from records.acl import AclBindingFilter, AclOperation, PatternType, ResourceType
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from records.log_batch import LogRecord
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support import naive
from support.acl_strategies import IDS, acls, filters, naive_requests, request_of
from support.limits import make_small

SUPER_USERS = frozenset({"User:b", "User:a:b"})


class Earlier(NamedTuple):
    """A state that a reader still holds, and the ACLs that it had."""

    state: AuthorizerState
    acls: list[AccessControlEntryRecord]


class Authorizer(RuleBasedStateMachine):
    """Updates of all sizes, each followed by any request; a dict is the reference.

    The index's structures for many entries are in use from two entries on in half of the runs; in half of
    them changes are merged into columns now and then, in the others only when a rule says so.
    """

    def __init__(self) -> None:
        super().__init__()
        self.acls: dict[Uuid, AccessControlEntryRecord] = {}
        self.image = AclsImage.EMPTY
        self.earlier: list[Earlier] = []
        self.settings = naive.Settings(SUPER_USERS)
        self.authorizer = StandardAuthorizer(audit=AuditLog(OFF))
        self.authorizer.on_ready()
        self.patches = pytest.MonkeyPatch()

    def teardown(self) -> None:
        self.patches.undo()

    @initialize(tiny=st.booleans(), merging=st.booleans(), allow_everyone=st.booleans())
    def begin(self, tiny: bool, merging: bool, allow_everyone: bool) -> None:
        self.settings = naive.Settings(SUPER_USERS, allow_everyone)
        self.authorizer.configure(
            {"super.users": ";".join(SUPER_USERS), "allow.everyone.if.no.acl.found": str(allow_everyone)}
        )
        if tiny:
            make_small(self.patches)
        if merging:
            self.patches.setattr(snapshot.image, "_MERGE_MINIMUM", 6)

    @rule(batches=st.lists(st.lists(acls() | st.sampled_from(IDS), min_size=1, max_size=8), max_size=3))
    def publish(self, batches: list[list[AccessControlEntryRecord | Uuid]]) -> None:
        """Additions, replacements, and removals of ids that may be unknown; no request between batches."""
        for changes in batches:
            delta = AclsDelta(self.image)
            offset = self.image.provenance.end_offset
            for change in changes:
                if isinstance(change, AccessControlEntryRecord):
                    self.acls[change.id] = change
                    delta.replay(LogRecord(offset, 0, change))
                else:
                    self.acls.pop(change, None)
                    delta.replay(LogRecord(offset, 0, RemoveAccessControlEntryRecord(change)))
                offset += 1
            self._publish(delta, offset)

    @rule()
    def remove_all(self) -> None:
        delta = AclsDelta(self.image)
        offset = self.image.provenance.end_offset
        for acl_id in self.acls:
            delta.replay(LogRecord(offset, 0, RemoveAccessControlEntryRecord(acl_id)))
        self.acls.clear()
        self._publish(delta, offset + 1)

    @rule()
    def reload(self) -> None:
        """As after a snapshot: a delta from the empty image, which rebuilds the index."""
        delta = AclsDelta(AclsImage.EMPTY)
        for acl in self.image:
            delta.put(acl)
        self._publish(delta, self.image.provenance.end_offset)

    @rule(settle=st.booleans())
    def restart(self, settle: bool) -> None:
        """As at a start from a snapshot: all ACLs are rows, or some are still changes on top of rows."""
        self.image = self.image.merged() if settle else self.image
        self._give(AclsDelta.between(AclsImage.EMPTY, self.image))

    @rule()
    def retain(self) -> None:
        """A slow request still has this state."""
        self.earlier.append(Earlier(self.authorizer.state, list(self.acls.values())))
        del self.earlier[:-3]

    @rule(requests=st.lists(naive_requests(), min_size=2, max_size=10))
    def ask_earlier(self, requests: list[naive.Request]) -> None:
        """An earlier state gives the same answers, whether or not its principals had earlier requests."""
        for state, truth in self.earlier:
            for request in requests:
                context, action = request_of(request)
                allowed, kind = naive.decide(truth, request, self.settings)
                audit, counts = AuditLog(OFF), DecisionCounts()
                (result,) = authorize_actions(state, context, [action], audit, counts)
                assert (result is AuthorizationResult.ALLOWED) is allowed
                decision = self.authorizer.decide(context, action, state)
                assert (decision.is_allowed, decision.rule.value) == (allowed, kind)
                assert state.index.resources.count == len(truth)

    @rule(meant=st.lists(filters(), min_size=2, max_size=10))
    def list_earlier(self, meant: list[AclBindingFilter]) -> None:
        """An earlier state lists the ACLs that it had."""
        for state, truth in self.earlier:
            for acl_filter in meant:
                found = [acl.record.id for acl in list_acls(state.index, acl_filter).acls()]
                assert sorted(found) == sorted(acl.id for acl in naive.listed(truth, acl_filter))

    @rule(requests=st.lists(naive_requests(), min_size=5, max_size=20))
    def ask(self, requests: list[naive.Request]) -> None:
        """authorize() and decide() agree with the definition; decide() names the deciding ACL."""
        truth = list(self.acls.values())
        for request in requests:
            context, action = request_of(request)
            allowed, kind = naive.decide(truth, request, self.settings)
            decision = self.authorizer.decide(context, action)
            # Twice in one request: the second answer may come from a result of the first.
            first, second = self.authorizer.authorize(context, [action, action])
            assert (decision.is_allowed, decision.rule.value) == (allowed, kind)
            assert (
                (first is AuthorizationResult.ALLOWED) is (second is AuthorizationResult.ALLOWED) is allowed
            )
            expected = naive.deciding(truth, request) if kind == "MatchingAcl" else None
            found = None if decision.acl is None else decision.acl.record
            # Any of several equal ACLs may be named.
            assert (found and found.content) == (expected and expected.content)
            assert found is None or found in truth

    @rule(requests=st.lists(naive_requests(), min_size=2, max_size=10))
    def ask_by_resource_type(self, requests: list[naive.Request]) -> None:
        truth = list(self.acls.values())
        for request in requests:
            if request.operation <= AclOperation.ANY or request.resource_type <= ResourceType.ANY:
                continue
            context, action = request_of(request)
            result = self.authorizer.authorize_by_resource_type(
                context, action.operation, action.resource_pattern.resource_type
            )
            allowed = naive.by_resource_type(truth, request, self.settings)
            assert (result is AuthorizationResult.ALLOWED) is allowed

    @rule(meant=st.lists(filters(), min_size=2, max_size=10))
    def list_some(self, meant: list[AclBindingFilter]) -> None:
        """The ACLs that the filter matches, each once, in Kafka's order."""
        truth = list(self.acls.values())
        for acl_filter in meant:
            found = [acl.record for acl in list_acls(self.authorizer.state.index, acl_filter).acls()]
            expected = list(naive.listed(truth, acl_filter))
            assert sorted(acl.id for acl in found) == sorted(acl.id for acl in expected)
            assert found == in_order(found)
            bindings = list(self.authorizer.acls(acl_filter))
            assert len(bindings) == len(set(bindings))
            assert set(bindings) == {acl.binding() for acl in expected}

    @rule(request=naive_requests())
    def explain(self, request: naive.Request) -> None:
        """All matching ACLs are there, and every near miss is one field away from changing the answer."""
        context, action = request_of(request)
        explanation = self.authorizer.explain(context, action)
        if explanation.decision.rule.value == "SuperUser":
            assert (explanation.also_matched, explanation.near_misses) == ((), ())
            return
        truth = list(self.acls.values())
        named = [] if explanation.decision.acl is None else [explanation.decision.acl]
        matched = [acl.record.id for acl in (*named, *explanation.also_matched)]
        assert sorted(matched) == sorted(acl.id for acl in naive.matching(truth, request))
        for miss in explanation.near_misses:
            acl = miss.acl.record
            assert naive.is_allow(acl) is not explanation.decision.is_allowed
            assert naive.matching([acl], request) == []
            assert naive.matching([corrected(miss, request)], request) != []

    @invariant()
    def counts_agree(self) -> None:
        assert self.authorizer.acl_count() == len(self.image) == len(self.acls)

    def _publish(self, delta: AclsDelta, offset: int) -> None:
        self.image = delta.apply(Provenance(offset, 0, 0))
        self._give(delta)

    def _give(self, delta: AclsDelta) -> None:
        self.authorizer.on_update(delta, self.image, None)  # type: ignore[arg-type] # the manifest is not read


def in_order(found: list[AccessControlEntryRecord]) -> list[AccessControlEntryRecord]:
    """By type, then name descending, then entry."""
    found = sorted(found, key=entry_order)
    found.sort(key=lambda acl: utf16(acl.resource_name), reverse=True)
    found.sort(key=lambda acl: ResourceType.from_code(acl.resource_type))
    return found


def corrected(miss: NearMiss, request: naive.Request) -> AccessControlEntryRecord:
    """The ACL with the failed field as the request needs it."""
    acl = miss.acl.record
    fields = {name: getattr(acl, name) for name in acl.__struct_fields__}
    match miss.field:
        case "resourceName":
            fields["resource_name"] = request.name
        case "patternType":
            fields["pattern_type"] = int(PatternType.PREFIXED)
        case "principal":
            fields["principal"] = f"{request.principal_type}:{request.principal_name}"
        case "host":
            fields["host"] = request.host
        case "operation":
            fields["operation"] = int(request.operation)
        case "resourceType":
            fields["resource_type"] = int(request.resource_type)
    return AccessControlEntryRecord(**fields)


TestAuthorizer = Authorizer.TestCase
