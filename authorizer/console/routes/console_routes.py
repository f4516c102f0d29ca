"""``/console/v1/*``: the page's requests. Each is computed in a thread, on one state.

- Past states, ACLs and other principals' decisions require Describe on the cluster, by the current ACLs.
  Other callers get only the column of their own decisions, with their own rows.
- Only the visible part is sent: a window of rows and columns, a page of lines.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from authorizer.analysis.history.blame import RequestSubject
from authorizer.analysis.matrix.teams import Teams
from authorizer.analysis.permissions.decision_changes import DecisionChange
from authorizer.analysis.request_space.name_space import NAME_SPACES
from authorizer.api.acl_json import applied_acl_json
from authorizer.api.cluster_name import CLUSTERS_PATH
from authorizer.console.history.history_json import (
    decision_history_json,
    history_state_json,
    state_offset_json,
)
from authorizer.console.history.state_cache import StateCache
from authorizer.console.recent_results import RecentResults
from authorizer.console.routes.access import console_caller
from authorizer.console.routes.allowed import AllowedRoutes
from authorizer.console.routes.decision_changes import (
    ChangePage,
    TemporaryChanges,
    decision_changes_json,
    find_decision_changes,
)
from authorizer.console.routes.findings import FindingsCache, findings_by_acl
from authorizer.console.routes.list_filters import acl_changes_json
from authorizer.console.routes.matrix_window import compute_first_view, window
from authorizer.console.routes.name_search import found_names
from authorizer.console.routes.node_status import NodeStatus
from authorizer.console.routes.plans import PlanRoutes
from authorizer.console.routes.queries import (
    AclsQuery,
    ChangesQuery,
    DecisionChangesQuery,
    DecisionQuery,
    LintQuery,
    MatrixQuery,
    NamesQuery,
    PastStatesQuery,
    TemporaryQuery,
)
from authorizer.console.routes.route_group import APPLY_PATH, PLAN_PATH
from authorizer.console.threads import ComparisonScheduler, run_in_console_thread
from authorizer.engine.decisions.listing import Listing, list_acls
from authorizer.engine.decisions.state import AuthorizerState
from authorizer.engine.index.acl_index import AclIndex
from authorizer.sidecar.auth.caller_authorization import Caller
from authorizer.sidecar.base_app import not_ready_error
from authorizer.sidecar.http.errors import invalid_request
from authorizer.sidecar.http.request_decoding import decode_query
from authorizer.sidecar.http.request_response import json_response
from authorizer.sidecar.route_group import NodeContext
from authorizer.sidecar.routes.kafka_queries import explained_decision
from authorizer.sidecar.routes.node_routes import node_state
from authorizer.sidecar.routes.request_bodies import code_of
from authorizer.sidecar.routes.request_state import ready_state
from records.acl import AclBindingFilter, AclOperation, ResourceType
from records.ids import uuid_to_string

_Query = TypeVar("_Query", bound=msgspec.Struct)

#: Maximum number of listed past states.
_STATES_MAXIMUM: Final = 2_000
_LISTINGS_MAXIMUM: Final = 4


class ConsoleRoutes:
    """The handlers of one node."""

    def __init__(self, context: NodeContext) -> None:
        node = context.node
        self._node = node
        self.node_status = NodeStatus(node, context.peers)
        self._other_clusters = context.other_clusters
        self._teams = Teams(node.config.console_teams)
        self._name_teams = Teams(node.config.console_name_teams)
        self._states = StateCache(node, compute_first_view)
        self.prefetch = self._states.prefetch
        self.close = self._states.close
        self._comparisons = ComparisonScheduler()
        self._plans = PlanRoutes(node, self._states, self._comparisons, context.acls, self._teams)
        self._last_comparison: RecentResults[Hashable, list[DecisionChange]] = RecentResults()
        self._temporary = TemporaryChanges()
        self._findings = FindingsCache(node.config.console_lint_rules)
        self._allowed = AllowedRoutes(
            self._states, self._teams, self._caller, self._respond, node.config.console_requests
        )
        self._listings: RecentResults[tuple[AclIndex, str], Listing] = RecentResults(_LISTINGS_MAXIMUM)

    def handlers(self) -> Mapping[str, Callable[[Request], Awaitable[Response]]]:
        return {
            "/console/v1/now": self.now,
            "/console/v1/moments": self.past_states,
            "/console/v1/matrix": self.matrix,
            "/console/v1/names": self.names,
            "/console/v1/changes": self.changes,
            "/console/v1/flips": self.decision_changes,
            "/console/v1/temporary": self.temporary_changes,
            "/console/v1/acls": self.acls,
            "/console/v1/findings": self.findings,
            "/console/v1/lint": self.lint,
            "/console/v1/ask": self.ask,
            "/console/v1/allowed": self._allowed.allowed,
            **self.node_status.handlers(),
            PLAN_PATH: self._plans.plan,
            APPLY_PATH: self._plans.apply,
        }

    async def now(self, request: Request) -> Response:
        """GET: the node's state, the caller and its rights."""
        caller = self._caller(request)
        return json_response(
            {
                "caller": str(caller.origin.principal),
                "sees_all": caller.may_list(),
                "may_alter": caller.may_alter(),
                "refusal": self._node.refusal,
                "has_teams": self._teams.pattern is not None,
                "has_name_teams": self._name_teams.pattern is not None,
                "cluster": request.scope["state"].get("prefix", "").removeprefix(CLUSTERS_PATH) or None,
                "clusters": list(self._other_clusters),
                **state_offset_json(ready_state(self._node)),
                "state": node_state(self._node),
            }
        )

    async def past_states(self, request: Request) -> Response:
        """GET: the last past states, and the one at a time; with the node's time."""
        query = self._described(request, PastStatesQuery)
        await self._states.wait_for_first_part()
        history = await run_in_console_thread(self._states.history)
        states = history.states[-_STATES_MAXIMUM:]
        return json_response(
            {
                "first_end_offset": states[0].end_offset,
                "origin": history.origin,
                "is_whole": history.is_complete,
                "left_out": len(history.states) - len(states),
                "refusal": history.refusal,
                "progress": history.progress,
                "now": int(time.time() * 1000),
                "at_time": None if query.time is None else history_state_json(history.state_at(query.time)),
                "moments": list(map(history_state_json, states)),
            }
        )

    async def matrix(self, request: Request) -> Response:
        """GET: a window of the matrix."""
        query = decode_query(request.scope["query_string"], MatrixQuery)
        resource_type = code_of(ResourceType, query.type, "type")
        caller = self._caller(request)
        only = None if caller.may_list() else str(caller.origin.principal)
        if only is not None and not (query.at_offset is None and query.since is None):
            caller.require_on_cluster(AclOperation.DESCRIBE)

        def compute() -> dict[str, Any]:
            matrix = self._states.matrix(self._states.state_at(query.at_offset), resource_type)
            before = None
            if query.since is not None:
                before = self._states.matrix(self._states.state_at(query.since), resource_type)
            return window(query, matrix, before, only, self._teams, self._name_teams)

        return await self._respond(compute, is_past=query.at_offset is not None or query.since is not None)

    async def names(self, request: Request) -> Response:
        """GET: principals, teams and names that contain a text."""
        query = self._described(request, NamesQuery)

        def search() -> dict[str, Any]:
            state = self._states.state_at(None)
            matrices = (self._states.matrix(state, each) for each in NAME_SPACES)
            return {"words": found_names(query.text, matrices, query.count, self._teams)}

        return await self._respond(search, is_past=False)

    async def changes(self, request: Request) -> Response:
        """GET: a page of the ACL changes between two states."""
        query = self._described(request, ChangesQuery)

        def list_changes() -> dict[str, Any]:
            states = self._states.history().states
            until = states[-1].end_offset if query.until is None else query.until + 1
            between = [each for each in states if query.after + 1 < each.end_offset <= until]
            return acl_changes_json(between, query, self._teams)

        return await self._respond(list_changes)

    async def decision_changes(self, request: Request) -> Response:
        """GET: the decision changes between two states, or between two clusters of a fleet."""
        query = self._described(request, DecisionChangesQuery)
        other = None if query.cluster is None else self._state_of(query.cluster, request)

        def compare(check_cancelled: Callable[[], None]) -> dict[str, Any]:
            after = self._states.state_at(query.at_offset)
            before = self._states.state_at(query.since) if other is None else other
            changes = self._last_comparison.get_or_compute(
                (before.index, before.settings, after.index, after.settings),
                lambda: find_decision_changes(
                    before, after, self._states.history() if other is None else None, check_cancelled
                ),
            )
            page = ChangePage.of(changes, query, query.count, self._teams)
            return {**state_offset_json(before), **decision_changes_json(page, before, after)}

        return await self._compare(request, compare)

    async def temporary_changes(self, request: Request) -> Response:
        """GET: the classes of requests that were granted and revoked again between two states."""
        query = self._described(request, TemporaryQuery)

        def find(check_cancelled: Callable[[], None]) -> dict[str, Any]:
            ends = self._states.state_at(query.since), self._states.state_at(query.at_offset)
            history = self._states.history()
            return self._temporary.page(history, *ends, query, self._teams, check_cancelled)

        return await self._compare(request, find)

    def _state_of(self, cluster: str, request: Request) -> AuthorizerState:
        """The current state of another cluster of the fleet; requires Describe there, too."""
        member = self._other_clusters.get(cluster)
        if member is None:
            known = ", ".join(self._other_clusters) or "none"
            raise invalid_request(f"no other cluster is named `{cluster[:80]}`; known are: {known}")
        node = member.node
        if node is None:
            raise not_ready_error(member.reason)
        caller = console_caller(node, request)
        caller.require_on_cluster(AclOperation.DESCRIBE)
        return ready_state(node)

    async def acls(self, request: Request) -> Response:
        """GET: a page of the ACLs."""
        query = self._described(request, AclsQuery)

        def list_page() -> dict[str, Any]:
            state = self._states.state_at(query.at_offset)
            listing = self._listing(state, query.containing)
            return {
                **state_offset_json(state),
                "total": len(listing),
                "first": query.first,
                "acls": [applied_acl_json(acl) for acl in listing.part(query.first, query.count)],
            }

        return await self._respond(list_page, is_past=query.at_offset is not None)

    async def findings(self, request: Request) -> Response:
        """GET: the lint findings of the same page of ACLs, by id."""
        query = self._described(request, AclsQuery)

        def find() -> dict[str, Any]:
            state = self._states.state_at(query.at_offset)
            page = self._listing(state, query.containing).part(query.first, query.count)
            found = findings_by_acl(self._findings.get(state), {acl.record.id for acl in page})
            return {uuid_to_string(acl_id): each for acl_id, each in found.items()}

        return await self._respond(find, is_past=query.at_offset is not None)

    async def lint(self, request: Request) -> Response:
        """GET: a page of the lint findings, and their number by rule."""
        query = self._described(request, LintQuery)

        def find() -> dict[str, Any]:
            state = self._states.state_at(query.at_offset)
            return {**state_offset_json(state), **self._findings.get(state).page(query, self._teams)}

        return await self._respond(find, is_past=query.at_offset is not None)

    async def ask(self, request: Request) -> Response:
        """GET: a decision, its explanation, and every known change of it."""
        query = decode_query(request.scope["query_string"], DecisionQuery)
        caller = self._caller(request)
        context = query.context(self._node.config.sidecar_default_host or "127.0.0.1", caller.context)
        caller.require_may_ask_about(context.principal)
        sees_all = caller.may_list()
        if query.at_offset is not None and not sees_all:
            caller.require_on_cluster(AclOperation.DESCRIBE)

        def explain() -> dict[str, Any]:
            state = self._states.state_at(query.at_offset)
            explained = explained_decision(
                self._node,
                context,
                query.action(),
                state,
                shows_all=sees_all,
                host_assumed=query.host is None,
            )
            answer: dict[str, Any] = msgspec.to_builtins(explained)
            answer |= state_offset_json(state)
            if sees_all:
                subject = RequestSubject(context, query.action(), state.settings)
                answer["history"] = decision_history_json(subject, self._states.history().states)
            return answer

        return await self._respond(explain, is_past=sees_all)

    def _described(self, request: Request, query: type[_Query]) -> _Query:
        """Decode the query of a request that requires Describe on the cluster."""
        decoded = decode_query(request.scope["query_string"], query)
        self._caller(request).require_on_cluster(AclOperation.DESCRIBE)
        return decoded

    async def _compare(
        self, request: Request, work: Callable[[Callable[[], None]], dict[str, Any]]
    ) -> Response:
        """Run a comparison of states (``ComparisonScheduler.run``)."""
        await self._states.wait_for_first_part()
        with self._states.request_in_progress():
            return json_response(await self._comparisons.run(request, work))

    async def _respond(self, work: Callable[[], dict[str, Any]], *, is_past: bool = True) -> Response:
        """Run ``work`` in a thread; ``is_past``: it needs past states."""
        if is_past:
            await self._states.wait_for_first_part()
        with self._states.request_in_progress():
            return json_response(await run_in_console_thread(work))

    def _listing(self, state: AuthorizerState, containing: str) -> Listing:
        """A cached listing: sorting a million ACLs takes a second, searching them a third of one."""

        def compute() -> Listing:
            if containing:
                return self._listing(state, "").containing(containing)
            return list_acls(state.index, AclBindingFilter())

        return self._listings.get_or_compute((state.index, containing), compute)

    def _caller(self, request: Request) -> Caller:
        return console_caller(self._node, request)
