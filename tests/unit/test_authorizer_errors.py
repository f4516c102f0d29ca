"""authorizer.api.errors: Kafka's names and codes, and the errors of KIP-50."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from authorizer.api.errors import (
    AuthorizationError,
    InvalidAclError,
    InvalidOperationError,
    InvalidPrincipalError,
    InvalidRequestError,
    InvalidResourceError,
)
from authorizer.engine.acl_validation import validate_binding
from records.acl import AclBinding, AclOperation, AclPermissionType
from support.node_acls import topic_acl

GOOD = topic_acl("t")


def with_pattern(**changes: Any) -> AclBinding:
    return replace(GOOD, pattern=replace(GOOD.pattern, **changes))


def with_entry(**changes: Any) -> AclBinding:
    return replace(GOOD, entry=replace(GOOD.entry, **changes))


BAD: list[tuple[AclBinding, type[AuthorizationError]]] = [
    (with_pattern(name=""), InvalidResourceError),
    (with_pattern(name="\udcff"), InvalidResourceError),
    (with_pattern(name="é" * 16_384), InvalidResourceError),
    (with_entry(host="\ud800"), InvalidAclError),
    (with_entry(operation=AclOperation.ANY), InvalidOperationError),
    (with_entry(permission_type=AclPermissionType.ANY), InvalidAclError),
    (with_entry(principal="nobody"), InvalidPrincipalError),
    (with_entry(principal="User:" + "a" * 32_763), InvalidPrincipalError),
]


@pytest.mark.parametrize(("binding", "kind"), BAD, ids=[str(number) for number in range(len(BAD))])
def test_the_errors_of_kip_50_have_kafkas_names(binding: AclBinding, kind: type[AuthorizationError]) -> None:
    """Each kind of invalid ACL has KIP-50's exception, with the name and code that Kafka 4.3 answers."""
    with pytest.raises(kind) as raised:
        validate_binding(binding)
    assert isinstance(raised.value, AuthorizationError)
    assert isinstance(raised.value, InvalidRequestError)
    assert (raised.value.kafka_name, raised.value.code_name) == ("InvalidRequestException", "INVALID_REQUEST")
