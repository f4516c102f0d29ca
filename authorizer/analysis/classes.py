"""Classes of questions as JSON and as words, and what decides them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from authorizer.analysis.related_acls import near
from authorizer.api.acl_json import acl_json
from authorizer.api.acl_text import literal_text
from authorizer.api.authorizer_api import Action, RequestContext
from authorizer.engine.decisions.authorize import decide
from authorizer.engine.decisions.state import AuthorizerState
from authorizer.engine.index.masks import OPERATIONS
from records.acl import AclOperation, PatternType, ResourcePattern
from records.principal import parse_kafka_principal
from snapshot.restore import image_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from authorizer.analysis.access_queries import Names, Questions
    from authorizer.analysis.name_space import Key
    from authorizer.engine.decisions.decision import Decision
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.acl import ResourceType
    from records.columns.acl_table import AclTable


def state_about(
    table: AclTable, classes: Iterable[Questions], settings: AuthorizerSettings
) -> AuthorizerState:
    """To ask the witnesses of these classes: no index is made of what has nothing to do with them."""
    names: dict[ResourceType, set[Key]] = {}
    whose = set()
    for each in classes:
        names.setdefault(each.resource_type, set()).add((each.witness.name, True))
        whose.add(each.witness.principal)
    image = image_of(near(table, names, None if settings.allow_everyone else whose))
    return AuthorizerState(settings.index(image), settings, is_ready=True, not_ready_reason="")


def decided(state: AuthorizerState, questions: Questions, operation: AclOperation) -> Decision:
    """The decision on the witness."""
    witness = questions.witness
    pattern = ResourcePattern(witness.resource_type, witness.name, PatternType.LITERAL)
    context = RequestContext(parse_kafka_principal(witness.principal), witness.host)
    return decide(state, context, Action(operation, pattern))


def decision_json(decision: Decision) -> dict[str, Any]:
    """The answer, its rule, and the ACL that decided."""
    acl = decision.acl
    return {
        "result": decision.result.value,
        "rule": decision.rule.value,
        "acl": None if acl is None else acl_json(acl.record),
    }


def questions_json(questions: Questions, operation: AclOperation) -> dict[str, Any]:
    """A class, for one of its operations, with its witness."""
    asker, witness, (host, but) = questions.asker, questions.witness, questions.hosts
    return {
        "witness": {
            "principal": witness.principal,
            "host": witness.host,
            "operation": operation.name,
            "resourceType": witness.resource_type.name,
            "resourceName": witness.name,
        },
        "principal": "*" if asker.principal is None else asker.principal,
        "principalsExcept": list(asker.but),
        "resourceType": questions.resource_type.name,
        "operation": operation.name,
        "names": [_names_json(each) for each in questions.names],
        "hosts": {"host": host or "*"} | ({"except": list(but)} if host is None or but else {}),
    }


def _names_json(names: Names) -> dict[str, Any]:
    if names.is_name:
        return {"name": names.text}
    return {
        "prefix": names.text,
        "except": [{"name" if is_name else "prefix": text} for text, is_name in names.but],
    }


def what(questions: Questions) -> str:
    """``Read, Describe on TOPIC orders, pay* from any host but 10.0.0.1``."""
    kind = questions.resource_type.name
    return f"{operations(questions)} on {kind} {where(questions)} from {hosts(questions)}"


def example(questions: Questions) -> str:
    """The witness: ``User:alice Read TOPIC orders from 10.0.0.1``."""
    witness, asked = questions.witness, questions.operations[0].title
    kind, name = witness.resource_type.name, _named(witness.name)
    return f"{witness.principal} {asked} {kind} {name} from {witness.host}"


def who(questions: Questions) -> str:
    """``User:alice``; ``everybody but User:alice, User:bob``."""
    principal, but, _ = questions.asker
    return _but("everybody", but) if principal is None else principal


def operations(questions: Questions) -> str:
    """``Read, Describe``."""
    return operations_text(questions.operations)


def operations_text(some: Collection[AclOperation]) -> str:
    """``Read, Describe``; ``every operation``; ``every operation but Read``.

    Who may ALL may be denied others: a DENY of Read is none of ALL, which no broker asks for.
    """
    others = [operation.title for operation in OPERATIONS if operation not in some]
    if AclOperation.ALL not in some or len(some) == 1:
        return ", ".join(operation.title for operation in some)
    return f"every operation but {', '.join(others)}" if others else "every operation"


def where(questions: Questions) -> str:
    """``orders, pay* (but pay-x)``; a prefix with a star behind it."""
    return ", ".join(map(_names, questions.names))


def hosts(questions: Questions) -> str:
    """``10.0.0.1``; ``any host but 10.0.0.1``; ``10.0.0.0/8 but 10.1.0.0/16``."""
    host, but = questions.hosts
    return _but(host or "any host", but)


def _names(names: Names) -> str:
    if names.is_name:
        return literal_text(names.text)
    but = [literal_text(text) if is_name else f"{text}*" for text, is_name in names.but]
    return f"{names.text}*" + (f" (but {', '.join(but)})" if but else "")


def _named(name: str) -> str:
    return name or "(the empty name)"


def _but(what: str, but: tuple[str, ...]) -> str:
    return f"{what} but {', '.join(but)}" if but else what
