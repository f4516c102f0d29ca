"""``/v1/acls``: list, create and remove ACLs over HTTP; ``/v1/acls/{id}``: show one; ``/v1/plans``.

The rules:

- Kafka's ACLs authorize callers, as on a broker: Describe on the cluster to list, Alter on it to change.
  Connections to the socket in the log's directory need no ACL, because only the log's owner can open it.
- A creation or removal is answered when its outcome is known here, with a result for each item (KIP-504), at
  the latest after aclog.acl.update.timeout.ms. No request blocks the event loop.
- An answer has an offset at which the change is visible.
- A plan is applied to the log's newest state: completely, if the effective permissions are those of the plan,
  else not at all. A plan that removes a large share of the ACLs needs maxRemovedPercent.
- Until the node is ready, listings and changes are refused.
- Requests of web pages are refused: a browser adds Origin to them, and ANONYMOUS may be any browser.
"""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec
import structlog
from starlette.responses import Response, StreamingResponse

from authorizer.analysis.plans.plan import PlanApplication, PlanResult
from authorizer.api.authorizer_api import AclCreateResult, AclDeleteResult
from authorizer.api.http.acl_requests import ACLS_PATH, PLANS_PATH, AclCreation, AclDeletion
from authorizer.api.http.answers.acls import (
    Acl,
    AclList,
    AppliedAcl,
    CreationResults,
    DeletionResults,
    PlanOutcomes,
    SingleAcl,
)
from authorizer.api.http.error_code import ErrorCode
from authorizer.engine.decisions.listing import Listing, list_acls
from authorizer.sidecar.auth.caller_authorization import Caller
from authorizer.sidecar.http.errors import HttpError, invalid_request
from authorizer.sidecar.http.request_decoding import decode_query
from authorizer.sidecar.http.request_response import (
    JSON,
    hold_answer,
    json_response,
    origin_of,
    read_body,
    require_no_browser,
)
from authorizer.sidecar.routes.endpoint import GUARD_ERRORS, STATE_ERRORS, declare_endpoint
from authorizer.sidecar.routes.request_bodies import (
    AclListing,
    AtOffset,
    bindings_of,
    filters_of,
    listing_of,
    plan_of,
)
from authorizer.sidecar.routes.request_state import RequestStates, ready_state, results_and_end
from records.acl import AclBindingFilter, AclOperation
from records.errors import DecodeError
from records.ids import uuid_from_string

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from starlette.requests import Request

    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.node.node import Node
    from records.entries import AccessControlEntryRecord

_Result = TypeVar("_Result", AclCreateResult, AclDeleteResult, PlanResult)

log = structlog.get_logger(__name__)

#: ACLs of a listing that are encoded together: some 64 KiB of JSON.
ACLS_PER_PART: Final = 256

_EXAMPLE: Final = {
    "resourceType": "TOPIC",
    "resourceName": "orders",
    "principal": "User:alice",
    "operation": "READ",
    "permissionType": "ALLOW",
}
_PLAN_EXAMPLE: Final = {
    "aclogPlan": 1,
    "origin": {"log": "file:acls", "clusterId": "c", "topicId": None, "endOffset": 7},
    "superUsers": [],
    "allowEveryone": False,
    "kafkaVersion": "4.3",
    "digest": "0" * 32,
    "meaningBefore": "0" * 32,
    "meaningAfter": "1" * 32,
    "remove": [],
    "add": [_EXAMPLE],
    "checksum": "2" * 32,
}


