"""DescribeAcls, CreateAcls and DeleteAcls (KIP-140, KIP-290, KIP-504).

Rights are the broker's: Describe on the cluster to list, Alter to change. A change is answered when its
outcome is known and visible on this node, for each item by itself. As on a broker, a code of 0 closes the
connection, other unknown codes are UNKNOWN, and a creation with ANY or MATCH fails the complete request.
Kafka writes an empty message where a creation or a listing succeeds, and none where a removal does.

Source: AclApis, DescribeAclsRequest, CreateAclsRequest, DeleteAclsRequest.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import structlog
from kio.schema.errors import ErrorCode

from authorizer.admin_server.api import Api
from authorizer.admin_server.handlers.acl_listing import encode_listing
from authorizer.api.api_keys import api_key_name
from authorizer.api.errors import (
    ApiError,
    AuthorizerNotReadyError,
    NotControllerError,
    UnknownServerError,
)
from authorizer.engine.decisions.listing import list_acls
from records.acl import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from records.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from typing import TypeVar

    from authorizer.admin_server.api import StreamedAnswer
    from authorizer.admin_server.handlers.cluster_node import ClusterNode
    from authorizer.admin_server.request import AdminRequest
    from authorizer.admin_server.values_encoder import Values
    from authorizer.api.authorizer_api import AclDeleteResult

    _E = TypeVar("_E", ResourceType, PatternType, AclOperation, AclPermissionType)
    _R = TypeVar("_R")

log = structlog.get_logger(__name__)

_DESCRIBE: Final = 29
#: A controller's message while its quorum has no leader. Clients try again after this code.
_NOT_READY: Final = "No controller appears to be active."
#: Versions with pattern types (KIP-290); Kafka 4.0 removed version 0.
_VERSIONS: Final = range(1, 4)


class AclHandlers:
    """Answers for one node; ``apis``: of the three requests."""

    def __init__(self, cluster: ClusterNode) -> None:
        self._cluster = cluster
        self.apis = [
            _api(_DESCRIBE, "describe_acls", self.describe, _describe_error, lambda _body: 1),
            _api(30, "create_acls", self.create, _create_error, lambda body: len(body.creations)),
            _api(31, "delete_acls", self.delete, _delete_error, lambda body: len(body.filters)),
        ]

    async def describe(self, request: AdminRequest) -> StreamedAnswer:
        """The ACLs that match a filter, of one state, in Kafka's order."""
        self._cluster.require_on_cluster(request, AclOperation.DESCRIBE)
        wanted, state = _filter(request.body), self._cluster.node.authorizer.state
        return await asyncio.to_thread(
            lambda: encode_listing(
                list_acls(state.index, wanted), request.header.api_version, request.throttle_ms
            )
        )

    async def create(self, request: AdminRequest) -> Values:
        """Create ACLs, as one atomic batch of those that can be."""
        bindings = [_binding(each) for each in request.body.creations]
        self._cluster.require_on_cluster(request, AclOperation.ALTER)
        if any(map(_is_any, bindings)):
            raise UnknownServerError("an ACL with ANY or MATCH is not one ACL")
        futures = self._cluster.node.authorizer.create_acls(request.context, bindings)
        results = await _replayed(request, futures)
        refused = sum(result.exception is not None for result in results)
        self._record_change(request, created=len(results) - refused, refused=refused)
        return {"results": [{"error_message": "", **_outcome(result.exception)} for result in results]}

    async def delete(self, request: AdminRequest) -> Values:
        """Remove the ACLs that match filters, as one atomic batch."""
        filters = [_filter(each) for each in request.body.filters]
        self._cluster.require_on_cluster(request, AclOperation.ALTER)
        futures = self._cluster.node.authorizer.delete_acls(request.context, filters)
        results = await _replayed(request, futures)
        errors = [each.exception for result in results for each in result.acl_binding_delete_results]
        deleted = errors.count(None)
        refused = len(errors) - deleted + sum(result.exception is not None for result in results)
        self._record_change(request, deleted=deleted, refused=refused)
        return {"filter_results": [_removed(result) for result in results]}

    def _record_change(
        self, request: AdminRequest, *, created: int = 0, deleted: int = 0, refused: int
    ) -> None:
        """Log the change as the sidecar does, with the offset at which it is visible."""
        log.info(
            "acls_changed",
            request=api_key_name(request.header.api_key),
            caller=str(request.session.principal),
            caller_host=request.session.address,
            **_forwarder(request),
            listener=request.session.listener.name,
            client_id=request.header.client_id,
            correlation_id=request.header.correlation_id,
            created=created,
            deleted=deleted,
            refused=refused,
            offset=self._cluster.node.authorizer.state.end_offset,
        )


