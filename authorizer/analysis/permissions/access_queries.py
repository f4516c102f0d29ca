"""Queries of one set of ACLs: the permissions of a principal, and the principals permitted on some names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from authorizer.analysis.permissions.effective_permissions import Answers, EffectivePermissions
from authorizer.analysis.permissions.related_acls import related_to
from authorizer.analysis.permissions.request_class import PrincipalSet, RequestClass, request_classes
from authorizer.analysis.request_space.host_answers import NO_OPERATIONS, Answer, intersect
from authorizer.analysis.request_space.name_map import NameMap
from authorizer.analysis.request_space.name_space import NAME_SPACES, Key
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import AclOperation, ResourceType
from records.columns.acl_table import AclTable


def permissions_of(table: AclTable, settings: AuthorizerSettings, principal: str) -> Iterator[RequestClass]:
    """Yield everything that a principal, ``Type:name``, is allowed."""
    permissions = EffectivePermissions.of(table, settings, (principal,))
    for resource_type in NAME_SPACES:
        answers = answers_for(permissions, principal, resource_type)
        yield from request_classes(answers, PrincipalSet.of(principal), resource_type)


def permitted_principals(
    table: AclTable,
    settings: AuthorizerSettings,
    resource_type: ResourceType,
    names: Key,
    operation: AclOperation | None,
    *,
    exempt: Collection[str] = (),
) -> Iterator[RequestClass]:
    """Yield who may do the operation on a name, or on names with a prefix; all unlisted principals first.

    ``operation`` None: any one; a class has all operations of its requests.
    Classes and witnesses do not include the ``exempt`` principals.
    """
    permissions = EffectivePermissions.of(related_to(table, {resource_type: [names]}), settings)
    columns = (
        (each, answers_for(permissions, each, resource_type)) for each in sorted(permissions.principals)
    )
    usual = permissions.wildcard[resource_type]
    known = {*permissions.principals, *exempt}
    yield from permitted_among(usual, columns, known, resource_type, names, operation, exempt=exempt)


def permitted_among(
    usual: Answers,
    columns: Iterable[tuple[str, Answers]],
    known: Collection[str],
    resource_type: ResourceType,
    names: Key,
    operation: AclOperation | None,
    *,
    exempt: Collection[str] = (),
) -> Iterator[RequestClass]:
    """Yield the classes of `permitted_principals`, of known answers.

    ``usual`` are the answers to principals that are not ``known``; ``columns`` are those to the principals
    that may differ from them for these names, sorted.
    """
    allowed_usually = below_prefix(usual, names, operation, resource_type)
    listed = {}
    for principal, answers in columns:
        allowed = below_prefix(answers, names, operation, resource_type)
        if allowed != allowed_usually:
            listed[principal] = allowed
    unlisted = PrincipalSet.all_but(sorted({*listed, *exempt}), known)
    yield from request_classes(allowed_usually, unlisted, resource_type)
    for principal, allowed in listed.items():
        if principal not in exempt:
            yield from request_classes(allowed, PrincipalSet.of(principal), resource_type)


def answers_for(permissions: EffectivePermissions, principal: str, resource_type: ResourceType) -> Answers:
    """Return the answers to a principal for all names of a type."""
    return permissions.overrides(principal, resource_type).combined(
        permissions.wildcard[resource_type],
        lambda override, usual: usual if override is None else override,
        NAME_SPACES[resource_type],
    )


def below_prefix(
    answers: Answers, names: Key, operation: AclOperation | None, resource_type: ResourceType
) -> NameMap[Answer]:
    """Return the answers for one operation (None: all) on these names; elsewhere nothing is allowed."""
    text, is_name = names
    entries = [(text, is_name, answers.value_of(names))]
    for name, single, answer in () if is_name else answers.entries:
        if name.startswith(text) and (name, single) != names:
            entries.append((name, single, answer))
    if operation is not None:
        entries = [(name, single, intersect(answer, operation)) for name, single, answer in entries]
    return NameMap.of(NO_OPERATIONS, entries, NAME_SPACES[resource_type])
