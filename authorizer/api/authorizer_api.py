"""KIP-504: the Authorizer interface and its values, in Python.

Source: org.apache.kafka.server.authorizer.*; ``description`` is KIP-50's, ``acl_count`` KIP-801's,
``authorize_by_resource_type`` KIP-679's. Method names are snake case, meanings are Kafka's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import msgspec

from records.acl import AclBinding, AclBindingFilter, AclOperation, ResourcePattern, ResourceType
from records.principal import KafkaPrincipal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from concurrent.futures import Future

    from authorizer.api.errors import ApiError
    from records.entries import AccessControlEntryRecord


class AuthorizationResult(Enum):
    """The answer for one action."""

    ALLOWED = "ALLOWED"
    DENIED = "DENIED"


class SecurityProtocol(Enum):
    """The security protocol of a listener."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a listener; the host of a Unix socket is its path."""

    listener_name: str | None
    security_protocol: SecurityProtocol
    host: str | None
    port: int

    def __str__(self) -> str:
        return (
            f"Endpoint(listenerName='{self.listener_name}', "
            f"securityProtocol={self.security_protocol.name}, host='{self.host}', port={self.port})"
        )


@dataclass(frozen=True, slots=True)
class AuthorizerServerInfo:
    """Facts that the server passes to its authorizer at the start.

    ``cluster_id`` is None until the cluster has answered.
    """

    cluster_id: str | None
    broker_id: int
    endpoints: tuple[Endpoint, ...]
    interbroker_endpoint: Endpoint | None = None
    early_start_listeners: frozenset[str] = frozenset()


class AuthorizableRequestContext(Protocol):
    """The principal of a request, its address, and the request.

    ``client_address`` has the form of Java's InetAddress.getHostAddress, because ACL hosts are compared with
    it as text. ``authorizer.api.ip_address.host_address`` converts any IP literal.
    """

    @property
    def principal(self) -> KafkaPrincipal:
        """The principal whose rights are checked."""

    @property
    def client_address(self) -> str:
        """The client's address, as Java prints it."""

    @property
    def listener_name(self) -> str:
        """Name of the listener."""

    @property
    def security_protocol(self) -> SecurityProtocol:
        """Security protocol of the listener."""

    @property
    def request_type(self) -> int:
        """Kafka's ApiKeys id of the request."""

    @property
    def request_version(self) -> int:
        """Version of the request."""

    @property
    def client_id(self) -> str:
        """The client id."""

    @property
    def correlation_id(self) -> int:
        """The request's number on its connection."""


class RequestContext(msgspec.Struct, frozen=True, gc=False):
    """An AuthorizableRequestContext as a value."""

    principal: KafkaPrincipal
    client_address: str
    listener_name: str = ""
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    request_type: int = 1
    request_version: int = 0
    client_id: str = ""
    correlation_id: int = 0


class HttpRequestContext(RequestContext, frozen=True, kw_only=True, gc=False):
    """A request over HTTP; the caller may request decisions about another principal.

    Attributes:
        request_name: name of the request in the audit log, one word; Kafka has no such request.
        caller: the principal that sent the request; ``principal`` is the one whose rights are checked.
        caller_address: the caller's address, in the form of ``client_address``.
        request_id: the caller's id of the request (X-Request-ID).
    """

    request_name: str
    caller: KafkaPrincipal
    caller_address: str
    request_id: str | None = None


class Action(msgspec.Struct, frozen=True, gc=False):
    """An operation on a resource, and the level of its audit line.

    Attributes:
        resource_pattern: the resource; only LITERAL patterns can be authorized.
        resource_reference_count: number of times the request names the resource.
        log_if_allowed: whether an allowed action is logged at DEBUG; otherwise at TRACE.
        log_if_denied: whether a denied action is logged at INFO; otherwise at TRACE.
    """

    operation: AclOperation
    resource_pattern: ResourcePattern
    resource_reference_count: int = 1
    log_if_allowed: bool = True
    log_if_denied: bool = True


