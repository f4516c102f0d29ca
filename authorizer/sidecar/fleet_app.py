"""FleetApp: several clusters at one address, selected by the path prefix ``/clusters/NAME``.

A path with the prefix is answered as by a sidecar of that cluster alone: by its node, with the rights that
its ACLs give to the caller. A path without it is about all clusters, and shows only what needs no rights.
The socket in a log's directory serves only that log's cluster (``server``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.routing import Route

from authorizer.api.cluster_name import CLUSTERS_PATH
from authorizer.api.http.answers.node import FleetReadiness, FleetState, Liveness, Readiness
from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.app import NODE_OPERATIONS, SidecarApp
from authorizer.sidecar.base_app import PUBLIC_PATHS, BaseApp, not_ready_error
from authorizer.sidecar.http.errors import HttpError
from authorizer.sidecar.http.request_metrics import OTHER, RequestMetrics
from authorizer.sidecar.http.request_response import error_response, json_response
from authorizer.sidecar.routes.endpoint import Endpoint, declare_endpoint, endpoints_of, operations, routes_of
from authorizer.sidecar.routes.node_routes import (
    AUTHZEN_CONFIGURATION_PATH,
    MetricsText,
    liveness_response,
    member_readiness,
    member_state,
)
from authorizer.sidecar.routes.openapi import fleet_document
from authorizer.sidecar.workers.worker_api import FleetNodes

if TYPE_CHECKING:
    from prometheus_client.registry import Collector
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from authorizer.node.fleet import Fleet, Member
    from authorizer.node.node import Node
    from authorizer.sidecar.auth.authenticator import Authenticator
    from authorizer.sidecar.http.limits import LoadLimiter
    from authorizer.sidecar.route_group import RouteGroup, RouteGroupFactory
    from authorizer.sidecar.workers.worker_fanout import WorkerFanout

_CLUSTER_PATH: Final = re.compile(CLUSTERS_PATH + r"([^/]*)(/.*)?", re.DOTALL)
#: RFC 8615 puts the well-known path before the resource's own path (AuthZEN 1.0, section 9).
_CLUSTER_CONFIGURATION_PATH: Final = re.compile(
    re.escape(AUTHZEN_CONFIGURATION_PATH) + CLUSTERS_PATH + r"([^/]+)"
)
#: Characters of a caller's text in an error.
_SHOWN_MAX: Final = 80


class FleetApp(BaseApp):
    """The application of a fleet, which dispatches to those of its clusters."""

    def __init__(
        self,
        fleet: Fleet,
        authenticator: Authenticator,
        load: LoadLimiter,
        peers: WorkerFanout | None = None,
        groups: RouteGroupFactory | None = None,
    ) -> None:
        """Create the handlers and their routes; ``groups`` create additional ones, such as the console's."""
        super().__init__(authenticator, load, RequestMetrics())
        self._metrics_text = MetricsText(self._collected, load.rendering)
        self._fleet = fleet
        self._nodes = FleetNodes(fleet)
        self._peers = peers
        self._groups = groups
        self._requests = {name: RequestMetrics() for name in fleet.members}
        fleet.collector.extra_collectors += [(None, self.requests), *self._requests.items()]
        routes = [*routes_of(self, BaseApp), *routes_of(self, FleetApp)]
        self._set_routes(routes, None if groups is None else groups.for_fleet(fleet))
        self._unavailable_apps = {
            member.name: UnavailableApp(member, authenticator, load, self._requests[member.name], self._group)
            for member in fleet.members.values()
        }
        self._apps: dict[str, BaseApp] = dict(self._unavailable_apps)
        self._document = fleet_document(FLEET_OPERATIONS, NODE_OPERATIONS, PUBLIC_PATHS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or dispatch it to its cluster's application."""
        name, path = _split_cluster_path(scope["path"])
        app = self._apps.get(name)
        if app is None:
            await super().__call__(scope, receive, send)
            return
        scope["path"] = path
        scope["state"]["prefix"] = CLUSTERS_PATH + name
        await app(scope, receive, send)

    def endpoint(self, path: str) -> str:
        name, path_in_cluster = _split_cluster_path(path)
        app = self._apps.get(name)
        if app is None:
            return super().endpoint(path)
        endpoint = app.endpoint(path_in_cluster)
        return OTHER if endpoint == OTHER else f"{CLUSTERS_PATH}{{cluster}}{endpoint}"

    def attach(self, member: Member, node: Node) -> SidecarApp:
        """Create the application of a cluster's node and dispatch to it. Thread-safe."""
        peers = None if self._peers is None else self._peers.of(member.name)
        other_members = {name: each for name, each in self._fleet.members.items() if each is not member}
        app = SidecarApp(
            node,
            self.authenticator,
            self.load,
            self._requests[member.name],
            peers,
            self._groups,
            cluster=member.name,
            other_clusters=other_members,
        )
        self._apps[member.name] = app
        prefix = f"{CLUSTERS_PATH}{member.name}".encode("ascii")
        of_node = {prefix + path: each for path, each in app.inline_endpoints.items()}
        self.inline_endpoints.update(of_node)
        return app

    def detach(self, member: Member) -> None:
        """Answer requests to a cluster with the reason why it has no node. Thread-safe."""
        prefix = f"{CLUSTERS_PATH}{member.name}/".encode("ascii")
        for path in [path for path in tuple(self.inline_endpoints) if path.startswith(prefix)]:
            del self.inline_endpoints[path]
        detached = self._apps[member.name]
        self._apps[member.name] = self._unavailable_apps[member.name]
        detached.end_streams()

    def end_streams(self) -> None:
        for app in tuple(self._apps.values()):
            app.end_streams()
        super().end_streams()

    def error_response_for(self, error: Exception, path: str, method: str) -> Response:
        """Return the error in the form for the path in the cluster."""
        return error_response(self._answer_for(error, path, method), _split_cluster_path(path)[1])

    def _not_found_error(self, path: str) -> HttpError:
        names = ", ".join(self._fleet.members)
        if _CLUSTER_PATH.fullmatch(path) or _CLUSTER_CONFIGURATION_PATH.fullmatch(path):
            cluster = _split_cluster_path(path)[0][:_SHOWN_MAX]
            return HttpError(ErrorCode.NOT_FOUND, f"there is no cluster `{cluster}` here; there are {names}")
        return HttpError(
            ErrorCode.NOT_FOUND,
            f"there is nothing at {path}: this sidecar has several clusters, so name one, as in "
            f"{CLUSTERS_PATH}NAME{path}; there are {names}. See {', '.join(self._methods())}",
        )

    def _not_ready_reason(self) -> str:
        return _reason(self._nodes.readiness()) or ""

    @declare_endpoint(
        "GET",
        "/v1/state",
        "The status of each cluster",
        FleetState,
        description="Of a cluster that could not be opened only its log, and the reason",
    )
    async def _state(self, _request: Request) -> Response:
        members = self._fleet.members.values()
        return json_response(FleetState([member_state(member) for member in members]))

    @declare_endpoint(
        "GET", "/livez", "Whether the process answers", Liveness, description="It does", not_ready=Liveness
    )
    async def _livez(self, _request: Request) -> Response:
        return liveness_response(self.load)

    @declare_endpoint(
        "GET",
        "/readyz",
        "Whether every cluster's node may decide, and which may not",
        FleetReadiness,
        description="They may",
        not_ready=FleetReadiness,
    )
    async def _readyz(self, _request: Request) -> Response:
        found = self._nodes.readiness() if self._peers is None else await self._peers.readiness()
        reason = _reason(found)
        answer = FleetReadiness(reason is None, dict(found), reason)
        return json_response(answer, HTTPStatus.OK if answer.ready else HTTPStatus.SERVICE_UNAVAILABLE)

    @declare_endpoint("GET", "/metrics", "Metrics for Prometheus", str, media_type="text/plain")
    async def _metrics(self, _request: Request) -> Response:
        return await self._metrics_text.response()

    async def _collected(self) -> Collector:
        return self._fleet.metrics if self._peers is None else await self._peers.metrics()

    @declare_endpoint("GET", "/openapi.json", "This document", dict[str, Any])
    async def _describe(self, _request: Request) -> Response:
        return json_response(self._document)


class UnavailableApp(BaseApp):
    """Answers for a cluster without a node: live, but not ready, with the reason."""

    def __init__(
        self,
        member: Member,
        authenticator: Authenticator,
        load: LoadLimiter,
        requests: RequestMetrics,
        group: RouteGroup | None,
    ) -> None:
        """``group``: the fleet's; its public requests need no authentication here either."""
        super().__init__(authenticator, load, requests)
        self._group = group
        self._member = member
        self._set_routes([Route("/livez", self._livez), Route("/readyz", self._readyz)])

    def end_streams(self) -> None:
        """Do nothing: the fleet closes the group."""

    async def _livez(self, _request: Request) -> Response:
        return liveness_response(self.load)

    async def _readyz(self, _request: Request) -> Response:
        return json_response(member_readiness(self._member), HTTPStatus.SERVICE_UNAVAILABLE)

    def _not_found_error(self, path: str) -> HttpError:
        return not_ready_error(self._not_ready_reason())

    def _not_ready_reason(self) -> str:
        return self._member.reason


def _reason(found: Mapping[str, Readiness]) -> str | None:
    """Why not all clusters are ready."""
    return "; ".join(f"{name}: {each.reason}" for name, each in found.items() if not each.ready) or None


def _split_cluster_path(path: str) -> tuple[str, str]:
    """Return the cluster name of a path and the path in the cluster; an empty name if it has none."""
    if matched := _CLUSTER_PATH.fullmatch(path):
        return matched[1], matched[2] or "/"
    if matched := _CLUSTER_CONFIGURATION_PATH.fullmatch(path):
        return matched[1], AUTHZEN_CONFIGURATION_PATH
    return "", path


#: A fleet's own endpoints, by method and path; its clusters have NODE_OPERATIONS.
FLEET_OPERATIONS: Final[Mapping[tuple[str, str], Endpoint]] = operations(
    found for group in (BaseApp, FleetApp) for found in endpoints_of(group)
)
