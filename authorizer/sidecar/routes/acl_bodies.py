"""Reading and checking of requests for ``/v1/acls`` and ``/v1/plans`` (``api.http.acl_requests``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from authorizer.analysis.plans.plan import PlanApplication
from authorizer.api.errors import PlanUnreadableError
from authorizer.api.http.acl_requests import ACLS_PATH, PLANS_PATH, AclCreation, AclDeletion, AclFilter
from authorizer.api.http.error_code import ErrorCode
from authorizer.node.writing.acl_control import RECORDS_PER_OPERATION_MAX
from authorizer.sidecar.http.errors import HttpError, invalid_request
from authorizer.sidecar.http.request_decoding import decode_body, decode_query
from authorizer.sidecar.routes.query_requests import Offset
from records.acl import AclBinding, AclBindingFilter

_T = TypeVar("_T")


class AclListing(AclFilter, rename="camel", forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A filter, and the state to list."""

    min_offset: Offset | None = msgspec.field(name="min_offset", default=None)
    at_offset: Offset | None = msgspec.field(name="at_offset", default=None)


def bindings_of(body: bytes) -> list[AclBinding]:
    """The ACLs that a POST creates. Kafka's rules are checked later, for each ACL."""
    wanted = decode_body(body, AclCreation, ACLS_PATH).acls
    check_count(len(wanted))
    return [_validated(acl.binding, f"acls[{number}].") for number, acl in enumerate(wanted)]


def filters_of(body: bytes) -> list[AclBindingFilter]:
    """The filters of a DELETE. Raises as ``bindings_of``."""
    wanted = decode_body(body, AclDeletion, ACLS_PATH).filters
    check_count(len(wanted))
    return [_validated(each.filter, f"filters[{number}].") for number, each in enumerate(wanted)]


def plan_of(body: bytes) -> PlanApplication:
    """The plan of a POST. HttpError: 400, it is no plan, or it was modified."""
    try:
        return PlanApplication.from_json(body)
    except PlanUnreadableError as error:
        raise invalid_request(f"the body is not a request for {PLANS_PATH}: {error}") from error


def listing_of(query: bytes) -> tuple[AclBindingFilter, int | None, int | None]:
    """The filter of a GET, the offset that must be visible first, and the offset of the state to list."""
    wanted = decode_query(query, AclListing)
    return _validated(wanted.filter, ""), wanted.min_offset, wanted.at_offset


def _validated(read: Callable[[str], _T], where: str) -> _T:
    try:
        return read(where)
    except ValueError as error:
        raise invalid_request(str(error)) from error


def check_count(count: int) -> None:
    """Raise HttpError 413 for more items than one operation may have."""
    if count > RECORDS_PER_OPERATION_MAX:
        raise HttpError(
            ErrorCode.CONTENT_TOO_LARGE, f"{count} items in one request: at most {RECORDS_PER_OPERATION_MAX}"
        )
