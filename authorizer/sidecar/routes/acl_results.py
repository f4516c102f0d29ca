"""What ``/v1/acls`` answers for each item (KIP-504), and ``/v1/plans``, as JSON, both ways: no sockets.

    POST      {"created": true, "acl": {...}}; {"created": false} where an equal ACL was there already
    DELETE    {"deleted": [{...}, ...]}
    GET       {"offset": N, "acls": [{...}, ...]}
    a plan    {"acl_count": 12, "removed": [{...}, ...], "added": [{...}, ...]}: acl_count is of the ACLs
              that were in force before; nothing is in the lists where all of it was done already
    all       {"error": {"name": "InvalidRequestException", "code": "INVALID_REQUEST", "message": ...}}

ACLs are as ``aclog acls --json`` prints them; an error has Kafka's exception and code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from authorizer.analysis.plan import PlanResult
from authorizer.api.acl_json import acl_from_json, acl_json
from authorizer.api.authorizer_api import AclBindingDeleteResult, AclCreateResult, AclDeleteResult
from authorizer.api.errors import api_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from authorizer.api.errors import ApiError
    from authorizer.engine.decisions.listing import Listing

#: ACLs of a listing that are encoded together: some 64 KiB of JSON.
ACLS_PER_PART: Final = 256


def listing_parts(listing: Listing, end_offset: int) -> Iterator[bytes]:
    """A listing in parts, each of which is encoded when it is asked for."""
    encode = msgspec.json.Encoder().encode
    part = b'{"offset":%d,"end_offset":%d,"acls":[' % (end_offset, end_offset)
    for start in range(0, len(listing), ACLS_PER_PART):
        if start:
            yield part
            part = b","
        part += b",".join(encode(acl_json(acl.record)) for acl in listing.part(start, ACLS_PER_PART))
    yield part + b"]}"


def created_json(result: AclCreateResult) -> dict[str, Any]:
    """The result for one ACL."""
    if result.exception is not None:
        return _error_json(result.exception)
    if result.record is None:
        return {"created": False}
    return {"created": True, "acl": acl_json(result.record)}


def deleted_json(result: AclDeleteResult) -> dict[str, Any]:
    """The result for one filter."""
    if result.exception is not None:
        return _error_json(result.exception)
    deleted = [each.record for each in result.acl_binding_delete_results]
    return {"deleted": [acl_json(record) for record in deleted if record is not None]}


def applied_json(result: PlanResult) -> dict[str, Any]:
    """The result of a plan."""
    if result.exception is not None:
        return _error_json(result.exception)
    return {
        "acl_count": result.acl_count,
        "removed": [*map(acl_json, result.removed)],
        "added": [*map(acl_json, result.added)],
    }


def create_result_of(result: Mapping[str, Any]) -> AclCreateResult:
    """What ``created_json`` said. KeyError, TypeError or ValueError: it did not."""
    if "error" in result:
        return AclCreateResult(_error_of(result["error"]))
    return AclCreateResult(record=acl_from_json(result["acl"]) if result["created"] else None)


def delete_result_of(result: Mapping[str, Any]) -> AclDeleteResult:
    """What ``deleted_json`` said. Raises as ``create_result_of``."""
    if "error" in result:
        return AclDeleteResult(exception=_error_of(result["error"]))
    deleted = [acl_from_json(acl) for acl in result["deleted"]]
    return AclDeleteResult(
        tuple(AclBindingDeleteResult(record.binding(), record=record) for record in deleted)
    )


def plan_result_of(result: Mapping[str, Any]) -> PlanResult:
    """What ``applied_json`` said. Raises as ``create_result_of``."""
    if "error" in result:
        return PlanResult(_error_of(result["error"]))
    removed, added = (tuple(map(acl_from_json, result[each])) for each in ("removed", "added"))
    return PlanResult(removed=removed, added=added, acl_count=result.get("acl_count"))


def _error_json(error: ApiError) -> dict[str, Any]:
    return {"error": {"name": error.kafka_name, "code": error.code_name, "message": str(error)}}


def _error_of(error: Mapping[str, str]) -> ApiError:
    return api_error(error["name"], error["message"])
