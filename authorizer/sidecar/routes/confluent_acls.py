"""``/kafka/v3/clusters``: ACLs by Confluent's Kafka REST API v3, as its Terraform provider uses it.

The rights, audit lines and writes are those of ``/v1/acls`` (``acls``); only names and forms differ. As in
kafka-rest, a removal must name the four types, an empty text matches any value, and an ACL that is refused
does not stop the others of its batch. Unlike there, an unknown parameter or field is refused, and so is an
unknown type with 400, not 404: Terraform would forget an ACL after a 404.
Source: kafka-rest, AclsResource, CreateAclBatchAction, ClustersResource, AclManagerImpl.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from authorizer.api.errors import ApiError, AuthorizerNotReadyError
from authorizer.api.http.acl_requests import code_of
from authorizer.api.http.answers.confluent import (
    ConfluentAcl,
    ConfluentAclList,
    ConfluentCluster,
    ConfluentClusterList,
    ConfluentDeletedAcls,
    ConfluentMetadata,
    filter_url,
)
from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.http.errors import HttpError, invalid_request
from authorizer.sidecar.http.request_decoding import decode_body, decode_query
from authorizer.sidecar.http.request_response import CONFLUENT_PATH, json_response, read_body
from authorizer.sidecar.routes.acls import AclRoutes, ListingFormat, listing_response
from authorizer.sidecar.routes.endpoint import GUARD_ERRORS, declare_endpoint
from authorizer.sidecar.routes.node_routes import public_url
from authorizer.sidecar.routes.request_bodies import check_count
from authorizer.sidecar.routes.request_state import ready_state
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from authorizer.node.node import Node
    from records.entries import AccessControlEntryRecord

CLUSTERS_PATH: Final = f"{CONFLUENT_PATH}clusters"
_CLUSTER_PATH: Final = f"{CLUSTERS_PATH}/{{cluster_id}}"
_ACLS_PATH: Final = f"{_CLUSTER_PATH}/acls"

_EXAMPLE: Final = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:alice",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
_CLUSTER_ERRORS: Final = (ErrorCode.AUTHORIZER_NOT_READY, ErrorCode.NOT_FOUND)
_LIST_ERRORS: Final = (*GUARD_ERRORS, ErrorCode.NOT_FOUND)
_CHANGE_ERRORS: Final = (
    *_LIST_ERRORS,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
)


class ConfluentNewAcl(msgspec.Struct, forbid_unknown_fields=True, gc=False, kw_only=True):
    """An ACL to create."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str

    def binding(self, where: str = "") -> AclBinding:
        """The binding; ``where`` is the prefix of a field in an error. HttpError 400."""
        resource_type, pattern_type, operation, permission = self._codes(where)
        return AclBinding(
            ResourcePattern(resource_type, self.resource_name, pattern_type),
            AccessControlEntry(self.principal, self.host, operation, permission),
        )

    def _codes(self, where: str = "") -> tuple[ResourceType, PatternType, AclOperation, AclPermissionType]:
        try:
            return (
                code_of(ResourceType, self.resource_type, f"{where}resource_type"),
                code_of(PatternType, self.pattern_type, f"{where}pattern_type"),
                code_of(AclOperation, self.operation, f"{where}operation"),
                code_of(AclPermissionType, self.permission, f"{where}permission"),
            )
        except ValueError as error:
            raise invalid_request(str(error)) from error


class ConfluentAclBatch(msgspec.Struct, forbid_unknown_fields=True):
    """ACLs to create."""

    data: list[ConfluentNewAcl]


class ConfluentDeletion(ConfluentNewAcl, forbid_unknown_fields=True, gc=False, kw_only=True):
    """A filter of ACLs to remove; an empty text matches any value, and so does the type ANY."""

    resource_name: str = ""
    principal: str = ""
    host: str = ""

    def filter(self) -> AclBindingFilter:
        resource_type, pattern_type, operation, permission = self._codes()
        return AclBindingFilter(
            ResourcePatternFilter(resource_type, self.resource_name or None, pattern_type),
            AccessControlEntryFilter(self.principal or None, self.host or None, operation, permission),
        )


class ConfluentListing(ConfluentDeletion, forbid_unknown_fields=True, gc=False, kw_only=True):
    """A filter of ACLs to list; a field that is left out matches any value."""

    resource_type: str = ResourceType.ANY.name
    pattern_type: str = PatternType.ANY.name
    operation: str = AclOperation.ANY.name
    permission: str = AclPermissionType.ANY.name


