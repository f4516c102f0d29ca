"""Worker API: an ASGI application on a Unix socket that only the sidecar's own processes can reach.

GET /readiness      whether the worker's nodes are ready, by cluster
GET /metrics        the worker's metrics
POST, DELETE /acls  as /v1/acls; the requesting worker has authorized the caller
POST /plans         as /v1/plans; the requesting worker has authorized the caller
GET /writable       whether the worker's node can change ACLs

In a fleet the last four have the prefix /clusters/NAME.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from authorizer.api.cluster_name import CLUSTERS_PATH, DEFAULT_CLUSTER
from authorizer.api.http.answers.acls import CreationResults, DeletionResults, PlanOutcomes
from authorizer.api.http.answers.node import Readiness
from authorizer.sidecar.http.request_response import json_response
from authorizer.sidecar.http.servers import private_server
from authorizer.sidecar.routes.node_routes import member_readiness, node_readiness
from authorizer.sidecar.routes.request_bodies import bindings_of, filters_of, plan_of
from authorizer.sidecar.routes.request_state import results_and_end

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request

    from authorizer.node.fleet import Fleet
    from authorizer.node.node import Node
    from authorizer.node.reconfiguration import Reconfiguration
    from authorizer.sidecar.http.servers import StoppableServer
    from authorizer.sidecar.workers.metric_families import MetricArchive


class HostedNodes(Protocol):
    """Nodes of a worker by cluster name: one node under DEFAULT_CLUSTER, or those of a fleet.

    A cluster whose log could not be opened has no node.
    """

    @property
    def metrics(self) -> CollectorRegistry: ...

    @property
    def settings(self) -> Mapping[str, Reconfiguration]:
        """The process's settings under ``DEFAULT_CLUSTER``, and each cluster's."""
        ...

    def node(self, cluster: str) -> Node | None:
        """The node of a cluster, if there is one."""
        ...

    def readiness(self) -> dict[str, Readiness]: ...


class SingleNode:
    """HostedNodes of one log."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.metrics = node.metrics
        self.settings = {DEFAULT_CLUSTER: node.reconfiguration}

    def node(self, cluster: str) -> Node | None:
        return self._node if cluster == DEFAULT_CLUSTER else None

    def readiness(self) -> dict[str, Readiness]:
        return {DEFAULT_CLUSTER: node_readiness(self._node.status())}


class FleetNodes:
    """HostedNodes of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._members = fleet.members
        self.metrics = fleet.metrics
        of_clusters = {name: member.reconfiguration for name, member in fleet.members.items()}
        self.settings = {DEFAULT_CLUSTER: fleet.reconfiguration, **of_clusters}

    def node(self, cluster: str) -> Node | None:
        member = self._members.get(cluster)
        return None if member is None else member.node

    def readiness(self) -> dict[str, Readiness]:
        return {name: member_readiness(member) for name, member in self._members.items()}


READINESS_PATH: Final = "/readiness"
METRICS_PATH: Final = "/metrics"
ACLS_PATH: Final = "/acls"
PLANS_PATH: Final = "/plans"
WRITABLE_PATH: Final = "/writable"


class WorkerApi:
    """The handlers of one worker."""

    def __init__(self, nodes: HostedNodes, counts: MetricArchive) -> None:
        self._nodes = nodes
        self._counts = counts

    def server(self, grace_s: int) -> StoppableServer:
        """``grace_s``: seconds for the requests in flight when the worker stops."""
        routes = [Route(READINESS_PATH, self._readiness), Route(METRICS_PATH, self._metrics)]
        for prefix in ("", f"{CLUSTERS_PATH}{{cluster}}"):
            routes += [
                Route(prefix + ACLS_PATH, self._create, methods=["POST"]),
                Route(prefix + ACLS_PATH, self._delete, methods=["DELETE"]),
                Route(prefix + PLANS_PATH, self._apply, methods=["POST"]),
                Route(prefix + WRITABLE_PATH, self._writable),
            ]
        return private_server(Starlette(routes=routes), grace_s)

    async def _readiness(self, _request: Request) -> Response:
        return json_response(self._nodes.readiness())

    async def _metrics(self, _request: Request) -> Response:
        return Response(msgspec.msgpack.encode(await asyncio.to_thread(self._counts.collect_and_store)))

    async def _writable(self, request: Request) -> Response:
        return json_response(self._node(request).status().writable)

    async def _create(self, request: Request) -> Response:
        node = self._node(request)
        futures = node.mutator.create_acls(bindings_of(await request.body()))
        return json_response(CreationResults.of(*await results_and_end(node, futures)))

    async def _delete(self, request: Request) -> Response:
        node = self._node(request)
        futures = node.mutator.delete_acls(filters_of(await request.body()))
        return json_response(DeletionResults.of(*await results_and_end(node, futures)))

    async def _apply(self, request: Request) -> Response:
        node = self._node(request)
        wanted = plan_of(await request.body())
        future = node.mutator.apply_plan(wanted.plan, wanted.max_removed_percent)
        (result,), end_offset = await results_and_end(node, [future])
        return json_response(PlanOutcomes(end_offset, end_offset, [result.answer()]))

    def _node(self, request: Request) -> Node:
        """Raises HTTPException if the cluster has no node now."""
        node = self._nodes.node(request.path_params.get("cluster", DEFAULT_CLUSTER))
        if node is None:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE)
        return node
