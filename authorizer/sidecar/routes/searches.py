"""``/access/v1/search/*``: AuthZEN's searches, each page on one state.

The rules:

- A subject search names principals, as a listing of ACLs does, and takes what that takes: Describe on the
  cluster. What a principal may do, and on which resources, anyone may ask about themselves.
- Every result is confirmed by the decider. Subjects and resources that are looked through are neither counted
  nor audited; actions are as KIP-430's operations are.
- A page token goes on in the state that its search began in; when that is not held any more it is 410.
- A type that Kafka does not know has no results; an action that it does not know is a bad request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import UNSET, UnsetType

from authorizer.api.authorizer_api import Action, RequestContext
from authorizer.api.errors import ConfigError
from authorizer.api.http.answers.decisions import (
    ActionResults,
    NamesByResult,
    OperationName,
    ResourceResults,
    ResourceSearchContext,
    ResultPage,
    SearchContext,
    SubjectResults,
    SubjectSearchContext,
    TypedName,
)
from authorizer.api.http.error_code import ErrorCode
from authorizer.configuration.file_version import FileVersion
from authorizer.configuration.keys.names import RESOURCE_NAMES
from authorizer.engine.decisions.authorize import authorized_operations
from authorizer.engine.decisions.search import (
    Subjects,
    allowed_names,
    allowed_prefixes,
    exceptional_names,
    mentioned_names,
)
from authorizer.sidecar.auth.caller_authorization import Caller
from authorizer.sidecar.http.errors import HttpError
from authorizer.sidecar.http.request_decoding import decode_body
from authorizer.sidecar.http.request_response import json_response, origin_of, read_json
from authorizer.sidecar.routes.authzen import (
    ActionSearch,
    AuthzenAliases,
    PageToken,
    ResourceSearch,
    SubjectSearch,
    require_no_as_of,
)
from authorizer.sidecar.routes.endpoint import STATE_ERRORS, declare_endpoint
from records.acl import CLUSTER_NAME, AclOperation, PatternType, ResourcePattern, ResourceType
from records.principal import KafkaPrincipal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from starlette.requests import Request
    from starlette.responses import Response

    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.node.node import Node
    from authorizer.sidecar.routes.request_state import RequestStates

    _Search = SubjectSearch | ResourceSearch | ActionSearch

log = structlog.get_logger(__name__)

#: Of an error.
_ALLOWED: Final = "a file with a resource a line, its type and its name: TOPIC orders"
_CLUSTER: Final = frozenset({CLUSTER_NAME})

_Names = dict[ResourceType, frozenset[str]]


class ResourceNames:
    """Which resources exist, from a file that another program writes; none without a file. Thread-safe.

    Each line has a resource type and a name: ``TOPIC orders``. A cluster's metadata log has its topics and no
    other resources, a log of only ACLs has none. The file is reloaded when it has changed; if it cannot be
    read, the previous names stay in use.
    """

    def __init__(self, path: str | None, key: str) -> None:
        """Read it; a ConfigError names ``key``, the setting that names it."""
        self._path = None if path is None else Path(path)
        # Replaced, never changed.
        self._read: tuple[FileVersion, Mapping[ResourceType, frozenset[str]]] | None = None
        if self._path is not None:
            try:
                self._read = _read(self._path)
            except (OSError, ValueError) as error:
                raise ConfigError(key, str(path), f"{_ALLOWED}; {error}") from error

    def of(self, resource_type: ResourceType) -> frozenset[str] | None:
        """The existing names; None if they are unknown, because the file has none of the type."""
        if resource_type is ResourceType.CLUSTER:
            return _CLUSTER
        if self._path is None or self._read is None:
            return None
        try:
            if FileVersion.of(self._path) != self._read[0]:
                self._read = _read(self._path)
        except (OSError, ValueError) as error:
            log.warning("resource_names_not_read", path=str(self._path), reason=str(error))
        return self._read[1].get(resource_type)


def _read(path: Path) -> tuple[FileVersion, _Names]:
    """Raises ValueError: an invalid line, with its number; or no text."""
    version = FileVersion.of(path)
    names: dict[ResourceType, set[str]] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            kind, _, name = line.rstrip("\r\n").partition(" ")
            if not kind:
                continue
            resource_type = ResourceType.from_name(kind)
            if resource_type <= ResourceType.ANY or not name:
                raise ValueError(f"line {number} is not: {line.rstrip()[:80]}")
            names.setdefault(resource_type, set()).add(name)
    return version, {kind: frozenset(found) for kind, found in names.items()}


_EXAMPLE: Final = {
    "subject": {"type": "User", "id": "alice"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}

_EMPTY_PAGE: Final = ResultPage("", 0)


class SearchRoutes:
    """The handlers of one node."""

    def __init__(self, node: Node, states: RequestStates) -> None:
        """ConfigError: the file of resource names cannot be read."""
        config = node.config
        self._node = node
        self._states = states
        self._aliases = AuthzenAliases.of(config)
        self._names = ResourceNames(config.search_resource_names, RESOURCE_NAMES)

    @declare_endpoint(
        "POST",
        "/access/v1/search/subject",
        "AuthZEN 1.0: the principals that may do an operation to a resource",
        SubjectResults,
        request=SubjectSearch,
        example={**_EXAMPLE, "subject": {"type": "User"}},
        errors=STATE_ERRORS,
    )
    async def subject(self, request: Request) -> Response:
        search = decode_body(await read_json(request), SubjectSearch, request.url.path)

        def require(caller: Caller, *, log_if_allowed: bool = False) -> None:
            caller.require_on_cluster(AclOperation.DESCRIBE, log_if_allowed=log_if_allowed)

        state, token, caller = await self._begin(request, search, "AuthZenSubjectSearch", require)
        require(caller, log_if_allowed=True)
        operation, host = (
            self._aliases.actions[search.action.name],
            self._aliases.addresses[search.context.host],
        )
        pattern = self._pattern(search.resource)
        if pattern is None:
            return json_response(SubjectResults(_EMPTY_PAGE, SubjectSearchContext(*_offsets(state)), []))

        def answer() -> Response:
            kind = self._aliases.principal_type(search.subject.type)
            found = Subjects(state, kind, host, Action(operation, pattern))
            names = found.names(None if token is None else token.after)
            page, page_names = _page(search, state, token, names)
            context = SubjectSearchContext(*_offsets(state), found.is_anyone_allowed)
            results = [TypedName(search.subject.type, name) for name in page_names]
            return json_response(SubjectResults(page, context, results))

        return await asyncio.to_thread(answer)

    @declare_endpoint(
        "POST",
        "/access/v1/search/resource",
        "AuthZEN 1.0: the resources to which a principal may do an operation",
        ResourceResults,
        request=ResourceSearch,
        example={**_EXAMPLE, "resource": {"type": "TOPIC"}, "page": {"limit": 10}},
        errors=STATE_ERRORS,
    )
    async def resource(self, request: Request) -> Response:
        search = decode_body(await read_json(request), ResourceSearch, request.url.path)
        principal = self._principal(search.subject)
        state, token, caller = await self._begin(
            request, search, "AuthZenResourceSearch", lambda caller: caller.require_may_ask_about(principal)
        )
        caller.require_may_ask_about(principal)
        context = RequestContext(principal, self._aliases.addresses[search.context.host])
        operation = self._aliases.actions[search.action.name]
        kind = self._aliases.known_resource_type(search.resource.type)
        if kind is None:
            return json_response(ResourceResults(_EMPTY_PAGE, ResourceSearchContext(*_offsets(state)), []))

        def answer() -> Response:
            names: Collection[str] | None = self._names.of(kind)
            if names is None and kind is ResourceType.TOPIC:  # The log has no resources of other types.
                names = state.index.image.metadata.known_topics
            is_existing = names is not None
            prefixes: NamesByResult | UnsetType = UNSET
            literals: NamesByResult | UnsetType = UNSET
            if names is None:
                names = mentioned_names(state.index, kind)
            after = None
            if token is None:
                by_prefix = allowed_prefixes(state, context, operation, kind)
                prefixes = NamesByResult(*by_prefix)
                if is_existing:
                    literals = NamesByResult(
                        *exceptional_names(state, context, operation, kind, names, by_prefix)
                    )
            else:
                after = token.after
            found = allowed_names(state, context, operation, kind, names, after)
            page, page_names = _page(search, state, token, found)
            about = ResourceSearchContext(
                *_offsets(state), "existing" if is_existing else "acls", prefixes, literals
            )
            results = [TypedName(search.resource.type, name) for name in page_names]
            return json_response(ResourceResults(page, about, results))

        return await asyncio.to_thread(answer)

    @declare_endpoint(
        "POST",
        "/access/v1/search/action",
        "AuthZEN 1.0: the operations that a principal may do to a resource",
        ActionResults,
        request=ActionSearch,
        example={name: value for name, value in _EXAMPLE.items() if name != "action"},
        errors=STATE_ERRORS,
    )
    async def action(self, request: Request) -> Response:
        search = decode_body(await read_json(request), ActionSearch, request.url.path)
        principal = self._principal(search.subject)
        state, token, caller = await self._begin(
            request, search, "AuthZenActionSearch", lambda caller: caller.require_may_ask_about(principal)
        )
        caller.require_may_ask_about(principal)
        context = RequestContext(principal, self._aliases.addresses[search.context.host])
        pattern = self._pattern(search.resource)
        if pattern is None:
            return json_response(ActionResults(_EMPTY_PAGE, SearchContext(*_offsets(state)), []))
        authorize = partial(self._node.authorizer.authorize, state=state)
        supported = state.version.supported_operations(pattern.resource_type)
        (operations,) = authorized_operations(
            authorize, context, pattern.resource_type, [pattern.name], supported
        )
        names = sorted(name for operation in operations for name in self._aliases.action_names(operation))
        after = None if token is None else token.after
        page, page_names = _page(
            search, state, token, (name for name in names if after is None or name > after)
        )
        return json_response(
            ActionResults(page, SearchContext(*_offsets(state)), [OperationName(name) for name in page_names])
        )

    async def _begin(
        self, request: Request, search: _Search, name: str, require: Callable[[Caller], None]
    ) -> tuple[AuthorizerState, PageToken | None, Caller]:
        """Return the state of the page, the token with its start, and the caller with its current rights."""
        require_no_as_of(search.context)
        node, at_offset, token = self._node, search.context.at_offset, None
        if search.page.token:
            token = PageToken.decode(search.page.token, search.id())
            at_offset = token.end_offset - 1
            if node.recent_states.at(token.end_offset) is None:
                raise HttpError(
                    ErrorCode.OFFSET_NOT_HELD,
                    f"the state at offset {at_offset}, which page.token is of, is not held here any more: "
                    "search again without the token",
                )
        origin = origin_of(request)
        state, now = await self._states.states(
            origin,
            lambda now: require(Caller(node, now, origin, name)),
            min_offset=search.context.min_offset,
            at_offset=at_offset,
        )
        return state, token, Caller(node, now, origin, name)

    def _principal(self, subject: TypedName) -> KafkaPrincipal:
        return KafkaPrincipal(self._aliases.principal_type(subject.type), subject.id)

    def _pattern(self, resource: TypedName) -> ResourcePattern | None:
        """The pattern; None for a type that Kafka does not have."""
        kind = self._aliases.known_resource_type(resource.type)
        return None if kind is None else ResourcePattern(kind, resource.id, PatternType.LITERAL)


def _page(
    search: _Search, state: AuthorizerState, token: PageToken | None, found: Iterator[str]
) -> tuple[ResultPage, list[str]]:
    """The page and its results, at most as many as the request allows."""
    names = list(islice(found, search.limit))
    is_last = next(found, None) is None
    last = names[-1] if names else None if token is None else token.after
    next_token = "" if is_last else PageToken(state.end_offset, last, search.id()).encode()
    return ResultPage(next_token, len(names)), names


def _offsets(state: AuthorizerState) -> tuple[int, int]:
    return state.end_offset, state.end_offset
