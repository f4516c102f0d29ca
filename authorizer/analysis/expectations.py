"""Expectations: access that must be there, or must not, for every name, host and principal there could be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from authorizer.analysis.access_queries import Asker, questions_of
from authorizer.analysis.effective_permissions import Meaning
from authorizer.analysis.host_answers import OPERATION_BITS, without
from authorizer.analysis.name_map import NameMap
from authorizer.analysis.name_space import NAME_SPACES
from authorizer.analysis.rights_below_prefix import answers_of, who_can, within

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Network, IPv6Network

    from authorizer.analysis.access_queries import Questions
    from authorizer.analysis.name_space import Key
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.acl import AclOperation, ResourceType
    from records.columns.acl_table import AclTable


class Expectation(NamedTuple):
    """What must hold for an operation on a name, or on all names with a prefix.

    Attributes:
        kind: ``allow``: each of the principals may, on every name and from every host; ``deny``: none of them
            may, on any name from any host; ``only``: nobody else may, super users excepted.
        network: the hosts that are meant; None for all.
    """

    kind: Literal["allow", "deny", "only"]
    principals: tuple[str, ...]
    operation: AclOperation
    resource_type: ResourceType
    where: Key
    network: IPv4Network | IPv6Network | None = None


def violations(table: AclTable, settings: AuthorizerSettings, expected: Expectation) -> Iterator[Questions]:
    """Every class of questions that is answered otherwise than is expected, with a witness in the network."""
    for questions in _broken(table, settings, expected):
        host = (
            questions.witness.host if expected.network is None else questions.hosts.any_in(expected.network)
        )
        if host is not None:
            yield questions._replace(witness=questions.witness._replace(host=host))


def _broken(table: AclTable, settings: AuthorizerSettings, expected: Expectation) -> Iterator[Questions]:
    kind, principals, operation, resource_type, where, _ = expected
    if kind == "only":
        may = {*principals, *settings.super_users}
        yield from who_can(table, settings, resource_type, where, operation, exempt=may)
        return
    meaning = Meaning.of(table, settings, principals)
    for principal in principals:
        answered = within(answers_of(meaning, principal, resource_type), where, operation, resource_type)
        if kind == "allow":
            asked = within(NameMap(OPERATION_BITS[operation]), where, operation, resource_type)
            answered = asked.combined(answered, without, NAME_SPACES[resource_type])
        yield from questions_of(answered, Asker.of(principal), resource_type)
