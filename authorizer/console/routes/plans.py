"""``/console/v1/plan`` and ``/console/v1/apply``: show the effect of ACL changes, and apply them.

- A plan requires Describe on the cluster. A plan to apply requires Alter, is made on the current ACLs, and
  only by a node that can change ACLs.
- Apply checks the plan's effective permissions, as for any other plan (`writing.plan_application`).
- Both accept requests of the console's page only (`access.require_same_origin`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from authorizer.analysis.files.desired_state import DesiredStateFile, Scope
from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.permissions.decision_changes import decision_changes_by, widest_change
from authorizer.analysis.permissions.witness import state_for_witnesses
from authorizer.analysis.plans.plan import AclPlan, PlanOrigin, with_replacements
from authorizer.analysis.plans.plan_checks import PlanCounts, PlanWarning, plan_warnings
from authorizer.api.acl_json import acl_json, content_from_json
from authorizer.api.errors import ApiError
from authorizer.console.history.history_json import state_offset_json
from authorizer.console.recent_results import RecentResults
from authorizer.console.routes.access import console_caller, require_same_origin
from authorizer.console.routes.decision_changes import ChangePage, decision_changes_json
from authorizer.console.routes.queries import PlanQuery
from authorizer.console.routes.route_group import PLAN_PATH
from authorizer.console.threads import ComparisonScheduler, run_in_console_thread
from authorizer.engine.acl_validation import HostRules, validate_binding
from authorizer.engine.decisions.notes import unknown_release
from authorizer.node.writing.cluster_plan import NOT_ATOMIC
from authorizer.sidecar.http.errors import invalid_request
from authorizer.sidecar.http.request_decoding import decode_body
from authorizer.sidecar.http.request_response import json_response, read_body
from authorizer.sidecar.routes.request_bodies import plan_of
from records.acl import AclOperation
from records.entries import AccessControlEntryRecord, AclContent
from records.errors import DecodeError
from records.ids import binding_uuid, content_uuid, uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from starlette.requests import Request
    from starlette.responses import Response

    from authorizer.analysis.matrix.teams import Teams
    from authorizer.analysis.permissions.decision_changes import DecisionChange
    from authorizer.console.history.state_cache import StateCache
    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.node.node import Node
    from authorizer.sidecar.routes.acls import AclRoutes
    from records.columns.acl_table import AclTable

#: Name of the pasted text in errors.
_TEXT: Final = "the text"
#: Maximum number of ACLs on a page.
_LISTED_MAXIMUM: Final = 200


class PlanRoutes:
    """The handlers of one node."""

    def __init__(
        self,
        node: Node,
        states: StateCache,
        scheduler: ComparisonScheduler,
        acls: AclRoutes,
        teams: Teams,
    ) -> None:
        self._node = node
        self._teams = teams
        self._states = states
        self._acls = acls
        self._max_removed_percent = node.config.plan_max_removed_percent
        self._scheduler = scheduler
        self._last_preview: RecentResults[Hashable, list[DecisionChange]] = RecentResults()

    async def plan(self, request: Request) -> Response:
        """POST: the effect of changes; with ``to_apply`` also the plan."""
        caller = console_caller(self._node, request)
        require_same_origin(request)
        query = decode_body(await read_body(request), PlanQuery, PLAN_PATH)
        caller.require_on_cluster(AclOperation.DESCRIBE)
        if query.to_apply:
            caller.require_on_cluster(AclOperation.ALTER)
            if self._node.refusal is not None:
                raise invalid_request(self._node.refusal)
            if query.at_offset is not None:
                raise invalid_request("past states cannot be changed: make the plan without at_offset")
        return json_response(await self._scheduler.run(request, partial(self._plan, query)))

    async def apply(self, request: Request) -> Response:
        """POST: apply a plan, completely or not at all."""
        caller = console_caller(self._node, request, "ApplyPlan")
        require_same_origin(request)
        caller.require_on_cluster(AclOperation.ALTER)
        plan = await run_in_console_thread(plan_of, await read_body(request))
        return await self._acls.apply_for(request, caller, plan)

    def _plan(self, query: PlanQuery, check_cancelled: Callable[[], None]) -> dict[str, Any]:
        state = self._states.state_at(query.at_offset)
        image = state.index.image
        settings = state.settings.with_version_of(image)
        notes = [*unknown_release(state)]
        table = image.merged().columns
        changed = _planned_changes(query, state, table, notes.append)
        after = changed.applied_to(table)
        query_json = msgspec.json.encode((query.add, query.remove, query.text, query.everything))
        changes = self._last_preview.get_or_compute(
            (state.index, state.settings, query_json),
            lambda: decision_changes_by(changed, table, settings, check_cancelled),
        )
        page = ChangePage.of(changes, query, query.count, self._teams)
        widest = page._replace(changes=[change for change in [widest_change(changes)] if change])
        witnesses = [change.request_class.witness for change in (*page.changes, *widest.changes)]
        before, after_state = (state_for_witnesses(each, witnesses, settings) for each in (table, after))
        found = {
            **state_offset_json(state),
            "counts": PlanCounts.of(table, changed, after).to_json(self._max_removed_percent),
            "added": _listed(changed.added, query.added_first),
            "removed": _listed(changed.removed, query.removed_first),
            **decision_changes_json(page, before, after_state),
            "widest": decision_changes_json(widest, before, after_state)["flips"],
            "warnings": [_warning(each) for each in plan_warnings(changed, after)],
            "notes": notes,
        }
        if query.to_apply:
            if self._node.log.is_cluster_metadata_log:
                notes.append(NOT_ATOMIC)
            origin = self._origin(state.end_offset)
            known = self._node.permissions_digest.digest_of(state)
            found["plan"] = AclPlan.of(origin, image, changed, state.settings, known, check_cancelled)
        return found

    def _origin(self, end_offset: int) -> PlanOrigin:
        log = self._node.log
        topic_id = uuid_to_string(log.identity.topic_id)
        return PlanOrigin(log.url, log.identity.cluster_id, topic_id, end_offset)


def _planned_changes(
    query: PlanQuery, state: AuthorizerState, table: AclTable, note: Callable[[str], None]
) -> ChangedAcls:
    """Raises HttpError 400: an ACL or a line of the text is invalid."""
    if query.text.strip():
        return _changed_by_text(query, table, note)
    to_add = [_added(query, index, state) for index in range(len(query.add))]
    to_remove = [_removed(acl, index) for index, acl in enumerate(query.remove)]
    changed = ChangedAcls.between(table, with_replacements(table, to_remove, to_add))
    added, removed = ({acl.record.content for acl in each} for each in (changed.added, changed.removed))
    for contents, found, problem in (
        (to_add, added, "is in force already"),
        (to_remove, removed, "is not in force"),
    ):
        for content in contents:
            if content not in found:
                note(f"{_acl_text(content)} {problem}")
    return changed


def _changed_by_text(query: PlanQuery, table: AclTable, note: Callable[[str], None]) -> ChangedAcls:
    lines = [(number, line) for number, line in enumerate(query.text.split("\n"), 1) if line.strip()]
    try:
        file = DesiredStateFile.of(lines, _TEXT)
        scope = Scope() if query.everything and file.steps is None else None
        return file.changes_to(table, scope, note)
    except DecodeError as error:
        raise invalid_request(f"{error}. `aclog plan --help` lists the formats") from error


def _added(query: PlanQuery, index: int, state: AuthorizerState) -> AclContent:
    image = state.index.image
    try:
        binding = query.add[index].binding(f"add[{index}].")
        validate_binding(binding, HostRules.of(state.settings.kafka_version, image))
    except (ApiError, ValueError) as error:
        raise invalid_request(str(error)) from error
    return AccessControlEntryRecord.from_binding(binding_uuid(binding), binding).content


def _removed(acl: dict[str, str], index: int) -> AclContent:
    try:
        return content_from_json(acl)
    except (KeyError, ValueError) as error:
        raise invalid_request(f"remove[{index}] is not an ACL: {error!r}") from error


def _acl_text(content: AclContent) -> str:
    return AccessControlEntryRecord(content_uuid(content), *content).standard_acl()


def _listed(table: AclTable, first: int) -> dict[str, Any]:
    page = slice(first, first + _LISTED_MAXIMUM)
    return {"total": len(table), "first": first, "acls": [*map(acl_json, table.records(page))]}


def _warning(warning: PlanWarning) -> dict[str, Any]:
    return {"text": warning.text, "acl": None if warning.acl is None else acl_json(warning.acl)}
