"""Ineffective ACLs: the reason why an ACL can match no request, and a suggestion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from authorizer.analysis.request_space.host_answers import is_client_host
from authorizer.analysis.request_space.name_space import NAME_SPACES
from authorizer.api.ip_address import host_address, network_of
from authorizer.engine.index.masks import acl_mask
from authorizer.engine.index.pattern_keys import LITERAL_PATTERN
from records.acl import CLUSTER_NAME, WILDCARD, AclOperation, ResourceType, code_to_name

if TYPE_CHECKING:
    from records.entries import AccessControlEntryRecord

IneffectiveField = Literal["resource type", "operation", "principal", "host", "name"]


def ineffective_field(record: AccessControlEntryRecord, *, networks: bool) -> IneffectiveField | None:
    """Return the first field that no request can have; None if one can match. The name comes last."""
    kind = ResourceType.from_code(record.resource_type)
    if kind not in NAME_SPACES:
        return "resource type"
    if not acl_mask(record.operation, record.permission_type):
        return "operation"
    if ":" not in record.principal:
        return "principal"
    if record.host != WILDCARD and not is_client_host(record.host, networks=networks):
        return "host"
    is_prefix = record.pattern_type != LITERAL_PATTERN
    return "name" if NAME_SPACES[kind].pattern(record.resource_name, is_prefix=is_prefix) is None else None


def ineffective_reason(record: AccessControlEntryRecord) -> str:
    """Return the reason as text, for an ineffective ACL."""
    kind = code_to_name(ResourceType, record.resource_type)
    # If no other field is wrong, the host is a network and the release does not match networks.
    match ineffective_field(record, networks=True) or "host":
        case "resource type":
            return f"no resource has the type {kind}"
        case "operation":
            return f"no request asks for the operation {code_to_name(AclOperation, record.operation)}"
        case "principal":
            name = record.principal
            return f"`{name}` is no principal: these are TYPE:NAME, such as User:{name}"
        case "host":
            return _bad_host(record.host)
        case _:
            return _bad_name(record, kind)


def _bad_host(host: str) -> str:
    if network_of(host) is not None:
        return f"`{host}` is a network, and before Kafka 4.4 no host of an ACL is one"
    try:
        return f"`{host}` is never a client's host: Java writes that address {host_address(host)}"
    except ValueError:
        return f"`{host}` is never a client's host: it is no address, and names are not resolved"


def _bad_name(record: AccessControlEntryRecord, kind: str) -> str:
    name = record.resource_name
    if record.resource_type == ResourceType.CLUSTER:
        return f"the cluster's name is {CLUSTER_NAME}"
    prefix = name.removesuffix(WILDCARD)
    what = f"no {kind} can have such a name"
    if record.pattern_type == LITERAL_PATTERN and prefix not in ("", name):
        return f"{what}: a literal * is no wildcard; perhaps the prefix {prefix} was meant"
    if name == WILDCARD:
        return f"{what}: a prefix * is no wildcard; perhaps the literal * was meant"
    return what
