"""What the node says of itself: it shows no ACL and decides nothing, so it answers from the first moment.

An orchestrator must be able to ask why a node is not ready. What the ACLs mean, as a digest, is for those who
may list them: that takes work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import prometheus_client
from starlette.responses import Response

from authorizer.api.http.answers.decisions import AuthzenConfiguration, KafkaRelease
from authorizer.api.http.answers.node import (
    EffectivePermissionsDigest,
    FailedCluster,
    Liveness,
    NodeState,
    PollStatus,
    Readiness,
)
from authorizer.api.http.error_code import ErrorCode
from authorizer.node.cluster_metadata_report import metadata_report
from authorizer.sidecar.auth.caller_authorization import Caller
from authorizer.sidecar.http.request_decoding import decode_query
from authorizer.sidecar.http.request_response import json_response, origin_of
from authorizer.sidecar.routes.endpoint import declare_endpoint
from authorizer.sidecar.routes.request_bodies import StateRequest
from records.acl import AclOperation
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prometheus_client.registry import Collector
    from starlette.requests import Request

    from authorizer.node.effective_permissions_digest import KnownDigest
    from authorizer.node.fleet import Member
    from authorizer.node.node import Node, NodeStatus
    from authorizer.node.reconfiguration import Change
    from authorizer.sidecar.http.limits import LoadLimiter

AUTHZEN_CONFIGURATION_PATH: Final = "/.well-known/authzen-configuration"


class NodePeers(Protocol):
    """All workers of a sidecar, queried about one cluster (``worker_fanout``)."""

    def put(self, texts: Mapping[str, str | None], by: str, *, is_trial: bool = False) -> list[Change]:
        """Change settings in every worker, as ``Reconfiguration.put`` does in one process."""
        ...

    async def readiness(self) -> Readiness:
        """Return whether every worker is ready."""
        ...

    async def metrics(self) -> Collector:
        """Return the merged metrics of all workers."""
        ...


class NodeRoutes:
    """The handlers of one node."""

    def __init__(self, node: Node, load: LoadLimiter, peers: NodePeers | None = None) -> None:
        """``peers``: the other workers, whose readiness and metrics count, too."""
        self._node = node
        self._peers = peers
        self._load = load
        self._metrics_text = MetricsText(self._collected, load.rendering)

    @declare_endpoint(
        "GET",
        AUTHZEN_CONFIGURATION_PATH,
        "AuthZEN 1.0: the URLs of its endpoints",
        AuthzenConfiguration,
    )
    async def authzen_configuration(self, request: Request) -> Response:
        base = public_url(self._node, request)
        return json_response(
            AuthzenConfiguration(
                policy_decision_point=base,
                access_evaluation_endpoint=f"{base}/access/v1/evaluation",
                access_evaluations_endpoint=f"{base}/access/v1/evaluations",
                search_subject_endpoint=f"{base}/access/v1/search/subject",
                search_resource_endpoint=f"{base}/access/v1/search/resource",
                search_action_endpoint=f"{base}/access/v1/search/action",
            )
        )

    @declare_endpoint(
        "GET",
        "/v1/state",
        "The status of the node; with meaning=true the digest of its effective permissions, once it is known",
        NodeState,
        request=StateRequest,
        example={"meaning": True},
        errors=(ErrorCode.CLUSTER_AUTHORIZATION_FAILED,),
    )
    async def state(self, request: Request) -> Response:
        query = decode_query(request.scope["query_string"], StateRequest)
        known = self._meaning(request) if query.meaning else None
        return json_response(node_state(self._node, known))

    def _meaning(self, request: Request) -> KnownDigest | None:
        state = self._node.authorizer.state
        if not state.is_ready:
            return None
        caller = Caller(self._node, state, origin_of(request), "DescribeAcls")
        caller.require_on_cluster(AclOperation.DESCRIBE)
        return self._node.permissions_digest.latest()

    @declare_endpoint(
        "GET", "/livez", "Whether the process answers", Liveness, description="It does", not_ready=Liveness
    )
    async def livez(self, _request: Request) -> Response:
        return liveness_response(self._load)

    @declare_endpoint(
        "GET", "/readyz", "Whether the node may decide", Readiness, description="It may", not_ready=Readiness
    )
    async def readyz(self, _request: Request) -> Response:
        peers = self._peers
        readiness = node_readiness(self._node.status()) if peers is None else await peers.readiness()
        return json_response(readiness, HTTPStatus.OK if readiness.ready else HTTPStatus.SERVICE_UNAVAILABLE)

    @declare_endpoint("GET", "/metrics", "Metrics for Prometheus", str, media_type="text/plain")
    async def metrics(self, _request: Request) -> Response:
        return await self._metrics_text.response()

    async def _collected(self) -> Collector:
        return self._node.metrics if self._peers is None else await self._peers.metrics()


def public_url(node: Node, request: Request) -> str:
    """The URL that a node's paths follow, for clients."""
    prefix: str = request.scope["state"].get("prefix", "")
    return (node.config.sidecar_public_url or origin_of(request).listener.url) + prefix