@dataclass(frozen=True, slots=True)
class AclCreateResult:
    """Outcome for one binding.

    ``record``: the record that was written; None if an equal ACL existed, or on failure.
    """

    exception: ApiError | None = None
    record: AccessControlEntryRecord | None = field(default=None, compare=False)

    @property
    def added(self) -> tuple[AccessControlEntryRecord, ...]:
        """The record that was written, if any."""
        return () if self.record is None else (self.record,)

    @property
    def removed(self) -> tuple[AccessControlEntryRecord, ...]:
        """Nothing."""
        return ()


@dataclass(frozen=True, slots=True)
class AclBindingDeleteResult:
    """Outcome for one ACL that a filter matched.

    ``record``: the ACL with its id, and with codes that have no known name.
    """

    acl_binding: AclBinding
    exception: ApiError | None = None
    record: AccessControlEntryRecord | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AclDeleteResult:
    """Outcome for one filter."""

    acl_binding_delete_results: tuple[AclBindingDeleteResult, ...] = field(default=())
    exception: ApiError | None = None

    @property
    def added(self) -> tuple[AccessControlEntryRecord, ...]:
        """Nothing."""
        return ()

    @property
    def removed(self) -> tuple[AccessControlEntryRecord, ...]:
        """The ACLs that were removed, with their ids."""
        records = (each.record for each in self.acl_binding_delete_results)
        return tuple(record for record in records if record is not None)


class Authorizer(Protocol):
    """KIP-504's interface."""

    def configure(self, configs: Mapping[str, object]) -> None:
        """Apply the settings; called once, before ``start``. ConfigError stops the start."""

    def reconfigurable_configs(self) -> frozenset[str]:
        """Keys that ``reconfigure`` accepts."""

    def validate_reconfiguration(self, configs: Mapping[str, object]) -> None:
        """Raise ConfigError if ``reconfigure`` would."""

    def reconfigure(self, configs: Mapping[str, object]) -> None:
        """Apply changed settings while running, all of them or none."""

    def start(self, server_info: AuthorizerServerInfo) -> Mapping[Endpoint, Future[None]]:
        """Start loading; an endpoint may accept connections when its future is done."""

    def authorize(
        self, context: AuthorizableRequestContext, actions: Sequence[Action]
    ) -> list[AuthorizationResult]:
        """Decide each action, all on the same state.

        Raises:
            AuthorizerNotReadyError: not loaded, and the principal is not a super user.
            ValueError: an action's resource is not LITERAL.
        """

    def create_acls(
        self, context: AuthorizableRequestContext, bindings: Sequence[AclBinding]
    ) -> list[Future[AclCreateResult]]:
        """One future for each binding, done when it is committed and replayed here."""

    def delete_acls(
        self, context: AuthorizableRequestContext, filters: Sequence[AclBindingFilter]
    ) -> list[Future[AclDeleteResult]]:
        """One future for each filter, done when its removals are committed and replayed here."""

    def acls(self, acl_filter: AclBindingFilter) -> Iterable[AclBinding]:
        """The ACLs of one state that match."""

    def acl_count(self) -> int:
        """Number of ACLs in force."""

    def authorize_by_resource_type(
        self, context: AuthorizableRequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> AuthorizationResult:
        """KIP-679: whether the principal may do the operation on at least one resource of the type."""

    def description(self) -> str:
        """KIP-50: a description of the authorizer and of the principals it supports."""

    def close(self) -> None:
        """Release all resources; the futures of an unfinished load fail."""


class AclMutator(Protocol):
    """Writes ACLs to the log for an authorizer (AclMutator of ClusterMetadataAuthorizer)."""

    def create_acls(self, bindings: Sequence[AclBinding]) -> list[Future[AclCreateResult]]:
        """As Authorizer.create_acls, without an authorization check."""

    def delete_acls(self, filters: Sequence[AclBindingFilter]) -> list[Future[AclDeleteResult]]:
        """As Authorizer.delete_acls, without an authorization check."""
