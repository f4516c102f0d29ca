"""Nodes of a worker by cluster name: one node under DEFAULT_CLUSTER, or those of a fleet.

A cluster whose log could not be opened has no node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from authorizer.api.cluster_name import DEFAULT_CLUSTER
from authorizer.api.http.answers.node import Readiness
from authorizer.sidecar.routes.node_routes import member_readiness, node_readiness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prometheus_client import CollectorRegistry

    from authorizer.node.fleet import Fleet
    from authorizer.node.node import Node
    from authorizer.node.reconfiguration import Reconfiguration


class HostedNodes(Protocol):
    """Provides the nodes of a worker."""

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
