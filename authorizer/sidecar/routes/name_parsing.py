"""A question's words in Kafka's terms. Pure; each error names the field and what it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from authorizer.api.ip_address import host_address
from authorizer.sidecar.http.errors import invalid_request
from records.acl import AclOperation, ResourceType
from records.principal import parse_kafka_principal

if TYPE_CHECKING:
    from records.principal import KafkaPrincipal

_Code = TypeVar("_Code", AclOperation, ResourceType)

_CALLED = {AclOperation: "operation", ResourceType: "resource type"}


def code_of(kind: type[_Code], name: str, field: str) -> _Code:
    """An operation or a resource type that can be asked about, by its name in any case. HttpError 400."""
    code = kind.from_name(name)
    if code <= kind.ANY:
        known = ", ".join(member.name for member in kind if member > kind.ANY)
        raise invalid_request(f"{field} `{name}` is not a Kafka {_CALLED[kind]}: {known}")
    return code


def address_of(host: str | None, default: str | None, field: str) -> str:
    """The client's address as ACL hosts are written; ``default`` where there is none. HttpError 400."""
    host = host or default
    if host is None:
        raise invalid_request(
            f"the request has no {field}, the client's IP address, which ACLs are matched against; "
            "send it, or set aclog.sidecar.default.host"
        )
    try:
        return host_address(host)
    except ValueError as error:
        raise invalid_request(f"{field}: {error}") from error


def principal_of(text: str, field: str) -> KafkaPrincipal:
    """``Type:name``. HttpError 400."""
    try:
        return parse_kafka_principal(text)
    except ValueError as error:
        raise invalid_request(f"{field}: {error}") from error
