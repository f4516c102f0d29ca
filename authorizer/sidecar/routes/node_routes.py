"""What the node says of itself: it shows no ACL and decides nothing, so it answers from the first moment.

An orchestrator must be able to ask why a node is not ready. What the ACLs mean, as a digest, is for those who
may list them: that takes work.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from authorizer.node.cluster_metadata_report import metadata_json
from authorizer.sidecar.auth.caller_authorization import Caller
from authorizer.sidecar.http.query import decode_query
from authorizer.sidecar.http.request_response import end_offset_json, json_response, origin_of
from authorizer.sidecar.routes.metrics_text import MetricsText
from authorizer.sidecar.routes.questions import StateQuestion
from authorizer.sidecar.routes.readiness import Readiness
from records.acl import AclOperation
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from prometheus_client.registry import Collector
    from starlette.requests import Request
    from starlette.responses import Response

    from authorizer.node.effective_permissions_digest import KnownMeaning
    from authorizer.node.fleet import Member
    from authorizer.node.node import Node
    from authorizer.sidecar.http.limits import Load
    from authorizer.sidecar.workers.worker_fanout import NodePeers


AUTHZEN_CONFIGURATION_PATH: Final = "/.well-known/authzen-configuration"


class NodeRoutes:
    """The handlers of one node."""

    def __init__(self, node: Node, load: Load, peers: NodePeers | None = None) -> None:
        """``peers``: whose readiness and metrics are the sidecar's too, where there are several workers."""
        self._node = node
        self._peers = peers
        self._metrics_text = MetricsText(self._collected, load.rendering)

    async def authzen_configuration(self, request: Request) -> Response:
        """GET: AuthZEN's metadata; the Host header is never repeated."""
        base = self._node.config.sidecar_public_url or origin_of(request).listener.url
        base += request.scope["state"].get("prefix", "")
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

    async def state(self, request: Request) -> Response:
        """GET: where the node stands; with ``meaning=true`` also the digest of what its ACLs mean."""
        asked = decode_query(request.scope["query_string"], StateQuestion)
        known = self._meaning(request) if asked.meaning else None
        return json_response(state_json(self._node, known))

    def _meaning(self, request: Request) -> KnownMeaning | None:
        state = self._node.authorizer.state
        if not state.is_ready:
            return None
        caller = Caller(self._node, state, origin_of(request), "DescribeAcls")
        caller.require_on_cluster(AclOperation.DESCRIBE)
        return self._node.meaning.asked()

    async def livez(self, _request: Request) -> Response:
        """GET: that the process answers."""
        return json_response({"live": True})

    async def readyz(self, _request: Request) -> Response:
        """GET: whether decisions may be asked for; 503 and the reason if not."""
        peers = self._peers
        readiness = Readiness.of(self._node.status()) if peers is None else await peers.readiness()
        return json_response(readiness, HTTPStatus.OK if readiness.ready else HTTPStatus.SERVICE_UNAVAILABLE)

    async def metrics(self, _request: Request) -> Response:
        """GET: for Prometheus."""
        return await self._metrics_text.response()

    async def _collected(self) -> Collector:
        return self._node.metrics if self._peers is None else await self._peers.metrics()


def member_state_json(member: Member) -> dict[str, object]:
    """The state of a fleet's cluster, or why it has no node."""
    node = member.node
    if node is None:
        return {"cluster": member.name, "log": member.log_url, "ready": False, "reason": member.reason}
    return {"cluster": member.name, **state_json(node)}


def state_json(node: Node, known: KnownMeaning | None = None) -> dict[str, object]:
    """Where a node stands; ``known``: what its ACLs mean, for who may know."""
    status = node.status()
    identity = status.identity
    return {
        "cluster_id": None if identity is None else identity.cluster_id,
        "topic_id": None if identity is None else uuid_to_string(identity.topic_id),
        "log": status.log_url,
        **end_offset_json(status.end_offset),
        "epoch": status.epoch,
        "high_watermark": status.high_watermark,
        "high_watermark_is_guess": status.uncommitted_from is not None,
        "uncommitted_from": status.uncommitted_from,
        "lag_records": status.lag_records,
        "lag_ms": status.lag_ms,
        "polled": status.freshness,
        "acl_count": status.acl_count,
        "digest": status.digest,
        "meaning": None
        if known is None
        else end_offset_json(known.end_offset) | {"digest": known.digest.hex()},
        "ready": status.ready,
        "reason": status.not_ready_reason,
        "writable": status.writable,
        "kafka_version": node.authorizer.state.version.to_json(),
        "metadata": metadata_json(node.metadata),
    }