class AclRoutes:
    """The handlers of one node."""

    def __init__(self, node: Node, states: RequestStates) -> None:
        self._node = node
        self._states = states

    @declare_endpoint(
        "GET",
        ACLS_PATH,
        "List ACLs",
        AclList,
        description="The ACLs that match the filter",
        request=AclListing,
        example={"resourceType": "TOPIC", "patternType": "MATCH"},
        errors=STATE_ERRORS,
    )
    async def describe(self, request: Request) -> Response:
        wanted, min_offset, at_offset = listing_of(request.scope["query_string"])
        listing, end_offset = await self.list_for(request, wanted, min_offset, at_offset)
        head = b'{"offset":%d,"end_offset":%d,"acls":[' % (end_offset, end_offset)
        return await listing_response(request, listing, ListingFormat(head, _encode_acl))

    async def list_for(
        self,
        request: Request,
        wanted: AclBindingFilter,
        min_offset: int | None = None,
        at_offset: int | None = None,
    ) -> tuple[Listing, int]:
        """The ACLs of a filter and their end offset, for a caller who may list them; HttpError 403."""
        state = await self._authorized_state(request, min_offset, at_offset)
        # To put a million ACLs in order takes seconds.
        return await asyncio.to_thread(list_acls, state.index, wanted), state.end_offset

    @declare_endpoint(
        "GET",
        f"{ACLS_PATH}/{{id}}",
        "Show an ACL, and the offset of the record that wrote it",
        SingleAcl,
        request=AtOffset,
        errors=(*STATE_ERRORS, ErrorCode.NOT_FOUND),
    )
    async def describe_one(self, request: Request) -> Response:
        given = decode_query(request.scope["query_string"], AtOffset)
        state = await self._authorized_state(request, given.min_offset, given.at_offset)
        text = request.path_params["id"]
        try:
            acl = state.index.image.get(uuid_from_string(text))
        except DecodeError as error:
            raise invalid_request(str(error)) from error
        if acl is None:
            raise HttpError(
                ErrorCode.NOT_FOUND, f"no ACL with the id {text} is in force at end offset {state.end_offset}"
            )
        return json_response(SingleAcl(state.end_offset, state.end_offset, AppliedAcl.of_row(acl)))

    @declare_endpoint(
        "POST",
        ACLS_PATH,
        "Create ACLs",
        CreationResults,
        description="A result for each ACL, in order; refused ones have an error",
        request=AclCreation,
        example={"acls": [_EXAMPLE]},
        errors=GUARD_ERRORS,
    )
    async def create(self, request: Request) -> Response:
        caller = self.authorize_change(request, "CreateAcls")
        bindings = bindings_of(await read_body(request))
        futures = self._node.authorizer.create_acls(caller.context, bindings)
        return json_response(CreationResults.of(*await self.finish_change(request, caller, futures)))

    @declare_endpoint(
        "DELETE",
        ACLS_PATH,
        "Remove ACLs",
        DeletionResults,
        description="A result for each filter, in order; refused ones have an error",
        request=AclDeletion,
        example={"filters": [_EXAMPLE]},
        errors=GUARD_ERRORS,
    )
    async def delete(self, request: Request) -> Response:
        caller = self.authorize_change(request, "DeleteAcls")
        filters = filters_of(await read_body(request))
        futures = self._node.authorizer.delete_acls(caller.context, filters)
        return json_response(DeletionResults.of(*await self.finish_change(request, caller, futures)))

    @declare_endpoint(
        "POST",
        PLANS_PATH,
        "Apply a plan completely or not at all",
        PlanOutcomes,
        description="The removed and added ACLs, or the reason why nothing was changed: the log's effective "
        "permissions differ from those of the plan, or it removes a larger share of the ACLs than is allowed",
        request=PlanApplication,
        example=_PLAN_EXAMPLE,
        errors=GUARD_ERRORS,
    )
    async def apply(self, request: Request) -> Response:
        caller = self.authorize_change(request, "ApplyPlan")
        return await self.apply_for(
            request, caller, await asyncio.to_thread(plan_of, await read_body(request))
        )

    async def apply_for(self, request: Request, caller: Caller, wanted: PlanApplication) -> Response:
        future = self._node.mutator.apply_plan(wanted.plan, wanted.max_removed_percent)
        (result,), end_offset = await self.finish_change(request, caller, [future])
        return json_response(PlanOutcomes(end_offset, end_offset, [result.answer()]))

    async def _authorized_state(
        self, request: Request, min_offset: int | None, at_offset: int | None
    ) -> AuthorizerState:
        """The requested state, if the caller may list it; HttpError 403 otherwise."""

        def require(now: AuthorizerState, *, log_if_allowed: bool = False) -> None:
            self._caller(now, request, "DescribeAcls").require_on_cluster(
                AclOperation.DESCRIBE, log_if_allowed=log_if_allowed
            )

        state, now = await self._states.states(
            origin_of(request), require, min_offset=min_offset, at_offset=at_offset
        )
        require(now, log_if_allowed=True)
        return state

    def authorize_change(self, request: Request, name: str, *, takes_query: bool = False) -> Caller:
        """The caller, if it may change ACLs; HttpError 403 otherwise."""
        require_no_browser(request, takes_query=takes_query)
        caller = self._caller(ready_state(self._node), request, name)
        caller.require_on_cluster(AclOperation.ALTER)
        return caller

    async def finish_change(
        self, request: Request, caller: Caller, futures: Sequence[Future[_Result]]
    ) -> tuple[list[_Result], int]:
        """Wait for a change and log it; return its results and the end offset at which it is visible."""
        results, end_offset = await results_and_end(self._node, futures)
        request.state.has_changed = True
        log.info(
            "acls_changed",
            request=caller.context.request_name,
            caller=str(caller.context.caller),
            caller_host=caller.context.caller_address,
            listener=caller.context.listener_name,
            created=sum(len(result.added) for result in results),
            deleted=len({record.id for result in results for record in result.removed}),
            refused=sum(result.exception is not None for result in results),
            offset=end_offset,
        )
        return results, end_offset

    def _caller(self, state: AuthorizerState, request: Request, name: str) -> Caller:
        return Caller(self._node, state, origin_of(request), name)


class ListingFormat(NamedTuple):
    """JSON of a listing: what precedes the array's items, and the encoder of an item; ``]}`` follows."""

    head: bytes
    encode: Callable[[AccessControlEntryRecord], bytes]


async def listing_response(request: Request, listing: Listing, form: ListingFormat) -> Response:
    """A small listing is one body; a large one is encoded in parts, as fast as the client reads."""
    parts = _listing_parts(listing, form)
    first = await asyncio.to_thread(next, parts)
    if len(listing) <= ACLS_PER_PART:
        return Response(first, media_type=JSON)
    hold_answer(request, listing.size_bytes + 2 * len(first))
    rest = () if request.method == "HEAD" else chain([first], parts)
    return StreamingResponse(rest, media_type=JSON)


def _encode_acl(record: AccessControlEntryRecord) -> bytes:
    return msgspec.json.encode(Acl.of(record))


def _listing_parts(listing: Listing, form: ListingFormat) -> Iterator[bytes]:
    """The JSON in parts; each part is encoded when it is read."""
    part = form.head
    for start in range(0, len(listing), ACLS_PER_PART):
        if start:
            yield part
            part = b","
        part += b",".join(form.encode(acl.record) for acl in listing.part(start, ACLS_PER_PART))
    yield part + b"]}"
