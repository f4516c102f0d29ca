"""Routes that a higher layer, such as the console, adds to the applications of a sidecar."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from authorizer.api.cluster_name import DEFAULT_CLUSTER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from authorizer.listeners.listener import Listener
    from authorizer.node.fleet import Fleet, Member
    from authorizer.node.node import Node
    from authorizer.sidecar.routes.acls import AclRoutes
    from authorizer.sidecar.routes.node_routes import NodePeers


class RouteGroup(Protocol):
    """Additional routes of one application."""

    @property
    def routes(self) -> Sequence[Route]:
        """The routes; ``/`` is the application's own."""
        ...

    def is_public(self, request: Request, listener: Listener) -> bool:
        """Whether a request is answered without authenticating its caller."""
        ...

    def front_page(self, request: Request) -> Response | None:
        """The response to GET ``/``; None: the application answers with its index."""
        ...

    def close(self) -> None:
        """Stop background work. Safe to call from any thread."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """What the routes of one node may use.

    Attributes:
        peers: the other workers of the sidecar, if there are any.
        other_clusters: the other members of the fleet, by name.
    """

    node: Node
    acls: AclRoutes
    peers: NodePeers | None = None
    cluster: str = DEFAULT_CLUSTER
    other_clusters: Mapping[str, Member] = field(default_factory=lambda: MappingProxyType({}))


class RouteGroupFactory(Protocol):
    """Makes the additional routes of each application; the command that starts a sidecar passes one in."""

    def for_node(self, context: NodeContext) -> RouteGroup: ...

    def for_fleet(self, fleet: Fleet) -> RouteGroup:
        """The routes of a fleet that have no cluster in their path."""
        ...
