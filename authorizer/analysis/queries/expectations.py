"""Expectations: access that must or must not exist, checked for all possible names, hosts and principals."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network
from typing import Literal, NamedTuple

from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.analysis.permissions.request_class import PrincipalSet, RequestClass, request_classes
from authorizer.analysis.queries.access_queries import answers_for, below_prefix, permitted_principals
from authorizer.analysis.request_space.host_answers import OPERATION_BITS, Answer, subtract
from authorizer.analysis.request_space.name_map import NameMap
from authorizer.analysis.request_space.name_space import NAME_SPACES, Key
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import AclOperation, ResourceType
from records.columns.acl_table import AclTable


class Expectation(NamedTuple):
    """An expected answer for an operation on a name, or on all names with a prefix.

    Attributes:
        kind: ``allow``: each of the principals may, on every name from every host; ``deny``: none of them
            may, on any name from any host; ``only``: no other principal may, except super users.
        network: only hosts in this network; None: all hosts.
    """

    kind: Literal["allow", "deny", "only"]
    principals: tuple[str, ...]
    operation: AclOperation
    resource_type: ResourceType
    names: Key
    network: IPv4Network | IPv6Network | None = None


def violations(
    table: AclTable, settings: AuthorizerSettings, expected: Expectation
) -> Iterator[RequestClass]:
    """Yield each class of requests with another answer than expected, with a witness in the network."""
    for requests in _violations(table, settings, expected):
        host = (
            requests.witness.host if expected.network is None else requests.hosts.example_in(expected.network)
        )
        if host is not None:
            yield requests._replace(witness=requests.witness._replace(host=host))


def _violations(
    table: AclTable, settings: AuthorizerSettings, expected: Expectation
) -> Iterator[RequestClass]:
    kind, principals, operation, resource_type, names, _ = expected
    if kind == "only":
        exempt = {*principals, *settings.super_users}
        yield from permitted_principals(table, settings, resource_type, names, operation, exempt=exempt)
        return
    permissions = EffectivePermissions.of(table, settings, principals)
    for principal in principals:
        answers = below_prefix(
            answers_for(permissions, principal, resource_type), names, operation, resource_type
        )
        if kind == "allow":
            everything: NameMap[Answer] = NameMap(OPERATION_BITS[operation])
            expected_answers = below_prefix(everything, names, operation, resource_type)
            answers = expected_answers.combined(answers, subtract, NAME_SPACES[resource_type])
        yield from request_classes(answers, PrincipalSet.of(principal), resource_type)
