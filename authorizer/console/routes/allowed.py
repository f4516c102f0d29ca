"""``/console/v1/allowed``: exact answers for all names with a prefix, or for all principals.

For one principal: whether all, some or no names are allowed, with classes of requests that are decided alike
(names, exceptions, hosts, deciding ACL, and a witness request). Without a principal: all that are allowed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from authorizer.analysis.permissions.access_queries import below_prefix, permitted_principals
from authorizer.analysis.permissions.deciding_acls import DecidingAcls
from authorizer.analysis.permissions.request_class import (
    NameSet,
    PrincipalSet,
    RequestClass,
    describe_hosts,
    describe_operations,
    describe_principal,
    request_classes,
)
from authorizer.analysis.permissions.witness import decide_witness
from authorizer.analysis.request_space.host_answers import NO_OPERATIONS, OPERATION_BITS, subtract
from authorizer.analysis.request_space.name_map import NameMap
from authorizer.analysis.request_space.name_space import NAME_SPACES, Key
from authorizer.api.acl_json import acl_json
from authorizer.console.history.history_json import state_offset_json
from authorizer.console.history.last_used import LastUsedFile
from authorizer.console.history.since_when import AnswerAges
from authorizer.console.recent_results import RecentResults
from authorizer.console.routes.queries import AllowedQuery
from authorizer.engine.index.masks import EVERYTHING
from authorizer.sidecar.http.errors import invalid_request
from authorizer.sidecar.http.request_decoding import decode_query
from authorizer.sidecar.routes.request_bodies import code_of
from records.acl import AclOperation, ResourceType
from records.principal import parse_kafka_principal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from authorizer.analysis.matrix.teams import Teams
    from authorizer.console.history.state_cache import StateCache
    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.engine.index.acl_index import AclIndex
    from authorizer.sidecar.auth.caller_authorization import Caller
    from snapshot.image import AclsImage

#: Maximum number of names of a class, and of exceptions of a name.
_NAMES_MAXIMUM: Final = 20
# Maximum number of cached lists of allowed principals.
_LISTS_MAXIMUM: Final = 4
#: Time of *since when* of one page; later requests of the page get no answer.
SINCE_LIMIT_S: Final = 2.0
#: In place of an operation: any one, in one row for each principal.
ANY_OPERATION: Final = "ANY"


class _Access(NamedTuple):
    """An operation on a name or prefix; None: any one."""

    resource_type: ResourceType
    names: Key
    operation: AclOperation | None


class AllowedRoutes:
    """The handler of one node. Thread-safe."""

    def __init__(
        self,
        states: StateCache,
        teams: Teams,
        caller_of: Callable[[Request], Caller],
        respond: Callable[..., Coroutine[Any, Any, Response]],
        requests_file: str | None,
    ) -> None:
        """``caller_of``: authenticates; ``respond``: runs a function in a thread and returns its response."""
        self._states = states
        self._teams = teams
        self._caller_of = caller_of
        self._respond = respond
        self._requests_file = None if requests_file is None else LastUsedFile(requests_file)
        self._lock = threading.Lock()
        self._ages: RecentResults[tuple[AclsImage, AclsImage, ResourceType], AnswerAges]
        self._ages = RecentResults()
        self._lists: RecentResults[tuple[AclIndex, _Access], list[RequestClass]] = RecentResults(
            _LISTS_MAXIMUM
        )

    async def allowed(self, request: Request) -> Response:
        """GET: the allowed names of a principal, or the allowed principals."""
        query = decode_query(request.scope["query_string"], AllowedQuery)
        access = _access_of(query)
        caller = self._caller_of(request)
        principal: str | None = query.principal or None
        sees_all = caller.may_list()
        if principal is not None:
            principal = str(parse_kafka_principal(principal))
            caller.require_may_ask_about(parse_kafka_principal(principal))
        elif not sees_all:
            principal = str(caller.origin.principal)
        if query.at_offset is not None:
            caller.require_on_cluster(AclOperation.DESCRIBE)

        def compute() -> dict[str, Any]:
            state = self._states.state_at(query.at_offset)
            classes: list[tuple[bool, RequestClass]]
            answer: dict[str, Any] = {**state_offset_json(state), "principal": principal}
            if principal is None:
                classes = [(True, each) for each in self._allowed_principals(state, access)]
            else:
                summary, classes = self._of_one(state, access, principal)
                answer["summary"] = summary
            if query.who:
                who = query.who.casefold()
                classes = [each for each in classes if who in describe_principal(each[1]).casefold()]
            if query.team:
                classes = [each for each in classes if self._is_of_team(each[1].principals, query.team)]
            page = classes[query.first : query.first + query.count]
            acls = DecidingAcls(state.index.image.merged().columns, [each for _, each in page])
            lines = [class_json(state, acls, each, is_allowed=is_allowed) for is_allowed, each in page]
            if sees_all:
                requests = [each for _, each in page]
                for line, since in zip(lines, self._since(state, access, requests), strict=True):
                    line["since"] = since
                if self._requests_file is not None:
                    answer["last_used"] = _add_last_used(self._requests_file, state, page, lines)
            return answer | {"total": len(classes), "first": query.first, "classes": lines}

        return await self._respond(compute, is_past=sees_all)

    def _is_of_team(self, principals: PrincipalSet, team: str) -> bool:
        """Whether a class is of a member; one of every principal is."""
        return principals.principal is None or self._teams.has_member(team, principals.principal)

    def _of_one(
        self, state: AuthorizerState, access: _Access, principal: str
    ) -> tuple[str, list[tuple[bool, RequestClass]]]:
        """Return ``all``, ``some`` or ``none``; and the classes: allowed, then denied for one operation."""
        resource_type, names, operation = access
        (column,) = self._states.matrix(state, resource_type).columns([principal])
        bit = EVERYTHING if operation is None else OPERATION_BITS[operation]
        space = NAME_SPACES[resource_type]
        allowed = below_prefix(column.answers, names, operation, resource_type)
        wanted = NameMap.of(NO_OPERATIONS, [(*names, NO_OPERATIONS if operation is None else bit)], space)
        denied = wanted.combined(allowed, subtract, space)
        principals = PrincipalSet.of(principal)
        classes = [
            (is_allowed, requests)
            for is_allowed, answers in ((True, allowed), (False, denied))
            for requests in request_classes(answers, principals, resource_type)
        ]
        cell = column.cell(names)
        is_all = cell.always & bit == bit
        return "all" if is_all else "some" if cell.sometimes & bit else "none", classes

    def _since(
        self, state: AuthorizerState, access: _Access, requests: Sequence[RequestClass]
    ) -> Iterator[dict[str, Any] | None]:
        """Since when the witnesses have their answers, as known at a state."""
        history = self._states.history()
        index = history.index_at(state.end_offset)
        if index is None or not requests:
            return iter([None] * len(requests))
        states = history.states[: index + 1]
        key = states[0].image, states[-1].image, access.resource_type
        with self._lock:
            ages = self._ages.get_or_compute(key, lambda: AnswerAges(states, access.resource_type))
        return ages.since(requests, state.settings, limit_s=SINCE_LIMIT_S)

    def _allowed_principals(self, state: AuthorizerState, access: _Access) -> list[RequestClass]:
        """The classes of allowed principals, cached for the next page."""

        def compute() -> list[RequestClass]:
            settings = state.settings.with_version_of(state.index.image)
            return list(permitted_principals(state.index.image.merged().columns, settings, *access))

        with self._lock:
            return self._lists.get_or_compute((state.index, access), compute)


def _access_of(query: AllowedQuery) -> _Access:
    operation = (
        None if query.operation == ANY_OPERATION else code_of(AclOperation, query.operation, "operation")
    )
    resource_type = code_of(ResourceType, query.type, "type")
    names = NAME_SPACES[resource_type].pattern(query.name, is_prefix=query.prefix)
    if names is None:
        kind = "begin with" if query.prefix else "have the name"
        raise invalid_request(f"no {resource_type.name} can {kind} `{query.name}`")
    return _Access(resource_type, names, operation)


def _add_last_used(
    file: LastUsedFile,
    state: AuthorizerState,
    page: Sequence[tuple[bool, RequestClass]],
    lines: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Add to the allowed classes when they were last used; return the window of the file, or its error."""
    try:
        last_used = file.read()
    except ValueError as error:
        return {"error": str(error)}
    networks = state.settings.with_version_of(state.index.image).networks
    for (is_allowed, requests), line in zip(page, lines, strict=True):
        line["last_used"] = last_used.of(requests, networks) if is_allowed else None
    return last_used.window_json()


