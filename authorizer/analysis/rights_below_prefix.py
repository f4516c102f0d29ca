"""What is allowed, in classes of questions: to one principal; or to anybody, on a name or below a prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.analysis.access_queries import Asker, Questions, questions_of
from authorizer.analysis.effective_permissions import Meaning
from authorizer.analysis.host_answers import NOTHING, Answer, only
from authorizer.analysis.name_map import NameMap
from authorizer.analysis.name_space import NAME_SPACES
from authorizer.analysis.related_acls import near

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from authorizer.analysis.effective_permissions import Answers
    from authorizer.analysis.name_space import Key
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.acl import AclOperation, ResourceType
    from records.columns.acl_table import AclTable


def what_can(table: AclTable, settings: AuthorizerSettings, principal: str) -> Iterator[Questions]:
    """All that a principal, ``Type:name``, is allowed."""
    meaning = Meaning.of(table, settings, (principal,))
    for resource_type in NAME_SPACES:
        yield from questions_of(
            answers_of(meaning, principal, resource_type), Asker.of(principal), resource_type
        )


def who_can(
    table: AclTable,
    settings: AuthorizerSettings,
    resource_type: ResourceType,
    where: Key,
    operation: AclOperation,
    *,
    exempt: Collection[str] = (),
) -> Iterator[Questions]:
    """Who is allowed the operation on a name, or on which names with a prefix: everybody first.

    Classes and witnesses leave out the principals that are ``exempt``.
    """
    meaning = Meaning.of(near(table, {resource_type: [where]}), settings)
    usual = within(meaning.everybody[resource_type], where, operation, resource_type)
    listed = {}
    for principal in sorted(meaning.principals):
        answers = answers_of(meaning, principal, resource_type)
        allowed = within(answers, where, operation, resource_type)
        if allowed != usual:
            listed[principal] = allowed
    everybody = Asker.everybody(sorted({*listed, *exempt}), {*meaning.principals, *exempt})
    yield from questions_of(usual, everybody, resource_type)
    for principal, allowed in listed.items():
        if principal in exempt:
            continue
        yield from questions_of(allowed, Asker.of(principal), resource_type)


def answers_of(meaning: Meaning, principal: str, resource_type: ResourceType) -> Answers:
    """All that a principal is answered."""
    return meaning.departures(principal, resource_type).combined(
        meaning.everybody[resource_type],
        lambda own, usual: usual if own is None else own,
        NAME_SPACES[resource_type],
    )


def within(
    answers: Answers, where: Key, operation: AclOperation, resource_type: ResourceType
) -> NameMap[Answer]:
    """What is allowed of one operation in the names that are asked about; nothing elsewhere."""
    text, is_name = where
    places = [(text, is_name, only(answers.at(where), operation))]
    for name, single, answer in () if is_name else answers.places:
        if name.startswith(text) and (name, single) != where:
            places.append((name, single, only(answer, operation)))
    return NameMap.of(NOTHING, places, NAME_SPACES[resource_type])