def member_state(member: Member) -> NodeState | FailedCluster:
    """The state of a fleet's cluster, or the reason why it has no node."""
    node = member.node
    if node is None:
        return FailedCluster(member.name, member.log_url, ready=False, reason=member.reason)
    return msgspec.structs.replace(node_state(node), cluster=member.name)


def node_state(node: Node, meaning: KnownDigest | None = None) -> NodeState:
    """The state of a node, with the digest of its effective permissions."""
    status = node.status()
    identity = status.identity
    return NodeState(
        cluster_id=None if identity is None else identity.cluster_id,
        topic_id=None if identity is None else uuid_to_string(identity.topic_id),
        log=status.log_url,
        offset=status.end_offset,
        end_offset=status.end_offset,
        epoch=status.epoch,
        high_watermark=status.high_watermark,
        high_watermark_is_guess=status.uncommitted_from is not None,
        uncommitted_from=status.uncommitted_from,
        lag_records=status.lag_records,
        lag_ms=status.lag_ms,
        polled=msgspec.convert(status.freshness, PollStatus | None, from_attributes=True),
        acl_count=status.acl_count,
        digest=status.digest,
        meaning=None
        if meaning is None
        else EffectivePermissionsDigest(meaning.end_offset, meaning.end_offset, meaning.digest.hex()),
        ready=status.ready,
        reason=status.not_ready_reason,
        writable=status.writable,
        kafka_version=KafkaRelease.of(node.authorizer.state.version),
        metadata=metadata_report(node.metadata),
    )


def liveness_response(load: LoadLimiter) -> Response:
    """Return whether the process can go on, for an orchestrator."""
    reason = load.hang_reason()
    return json_response(
        Liveness(reason is None, reason), HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE
    )


def node_readiness(status: NodeStatus) -> Readiness:
    """Readiness of a node."""
    return Readiness(status.ready, status.end_offset, status.lag_records, status.not_ready_reason)


def member_readiness(member: Member) -> Readiness:
    """Readiness of a fleet's cluster, which may have no node."""
    node = member.node
    return Readiness(False, 0, None, member.reason) if node is None else node_readiness(node.status())


#: Seconds for which a text is answered with, before it is rendered again.
TEXT_TTL_S: Final = 1.0


class MetricsText:
    """The metrics as Prometheus reads them, for one application; used on the event loop only.

    Rendered off the event loop and at most once a second: health and metrics are never refused, so a thousand
    scrapes at a time must not cost a thousand renderings.
    """

    def __init__(self, collect: Callable[[], Awaitable[Any]], lock: asyncio.Lock) -> None:
        """``collect`` returns what ``prometheus_client.generate_latest`` takes.

        ``lock`` is held while a text is rendered: one at a time in a process.
        """
        self._collect = collect
        self._lock = lock
        self._rendering: asyncio.Task[bytes] | None = None
        self._rendered_s = 0.0

    async def response(self) -> Response:
        """The text; requests within TEXT_TTL_S share it."""
        rendering = self._rendering
        if rendering is None or (rendering.done() and not self._is_fresh(rendering)):
            rendering = self._rendering = asyncio.create_task(self._render())
        # A client that goes away does not end it for the others.
        text = await asyncio.shield(rendering)
        return Response(text, headers={"content-type": prometheus_client.CONTENT_TYPE_LATEST})

    def _is_fresh(self, rendering: asyncio.Task[bytes]) -> bool:
        has_failed = rendering.cancelled() or rendering.exception() is not None
        return not has_failed and asyncio.get_running_loop().time() - self._rendered_s < TEXT_TTL_S

    async def _render(self) -> bytes:
        collected = await self._collect()
        async with self._lock:
            text = await asyncio.to_thread(prometheus_client.generate_latest, collected)
        self._rendered_s = asyncio.get_running_loop().time()
        return text