def class_json(
    state: AuthorizerState,
    acls: DecidingAcls,
    requests: RequestClass,
    *,
    is_allowed: bool,
) -> dict[str, Any]:
    """Return the class as text, with the decision of its witness, and the ACLs of its other requests."""
    witness, operation = requests.witness, requests.operations[0]
    decision = decide_witness(state, witness, operation)
    deciding = acls.other_acls(requests, decision, is_allowed=is_allowed)
    return {
        "allowed": is_allowed,
        "who": describe_principal(requests),
        "operations": describe_operations(requests),
        "names_total": len(requests.names),
        "names": [_names_json(each) for each in requests.names[:_NAMES_MAXIMUM]],
        "hosts": describe_hosts(requests),
        "decision": decision.to_json(),
        "other_acls": [*map(acl_json, deciding.acls)],
        "other_acls_complete": deciding.is_complete,
        "witness": {
            "principal": witness.principal,
            "operation": operation.name,
            "name": witness.name,
            "host": witness.host,
        },
    }


def _names_json(names: NameSet) -> dict[str, Any]:
    excluded: Sequence[Key] = names.excluded[:_NAMES_MAXIMUM]
    return {
        "text": names.text,
        "is_name": names.is_name,
        "but": [{"text": text, "is_name": is_name} for text, is_name in excluded],
        "but_total": len(names.excluded),
    }
