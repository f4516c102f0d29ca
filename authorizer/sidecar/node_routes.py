"""What the node says of itself: it shows no ACL and decides nothing, so it answers from the first moment.

An orchestrator must be able to ask why a node is not ready.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import prometheus_client
from starlette.responses import Response

from authorizer.sidecar.http import json_response, origin_of
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from starlette.requests import Request

    from authorizer.node import Node


class NodeRoutes:
    """The handlers of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def authzen_configuration(self, request: Request) -> Response:
        """GET: AuthZEN's metadata; the Host header is never repeated."""
        base = self._node.config.sidecar_public_url or origin_of(request).listener.url
        return json_response(
            {
                "policy_decision_point": base,
                "access_evaluation_endpoint": f"{base}/access/v1/evaluation",
                "access_evaluations_endpoint": f"{base}/access/v1/evaluations",
                "search_subject_endpoint": f"{base}/access/v1/search/subject",
                "search_resource_endpoint": f"{base}/access/v1/search/resource",
                "search_action_endpoint": f"{base}/access/v1/search/action",
            }
        )

    async def state(self, _request: Request) -> Response:
        """GET: where the node stands."""
        status = self._node.status()
        identity = status.identity
        return json_response(
            {
                "cluster_id": None if identity is None else identity.cluster_id,
                "topic_id": None if identity is None else uuid_to_string(identity.topic_id),
                "log": status.log_url,
                "offset": status.end_offset,
                "epoch": status.epoch,
                "high_watermark": status.high_watermark,
                "high_watermark_is_guess": status.high_watermark_is_guess,
                "lag_records": status.lag_records,
                "lag_ms": status.lag_ms,
                "acl_count": status.acl_count,
                "digest": status.digest,
                "ready": status.ready,
                "reason": status.not_ready_reason,
                "writable": status.writable,
            }
        )

    async def livez(self, _request: Request) -> Response:
        """GET: that the process answers."""
        return json_response({"live": True})

    async def readyz(self, _request: Request) -> Response:
        """GET: whether decisions may be asked for; 503 and the reason if not."""
        status = self._node.status()
        answer = {"ready": status.ready, "offset": status.end_offset, "lag_records": status.lag_records}
        if status.ready:
            return json_response(answer)
        return json_response({**answer, "reason": status.not_ready_reason}, HTTPStatus.SERVICE_UNAVAILABLE)

    async def metrics(self, _request: Request) -> Response:
        """GET: for Prometheus."""
        return Response(
            prometheus_client.generate_latest(self._node.metrics),
            headers={"content-type": prometheus_client.CONTENT_TYPE_LATEST},
        )
