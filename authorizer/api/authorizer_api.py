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
    """How a listener is secured."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server listens; the host of a Unix socket is its path."""

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
    """What the server gives its authorizer at the start.

    ``cluster_id`` is None until the cluster has answered.
    """

    cluster_id: str | None
    broker_id: int
    endpoints: tuple[Endpoint, ...]
    interbroker_endpoint: Endpoint | None = None
    early_start_listeners: frozenset[str] = frozenset()


class AuthorizableRequestContext(Protocol):
    """The principal of a request, its address, and the request.

    ``client_address`` is the text of Java's InetAddress.getHostAddress: ACL hosts are compared with it as
    text. ``authorizer.api.ip_address.host_address`` makes it from any IP literal.
    """

    @property
    def principal(self) -> KafkaPrincipal:
        """The principal whose rights count."""

    @property
    def client_address(self) -> str:
        """From where, as Java prints an address."""

    @property
    def listener_name(self) -> str:
        """On which listener."""

    @property
    def security_protocol(self) -> SecurityProtocol:
        """How that listener is secured."""

    @property
    def request_type(self) -> int:
        """Kafka's ApiKeys id of the request."""

    @property
    def request_version(self) -> int:
        """Version of the request."""

    @property
    def client_id(self) -> str:
        """What the client calls itself."""

    @property
    def correlation_id(self) -> int:
        """The request's number on its connection."""


class RequestContext(msgspec.Struct, frozen=True, gc=False):
    """A plain AuthorizableRequestContext."""

    principal: KafkaPrincipal
    client_address: str
    listener_name: str = ""
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    request_type: int = 1
    request_version: int = 0
    client_id: str = ""
    correlation_id: int = 0


class HttpRequestContext(RequestContext, frozen=True, kw_only=True, gc=False):
    """A question over HTTP: the caller may ask about another principal.

    Attributes:
        request_name: what the audit log calls the request, which is none of Kafka's; one word.
        caller: the principal that sent the request; ``principal`` is whom the question is about.
        caller_address: from where, as ``client_address``.
        request_id: what the caller calls its request (X-Request-ID).
    """

    request_name: str
    caller: KafkaPrincipal
    caller_address: str
    request_id: str | None = None


class Action(msgspec.Struct, frozen=True, gc=False):
    """What is to be authorized, and whether the audit log should say so.

    Attributes:
        operation: what is to be done.
        resource_pattern: to what; only LITERAL patterns can be asked about.
        resource_reference_count: how often the request names the resource.
        log_if_allowed: access is really granted by this: DEBUG when allowed, else TRACE.
        log_if_denied: access was really asked for: INFO when denied, else TRACE.
    """

    operation: AclOperation
    resource_pattern: ResourcePattern
    resource_reference_count: int = 1
    log_if_allowed: bool = True
    log_if_denied: bool = True


@dataclass(frozen=True, slots=True)
class AclCreateResult:
    """Outcome for one binding.

    Attributes:
        exception: None on success.
        record: what was written for it; None where nothing was, because an equal ACL was there or it failed.
    """

    exception: ApiError | None = None
    record: AccessControlEntryRecord | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AclBindingDeleteResult:
    """Outcome for one ACL that a filter matched.

    Attributes:
        acl_binding: the ACL.
        exception: None on success.
        record: the ACL with its id, and with codes that have no name here.
    """

    acl_binding: AclBinding
    exception: ApiError | None = None
    record: AccessControlEntryRecord | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AclDeleteResult:
    """Outcome for one filter."""

    acl_binding_delete_results: tuple[AclBindingDeleteResult, ...] = field(default=())
    exception: ApiError | None = None


class Authorizer(Protocol):
    """KIP-504's interface."""

    def configure(self, configs: Mapping[str, object]) -> None:
        """Take the settings; called once, before ``start``. ConfigError stops the start."""

    def reconfigurable_configs(self) -> frozenset[str]:
        """Keys that ``reconfigure`` takes."""

    def validate_reconfiguration(self, configs: Mapping[str, object]) -> None:
        """Raise ConfigError if ``reconfigure`` would."""

    def reconfigure(self, configs: Mapping[str, object]) -> None:
        """Take changed settings while running, whole or not at all."""

    def start(self, server_info: AuthorizerServerInfo) -> Mapping[Endpoint, Future[None]]:
        """Begin to load; an endpoint may accept once its future is done."""

    def authorize(
        self, context: AuthorizableRequestContext, actions: Sequence[Action]
    ) -> list[AuthorizationResult]:
        """One result for each action, all decided on one state.

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
        """The ACLs that match, of one state."""

    def acl_count(self) -> int:
        """How many ACLs are in force."""

    def authorize_by_resource_type(
        self, context: AuthorizableRequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> AuthorizationResult:
        """KIP-679: may the principal do this to any resource of the type?"""

    def description(self) -> str:
        """KIP-50: what this authorizer is, and which principals it knows."""

    def close(self) -> None:
        """Release everything; an unfinished load fails its futures."""


class AclMutator(Protocol):
    """Where an authorizer sends its writes (ClusterMetadataAuthorizer's AclMutator)."""

    def create_acls(self, bindings: Sequence[AclBinding]) -> list[Future[AclCreateResult]]:
        """As Authorizer.create_acls, already authorized."""

    def delete_acls(self, filters: Sequence[AclBindingFilter]) -> list[Future[AclDeleteResult]]:
        """As Authorizer.delete_acls, already authorized."""
