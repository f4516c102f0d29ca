"""DescribeCluster: this node as the only broker, and as the controller (KIP-700, KIP-919).

A broker and a controller have listeners of their own; here one listener answers for both endpoint types, so
that ``--bootstrap-server`` and ``--bootstrap-controller`` work. The controllers' type needs Alter on the
cluster, as on a controller. Before the load the answer is that of a controller that does not know the
cluster's release yet, so that no client sees a cluster without ACLs.

Source: KafkaApis and ControllerApis.handleDescribeCluster, AuthHelper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from authorizer.admin_server.api import Api
from authorizer.admin_server.handlers.cluster_node import NOT_REQUESTED
from records.acl import AclOperation

if TYPE_CHECKING:
    from authorizer.admin_server.handlers.cluster_node import ClusterNode
    from authorizer.admin_server.request import AdminRequest
    from authorizer.admin_server.values_encoder import Values

#: A controller's message to every client.
_NOT_LOADED: Final = (
    "There is no finalized MetadataVersion, so direct-to-controller communication is not supported."
)
#: EndpointType.java
_BROKER: Final = 1
_CONTROLLER: Final = 2


class DescribeClusterHandler:
    """Answers for one node; ``api``: of this request."""

    def __init__(self, cluster: ClusterNode) -> None:
        self._cluster = cluster
        self.api = Api(
            key=60,
            schema="describe_cluster",
            versions=range(3),
            answer=self.answer,
            error=self.error,
        )

    async def answer(self, request: AdminRequest) -> Values:
        body, cluster = request.body, self._cluster
        if not cluster.is_loaded:
            return self.error(body, ErrorCode.unsupported_version, _NOT_LOADED)
        endpoint_type = getattr(body, "endpoint_type", _BROKER)
        if endpoint_type not in (_BROKER, _CONTROLLER):
            message = f"Unsupported endpoint type {endpoint_type}"
            return self.error(body, ErrorCode.unsupported_endpoint_type, message)
        if endpoint_type == _CONTROLLER:
            cluster.require_on_cluster(request, AclOperation.ALTER)
        is_requested = body.include_cluster_authorized_operations
        operations = cluster.cluster_operations(request, is_requested=is_requested)
        node = cluster.broker(request)
        return {
            "error_message": None,
            "endpoint_type": endpoint_type,
            "cluster_id": cluster.cluster_id or "",
            "controller_id": cluster.id,
            "brokers": [{**node, "broker_id": node["node_id"], "is_fenced": False}],
            "cluster_authorized_operations": operations,
        }

    def error(self, _body: Any, code: ErrorCode, message: str | None) -> Values:
        return {
            "error_code": code,
            "error_message": message,
            "cluster_id": "",
            "controller_id": -1,
            "brokers": [],
            "cluster_authorized_operations": NOT_REQUESTED,
        }
