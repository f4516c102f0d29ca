"""SidecarApp: the application of one node, with its routes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from authorizer.api.cluster_name import DEFAULT_CLUSTER
from authorizer.sidecar.base_app import PUBLIC_PATHS, BaseApp
from authorizer.sidecar.http.application import InlineEndpoint
from authorizer.sidecar.http.request_response import json_response
from authorizer.sidecar.route_group import NodeContext, RouteGroupFactory
from authorizer.sidecar.routes.acls import AclRoutes
from authorizer.sidecar.routes.changes import ChangeRoutes
from authorizer.sidecar.routes.config_routes import ConfigRoutes
from authorizer.sidecar.routes.confluent_acls import ConfluentAclRoutes
from authorizer.sidecar.routes.endpoint import Endpoint, declare_endpoint, endpoints_of, operations, routes_of
from authorizer.sidecar.routes.evaluations import EVALUATION_PATH, EVALUATIONS_PATH, Evaluations
from authorizer.sidecar.routes.kafka_queries import KafkaQueryRoutes
from authorizer.sidecar.routes.node_routes import NodePeers, NodeRoutes
from authorizer.sidecar.routes.openapi import openapi_document
from authorizer.sidecar.routes.request_state import RequestStates
from authorizer.sidecar.routes.searches import SearchRoutes

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from authorizer.node.fleet import Member
    from authorizer.node.node import Node
    from authorizer.sidecar.auth.authenticator import Authenticator
    from authorizer.sidecar.http.limits import LoadLimiter
    from authorizer.sidecar.http.request_metrics import RequestMetrics


#: Classes of the handlers, in the order of the OpenAPI document.
_HANDLERS: Final = (
    Evaluations,
    SearchRoutes,
    AclRoutes,
    KafkaQueryRoutes,
    ChangeRoutes,
    ConfigRoutes,
    NodeRoutes,
    ConfluentAclRoutes,
)


class SidecarApp(BaseApp):
    """Answers for one node."""

    def __init__(
        self,
        node: Node,
        authenticator: Authenticator,
        load: LoadLimiter,
        requests: RequestMetrics,
        peers: NodePeers | None = None,
        groups: RouteGroupFactory | None = None,
        *,
        cluster: str = DEFAULT_CLUSTER,
        other_clusters: Mapping[str, Member] = MappingProxyType({}),
    ) -> None:
        """Create the handlers and their routes; ``groups`` create additional ones, such as the console's."""
        super().__init__(authenticator, load, requests)
        states = RequestStates(node, load)
        acls, evaluations = AclRoutes(node, states), Evaluations(node, load, states)
        self._node = node
        self._changes = ChangeRoutes(node, states)
        self.inline_endpoints = {
            path.encode("ascii"): InlineEndpoint(self, answer, path, requests.of("POST", path, 200))
            for path, answer in (
                (EVALUATION_PATH, evaluations.answer_one_inline),
                (EVALUATIONS_PATH, evaluations.answer_inline),
            )
        }
        routes = routes_of(self, BaseApp)
        for handlers in (
            evaluations,
            SearchRoutes(node, states),
            acls,
            KafkaQueryRoutes(node, load, states),
            self._changes,
            ConfigRoutes(node, peers),
            NodeRoutes(node, load, peers),
            ConfluentAclRoutes(node, acls),
        ):
            routes += routes_of(handlers)
        routes += routes_of(self)
        context = NodeContext(
            node=node, acls=acls, peers=peers, cluster=cluster, other_clusters=other_clusters
        )
        self._set_routes(routes, None if groups is None else groups.for_node(context))
        self._document = openapi_document(NODE_OPERATIONS, PUBLIC_PATHS)

    def end_streams(self) -> None:
        self._changes.close()
        super().end_streams()

    def _not_ready_reason(self) -> str:
        return self._node.authorizer.state.not_ready_reason

    @declare_endpoint("GET", "/openapi.json", "This document", dict[str, Any])
    async def _describe(self, request: Request) -> Response:
        prefix = request.scope["state"].get("prefix")
        return json_response(self._document | ({"servers": [{"url": prefix}]} if prefix else {}))


#: The endpoints of a node, by method and path.
NODE_OPERATIONS: Final[Mapping[tuple[str, str], Endpoint]] = operations(
    found for group in (BaseApp, *_HANDLERS, SidecarApp) for found in endpoints_of(group)
)
