"""ClusterNode: this node as clients of Kafka's protocol see it, and the rights that their requests need.

The node is the only broker and the controller that clients see. Its address is the one of the listener
that the client uses, or the advertised one.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from authorizer.api.api_keys import api_key_name
from authorizer.api.authorizer_api import Action, AuthorizationResult
from authorizer.api.errors import AuthorizerNotReadyError, ClusterAuthorizationError
from authorizer.engine.decisions.authorize import to_bit_field
from records.acl import CLUSTER_NAME, AclOperation, PatternType, ResourcePattern, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from authorizer.admin_server.request import AdminRequest
    from authorizer.admin_server.values_encoder import Values
    from authorizer.api.authorizer_api import Endpoint
    from authorizer.node.node import Node

ERROR_MESSAGES: Final = {
    ErrorCode.none: "NONE",
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.illegal_sasl_state: "Request is not valid given the current SASL state.",
    ErrorCode.invalid_request: (
        "This most likely occurs because of a request being malformed by the client library or the message "
        "was sent to an incompatible broker. See the broker logs for more details."
    ),
    ErrorCode.topic_authorization_failed: "Topic authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
    ErrorCode.unknown_server_error: (
        "The server experienced an unexpected error when processing the request."
    ),
}


#: A set of operations that was not requested.
NOT_REQUESTED: Final = -(2**31)


class ClusterNode:
    """One node, for the handlers; ``node``: decides and writes."""

    def __init__(self, node: Node, addresses: Mapping[str, tuple[str, int]]) -> None:
        """``addresses``: host and port for clients, by listener name."""
        self.node = node
        self._addresses = addresses

    @property
    def id(self) -> int:
        """The number that clients know this node by; never negative."""
        return max(self.node.config.node_id, 0)

    @property
    def cluster_id(self) -> str | None:
        """The cluster of the log, once it is known."""
        identity = self.node.status().identity
        return None if identity is None else identity.cluster_id

    def broker(self, request: AdminRequest) -> Values:
        """This node, at the address of the request's listener."""
        host, port = self._addresses[request.session.listener.name]
        return {"node_id": self.id, "host": host, "port": port, "rack": None}

    @property
    def is_loaded(self) -> bool:
        """Whether the node has been ready."""
        return self.node.authorizer.initial_load.done()

    def require_loaded(self) -> None:
        """Raise AuthorizerNotReadyError before the load: what is not known yet must not look like nothing."""
        if not self.is_loaded:
            raise AuthorizerNotReadyError

    def require_ready(self, request: AdminRequest) -> None:
        """Raise AuthorizerNotReadyError before the load, except on early-start listeners (KIP-801)."""
        state = self.node.authorizer.state
        if not (state.is_ready or request.session.listener.early_start):
            raise AuthorizerNotReadyError(state.not_ready_reason)

    def allows_on_cluster(self, request: AdminRequest, operation: AclOperation) -> bool:
        return self.allows(request, operation, ResourceType.CLUSTER, [CLUSTER_NAME])[0]

    def require_on_cluster(self, request: AdminRequest, operation: AclOperation) -> None:
        """Raise ClusterAuthorizationError unless the sender may do an operation to the cluster.

        A broker's message has its request object in place of the request's name and the principal.
        """
        if not self.allows_on_cluster(request, operation):
            raise ClusterAuthorizationError(
                f"Request {api_key_name(request.header.api_key)} of {request.session.principal} needs "
                f"{operation.name} permission."
            )

    def cluster_operations(self, request: AdminRequest, *, is_requested: bool) -> int:
        """The sender's operations on the cluster as a bit field; none without the right to Describe it."""
        if not is_requested:
            return NOT_REQUESTED
        if not self.allows_on_cluster(request, AclOperation.DESCRIBE):
            return 0
        return self.operations(request, ResourceType.CLUSTER, CLUSTER_NAME)

    def allows(
        self,
        request: AdminRequest,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Sequence[str],
        *,
        log_if_denied: bool = True,
    ) -> list[bool]:
        """Whether the sender may do an operation to each of several resources, all on one state.

        Raises:
            AuthorizerNotReadyError: not loaded, unless a super user asks on an early-start listener.
        """
        self.require_ready(request)
        actions = [
            Action(
                operation,
                ResourcePattern(resource_type, name, PatternType.LITERAL),
                log_if_denied=log_if_denied,
            )
            for name in names
        ]
        results = self.node.authorizer.authorize(request.context, actions)
        return [result is AuthorizationResult.ALLOWED for result in results]

    def operations(self, request: AdminRequest, resource_type: ResourceType, name: str) -> int:
        """The sender's operations on a resource, as a bit field (KIP-430)."""
        return self.operations_of_each(request, resource_type, [name])[0]

    def operations_of_each(
        self, request: AdminRequest, resource_type: ResourceType, names: Sequence[str]
    ) -> list[int]:
        """The same of several resources, all on one state."""
        self.require_ready(request)
        found = self.node.authorizer.authorized_operations_of_each(request.context, resource_type, names)
        # Most resources have the same operations.
        bit_fields = {operations: to_bit_field(operations) for operations in set(found)}
        return [bit_fields[operations] for operations in found]


def advertised_addresses(
    bound: Mapping[str, tuple[Endpoint, int]], advertised: Mapping[str, Endpoint]
) -> dict[str, tuple[str, int]]:
    """Return host and port for clients, by listener name."""
    addresses: dict[str, tuple[str, int]] = {}
    for name, (endpoint, port) in bound.items():
        if (configured := advertised.get(name)) is not None:
            addresses[name] = configured.host or "", configured.port
        else:
            # As Kafka: a listener of all addresses is advertised with the machine's name.
            addresses[name] = endpoint.host or socket.getfqdn(), port
    return addresses
