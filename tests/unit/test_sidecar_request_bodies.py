"""Bodies and queries of /v1/acls: defaults, and what is refused; nothing that was meant is passed over."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

import msgspec
import pytest

from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.plans.plan import AclPlan, PlanOrigin, application_body
from authorizer.engine.decisions.state import AuthorizerSettings
from authorizer.node.writing.acl_control import RECORDS_PER_OPERATION_MAX
from authorizer.sidecar.http.errors import HttpError
from authorizer.sidecar.routes.request_bodies import bindings_of, filters_of, listing_of, plan_of
from records.acl import AclBindingFilter
from records.columns.acl_table import AclTable
from snapshot.image import AclsImage
from support.node_acls import topic_acl

ACL = {
    "resourceType": "TOPIC",
    "resourceName": "t",
    "principal": "User:a",
    "operation": "READ",
    "permissionType": "ALLOW",
}


def request(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_defaults_of_a_new_acl_are_kafka_acls() -> None:
    """A literal name, from everywhere; names of codes in any case; an id says nothing."""
    wanted = {"acls": [ACL, {**ACL, "operation": "read", "resourceType": "topic", "id": "x"}]}
    assert bindings_of(request(wanted)) == [topic_acl("t")] * 2


def test_a_share_is_sent_with_a_plan_and_is_no_part_of_it() -> None:
    """The plan's checksum covers only the plan; without a share the body is the file."""
    origin = PlanOrigin("file:x", "c", "t", 3)
    changed = ChangedAcls(AclTable.of(()), AclTable.of(()))
    plan = AclPlan.of(origin, AclsImage.EMPTY, changed, AuthorizerSettings())
    assert application_body(plan, None) == msgspec.json.encode(plan)
    for share in (None, 0, 70, 100):
        wanted = plan_of(application_body(plan, share))
        assert (wanted.plan, wanted.max_removed_percent) == (plan, share)
        assert AclPlan.from_json(msgspec.json.encode(wanted.plan)) == plan
    for wrong in (b"-1", b"101", b"1.5", b'"70"'):
        body = plan.to_json().rstrip().removesuffix(b"}") + b',"maxRemovedPercent":' + wrong + b"}"
        with pytest.raises(HttpError, match="maxRemovedPercent"):
            plan_of(body)


def test_missing_fields_of_a_filter_match_any_value() -> None:
    assert filters_of(request({"filters": [{}]})) == [AclBindingFilter()]
    assert listing_of(b"") == (AclBindingFilter(), None, None)
    assert listing_of(b"min_offset=7&at_offset=5") == (AclBindingFilter(), 7, 5)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "Expected `object`"),
        ({}, "missing required field `acls`"),
        ({"acls": [ACL], "more": 1}, "unknown field `more`"),
        ({"acls": [{"resourceType": "TOPIC"}]}, "missing required field `resourceName`"),
        ({"acls": [{**ACL, "resource": "t"}]}, r"unknown field `resource` - at `\$.acls"),
        ({"acls": [{**ACL, "resourceName": None}]}, "got `null`"),
        (
            {"acls": [ACL, {**ACL, "operation": "FLY"}]},
            r"acls\[1\].operation `FLY` is none of ANY, ALL",
        ),
        ({"acls": [{**ACL, "patternType": "UNKNOWN"}]}, r"acls\[0\].patternType `UNKNOWN`"),
    ],
)
def test_an_invalid_body_of_a_creation_is_refused(body: Any, message: str) -> None:
    with pytest.raises(HttpError, match=message) as raised:
        bindings_of(request(body))
    assert raised.value.code.status == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "missing required field `filters`"),
        ({"filters": [{"resourcename": "t"}]}, "unknown field `resourcename`"),
        ({"filters": [{"id": "x"}]}, "unknown field `id`"),
        ({"filters": [{"permissionType": "MAYBE"}]}, r"filters\[0\].permissionType `MAYBE`"),
    ],
)
def test_a_filter_with_an_unknown_field_is_refused(body: Any, message: str) -> None:
    """A mistyped field is not ignored: without it the filter matches every ACL."""
    with pytest.raises(HttpError, match=message) as raised:
        filters_of(request(body))
    assert raised.value.code.status == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (b"topic=t", "unknown field `topic`; the parameters are resourceType, .*min_offset"),
        (b"resourceName", "not name=value"),
        (b"resourceName=%ff", "not name=value"),
        (b"resourceName=\xff", "not name=value"),
        (b"principal=User:a&principal=User:b", "is repeated"),
        (b"operation=FLY", "operation `FLY`"),
        (b"min_offset=-1", r">= 0 - at `\$.min_offset`"),
        (b"at_offset=" + b"9" * 5000, r"at `\$.at_offset`"),
    ],
)
def test_an_invalid_query_is_refused(query: bytes, message: str) -> None:
    with pytest.raises(HttpError, match=message) as raised:
        listing_of(query)
    assert raised.value.code.status == HTTPStatus.BAD_REQUEST


def test_no_more_items_than_one_operation_takes() -> None:
    """A larger request could only fail completely."""
    many = RECORDS_PER_OPERATION_MAX + 1
    for read, body in ((bindings_of, {"acls": [ACL] * many}), (filters_of, {"filters": [{}] * many})):
        with pytest.raises(HttpError, match="at most 10000") as raised:
            read(request(body))
        assert raised.value.code.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