async def _replayed(request: AdminRequest, futures: Sequence[Future[_R]]) -> list[_R]:
    """The results, when all are known and visible."""
    begun_s = perf_counter()
    results = await asyncio.gather(*map(asyncio.wrap_future, futures))
    request.remote_s += perf_counter() - begun_s
    return results


def _forwarder(request: AdminRequest) -> dict[str, str]:
    """Fields of the log line about the sender of an Envelope."""
    forwarder = request.session.forwarder
    if forwarder is None:
        return {}
    return {"forwarded_by": str(forwarder.principal), "forwarded_from": forwarder.address}


def _api(
    key: int,
    schema: str,
    answer: Callable[[AdminRequest], Any],
    error: Callable[[Any, ErrorCode, str | None], Values],
    cost: Callable[[Any], int],
) -> Api:
    return Api(
        key=key,
        schema=schema,
        versions=_VERSIONS,
        answer=answer,
        error=error,
        is_change=key != _DESCRIBE,
        cost=cost,
    )


def _describe_error(_body: Any, code: ErrorCode, message: str | None) -> Values:
    return {"error_code": code, "error_message": message, "resources": []}


def _create_error(body: Any, code: ErrorCode, message: str | None) -> Values:
    return {"results": [{"error_code": code, "error_message": message} for _ in body.creations]}


def _delete_error(body: Any, code: ErrorCode, message: str | None) -> Values:
    return {
        "filter_results": [
            {"error_code": code, "error_message": message, "matching_acls": []} for _ in body.filters
        ]
    }


def _outcome(error: ApiError | None) -> Values:
    if error is None:
        return {"error_code": ErrorCode.none}
    if isinstance(error, AuthorizerNotReadyError):
        error = NotControllerError(_NOT_READY)
    return {"error_code": ErrorCode[error.code_name.lower()], "error_message": str(error)}


def _removed(result: AclDeleteResult) -> Values:
    return {
        "error_message": None,
        **_outcome(result.exception),
        "matching_acls": [
            {"error_message": None, **_outcome(each.exception), **_acl(each.acl_binding)}
            for each in result.acl_binding_delete_results
        ],
    }


def _acl(binding: AclBinding) -> Values:
    pattern, entry = binding.pattern, binding.entry
    return {
        "resource_type": pattern.resource_type,
        "resource_name": pattern.name,
        "pattern_type": pattern.pattern_type,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation,
        "permission_type": entry.permission_type,
    }


def _binding(creation: Any) -> AclBinding:
    """Raises DecodeError for unknown codes."""
    return AclBinding(
        ResourcePattern(
            _known(ResourceType, creation.resource_type),
            creation.resource_name,
            _known(PatternType, creation.resource_pattern_type),
        ),
        AccessControlEntry(
            creation.principal,
            creation.host,
            _known(AclOperation, creation.operation),
            _known(AclPermissionType, creation.permission_type),
        ),
    )


def _filter(wanted: Any) -> AclBindingFilter:
    """Raises DecodeError for unknown codes."""
    return AclBindingFilter(
        ResourcePatternFilter(
            _known(ResourceType, wanted.resource_type_filter),
            wanted.resource_name_filter,
            _known(PatternType, wanted.pattern_type_filter),
        ),
        AccessControlEntryFilter(
            wanted.principal_filter,
            wanted.host_filter,
            _known(AclOperation, wanted.operation),
            _known(AclPermissionType, wanted.permission_type),
        ),
    )


def _known(codes: type[_E], code: int) -> _E:
    if code == 0:
        raise DecodeError(f"the request has the {codes.__name__} UNKNOWN", position=0)
    return codes.from_code(code)


def _is_any(binding: AclBinding) -> bool:
    """Whether Java refuses to make the binding (ResourcePattern, AccessControlEntryData)."""
    return (
        binding.pattern.resource_type is ResourceType.ANY
        or binding.pattern.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or binding.entry.operation is AclOperation.ANY
        or binding.entry.permission_type is AclPermissionType.ANY
    )