class ConfluentAclRoutes:
    """The handlers of one node."""

    def __init__(self, node: Node, acls: AclRoutes) -> None:
        """``acls``: authorizes, applies and logs the changes."""
        self._node = node
        self._acls = acls

    @declare_endpoint(
        "GET",
        CLUSTERS_PATH,
        "Confluent's API: the cluster of this node",
        ConfluentClusterList,
        errors=(ErrorCode.AUTHORIZER_NOT_READY,),
    )
    async def clusters(self, request: Request) -> Response:
        cluster = ConfluentCluster.at(self._url(request), self._cluster_id())
        return json_response(ConfluentClusterList(ConfluentMetadata(self._url(request)), [cluster]))

    @declare_endpoint(
        "GET", _CLUSTER_PATH, "Confluent's API: a cluster", ConfluentCluster, errors=_CLUSTER_ERRORS
    )
    async def cluster(self, request: Request) -> Response:
        cluster_id, _ = self._acls_of(request)
        return json_response(ConfluentCluster.at(self._url(request), cluster_id))

    @declare_endpoint(
        "GET",
        _ACLS_PATH,
        "Confluent's API: list ACLs",
        ConfluentAclList,
        description="The ACLs that match the filter",
        request=ConfluentListing,
        example={"resource_type": "TOPIC", "pattern_type": "MATCH"},
        errors=_LIST_ERRORS,
    )
    async def describe(self, request: Request) -> Response:
        cluster_id, url = self._acls_of(request)
        given = decode_query(request.scope["query_string"], ConfluentListing)
        listing, _ = await self._acls.list_for(request, given.filter())
        found = msgspec.json.encode(ConfluentMetadata(filter_url(url, msgspec.structs.asdict(given))))

        def encode(record: AccessControlEntryRecord) -> bytes:
            return msgspec.json.encode(ConfluentAcl.at(url, cluster_id, record.content))

        head = b'{"kind":"KafkaAclList","metadata":%b,"data":[' % found
        return await listing_response(request, listing, ListingFormat(head, encode))

    @declare_endpoint(
        "POST",
        _ACLS_PATH,
        "Confluent's API: create an ACL",
        status=HTTPStatus.CREATED,
        description="It is in force; `location` is its URL",
        request=ConfluentNewAcl,
        example=_EXAMPLE,
        errors=_CHANGE_ERRORS,
    )
    async def create(self, request: Request) -> Response:
        _, url = self._acls_of(request)
        caller = self._acls.authorize_change(request, "CreateAcls")
        acl = decode_body(await read_body(request), ConfluentNewAcl, _ACLS_PATH)
        futures = self._node.authorizer.create_acls(caller.context, [acl.binding()])
        results, _ = await self._acls.finish_change(request, caller, futures)
        _require_success([result.exception for result in results])
        location = filter_url(url, msgspec.structs.asdict(acl))
        return Response(status_code=HTTPStatus.CREATED, headers={"location": location})

    @declare_endpoint(
        "POST",
        f"{_ACLS_PATH}:batch",
        "Confluent's API: create ACLs",
        status=HTTPStatus.CREATED,
        description="All of them are in force",
        request=ConfluentAclBatch,
        example={"data": [_EXAMPLE]},
        errors=_CHANGE_ERRORS,
    )
    async def create_batch(self, request: Request) -> Response:
        self._acls_of(request)
        caller = self._acls.authorize_change(request, "CreateAcls")
        acls = decode_body(await read_body(request), ConfluentAclBatch, f"{_ACLS_PATH}:batch").data
        check_count(len(acls))
        bindings = [acl.binding(f"data[{number}].") for number, acl in enumerate(acls)]
        futures = self._node.authorizer.create_acls(caller.context, bindings)
        results, _ = await self._acls.finish_change(request, caller, futures)
        _require_success([result.exception for result in results])
        return Response(status_code=HTTPStatus.CREATED)

    @declare_endpoint(
        "DELETE",
        _ACLS_PATH,
        "Confluent's API: remove ACLs",
        ConfluentDeletedAcls,
        description="The ACLs that matched the filter",
        request=ConfluentDeletion,
        in_query=True,
        example=_EXAMPLE,
        errors=_CHANGE_ERRORS,
    )
    async def delete(self, request: Request) -> Response:
        cluster_id, url = self._acls_of(request)
        caller = self._acls.authorize_change(request, "DeleteAcls", takes_query=True)
        given = decode_query(request.scope["query_string"], ConfluentDeletion)
        futures = self._node.authorizer.delete_acls(caller.context, [given.filter()])
        (result,), _ = await self._acls.finish_change(request, caller, futures)
        _require_success([result.exception])
        acls = [ConfluentAcl.at(url, cluster_id, record.content) for record in result.removed]
        return json_response(ConfluentDeletedAcls(acls))

    def _acls_of(self, request: Request) -> tuple[str, str]:
        """The cluster id of a request, and the URL of its ACLs. HttpError 404: another cluster's."""
        cluster_id: str = request.path_params["cluster_id"]
        if cluster_id != (known := self._cluster_id()):
            raise HttpError(
                ErrorCode.NOT_FOUND, f"Cluster {cluster_id[:80]} cannot be found: this node's is {known}."
            )
        return cluster_id, f"{self._url(request)}/{quote(cluster_id, safe='')}/acls"

    def _cluster_id(self) -> str:
        ready_state(self._node)
        identity = self._node.status().identity
        if identity is None:
            raise AuthorizerNotReadyError("the cluster id is not known yet")
        return identity.cluster_id

    def _url(self, request: Request) -> str:
        return public_url(self._node, request) + CLUSTERS_PATH


def _require_success(errors: Sequence[ApiError | None]) -> None:
    """Raise the error of the first item that was refused."""
    refused = [(number, error) for number, error in enumerate(errors) if error is not None]
    if not refused:
        return
    number, error = refused[0]
    message = str(error)
    if len(errors) > 1:
        message = (
            f"data[{number}]: {message} ({len(errors) - len(refused)} of {len(errors)} ACLs are in force)"
        )
    known = error.code_name in ErrorCode.__members__
    raise HttpError(ErrorCode[error.code_name] if known else ErrorCode.INVALID_REQUEST, message)
