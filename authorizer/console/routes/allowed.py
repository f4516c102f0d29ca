"""``/console/v1/allowed``: questions about all names with a prefix, or about everyone; the answer is exact.

To one principal it is all of the names, some or none, with a class of questions for each that is answered
alike: on which names but for which, from which hosts, the ACL that decides, and one question of it. Where no
principal is named it lists who may.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from authorizer.analysis.access_queries import Asker, questions_of
from authorizer.analysis.classes import decided, decision_json, hosts, who
from authorizer.analysis.deciding_acls import DecidingAcls
from authorizer.analysis.host_answers import NOTHING, OPERATION_BITS, without
from authorizer.analysis.name_map import NameMap
from authorizer.analysis.name_space import NAME_SPACES
from authorizer.analysis.rights_below_prefix import who_can, within
from authorizer.api.acl_json import acl_json
from authorizer.console.history.history_json import state_offset_json
from authorizer.console.routes.queries import AllowedQuery
from authorizer.sidecar.http.errors import invalid_request
from authorizer.sidecar.http.query import decode_query
from authorizer.sidecar.routes.name_parsing import code_of
from records.acl import AclOperation, ResourceType
from records.principal import parse_kafka_principal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from authorizer.analysis.access_queries import Names, Questions
    from authorizer.analysis.name_space import Key
    from authorizer.console.history.state_cache import StateCache
    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.engine.index.acl_index import AclIndex
    from authorizer.sidecar.auth.caller_authorization import Caller

#: Names of a class that are sent, and exceptions of each.
_NAMES_MAXIMUM: Final = 20
# Lists of who may that are kept.
_LISTS_MAXIMUM: Final = 4


class _Asked(NamedTuple):
    """The operation on which names."""

    resource_type: ResourceType
    where: Key
    operation: AclOperation


class AllowedRoutes:
    """The handler of one node. Thread-safe."""

    def __init__(
        self,
        states: StateCache,
        caller_of: Callable[[Request], Caller],
        answered: Callable[..., Coroutine[Any, Any, Response]],
    ) -> None:
        """``caller_of``: who asks; ``answered``: the response with what is worked out in a thread."""
        self._states = states
        self._caller_of = caller_of
        self._answered = answered
        self._keeping = threading.Lock()
        self._lists: OrderedDict[tuple[AclIndex, _Asked], list[Questions]] = OrderedDict()

    async def allowed(self, request: Request) -> Response:
        """GET: which of the names a principal may do it to, or who may."""
        question = decode_query(request.scope["query_string"], AllowedQuery)
        asked = _asked(question)
        caller = self._caller_of(request)
        principal: str | None = question.principal or None
        if principal is not None:
            principal = str(parse_kafka_principal(principal))
            caller.require_may_ask_about(parse_kafka_principal(principal))
        elif not caller.may_list():
            principal = str(caller.origin.principal)
        if question.at_offset is not None:
            caller.require_on_cluster(AclOperation.DESCRIBE)

        def worked_out() -> dict[str, Any]:
            state = self._states.state_at(question.at_offset)
            classes: list[tuple[bool, Questions]]
            found: dict[str, Any] = {**state_offset_json(state), "principal": principal}
            if principal is None:
                classes = [(True, each) for each in self._who(state, asked)]
            else:
                summary, classes = self._of_one(state, asked, principal)
                found["summary"] = summary
            shown = classes[question.first : question.first + question.count]
            acls = DecidingAcls(state.index.image.merged().columns, [each for _, each in shown])
            lines = [
                _class_json(state, acls, each, asked.operation, is_allowed=is_so) for is_so, each in shown
            ]
            return found | {"total": len(classes), "first": question.first, "classes": lines}

        return await self._answered(worked_out, is_past=question.at_offset is not None)

    def _of_one(
        self, state: AuthorizerState, asked: _Asked, principal: str
    ) -> tuple[str, list[tuple[bool, Questions]]]:
        """``all``, ``some`` or ``none``; what is allowed, then what is not."""
        resource_type, where, operation = asked
        (column,) = self._states.matrix(state, resource_type).columns([principal])
        bit, space = OPERATION_BITS[operation], NAME_SPACES[resource_type]
        allowed = within(column.answers, where, operation, resource_type)
        every = NameMap.of(NOTHING, [(*where, bit)], space)
        denied = every.combined(allowed, without, space)
        asker = Asker.of(principal)
        classes = [
            (is_allowed, questions)
            for is_allowed, answers in ((True, allowed), (False, denied))
            for questions in questions_of(answers, asker, resource_type)
        ]
        cell = column.cell(where)
        return "all" if cell.always & bit else "some" if cell.sometimes & bit else "none", classes

    def _who(self, state: AuthorizerState, asked: _Asked) -> list[Questions]:
        """Who may; what is looked at page by page is worked out once."""
        key = state.index, asked
        with self._keeping:
            if key not in self._lists:
                settings = state.settings.with_version_of(state.index.image)
                table = state.index.image.merged().columns
                self._lists[key] = list(
                    who_can(table, settings, asked.resource_type, asked.where, asked.operation)
                )
                while len(self._lists) > _LISTS_MAXIMUM:
                    self._lists.popitem(last=False)
            return self._lists[key]


def _asked(question: AllowedQuery) -> _Asked:
    operation = code_of(AclOperation, question.operation, "operation")
    resource_type = code_of(ResourceType, question.type, "type")
    where = NAME_SPACES[resource_type].pattern(question.name, is_prefix=question.prefix)
    if where is None:
        kind = "begin with" if question.prefix else "have the name"
        raise invalid_request(f"no {resource_type.name} can {kind} `{question.name}`")
    return _Asked(resource_type, where, operation)


def _class_json(
    state: AuthorizerState,
    acls: DecidingAcls,
    questions: Questions,
    operation: AclOperation,
    *,
    is_allowed: bool,
) -> dict[str, Any]:
    """In words, with what decides the question that stands for the class, and which ACLs decide others."""
    witness, decision = questions.witness, decided(state, questions, operation)
    others = acls.others(questions, decision, is_allowed=is_allowed)
    return {
        "allowed": is_allowed,
        "who": who(questions),
        "names_total": len(questions.names),
        "names": [_names_json(each) for each in questions.names[:_NAMES_MAXIMUM]],
        "hosts": hosts(questions),
        "decision": decision_json(decision),
        "other_acls": [*map(acl_json, others.acls)],
        "other_acls_complete": others.is_complete,
        "witness": {"principal": witness.principal, "name": witness.name, "host": witness.host},
    }


def _names_json(names: Names) -> dict[str, Any]:
    but: Sequence[Key] = names.but[:_NAMES_MAXIMUM]
    return {
        "text": names.text,
        "is_name": names.is_name,
        "but": [{"text": text, "is_name": is_name} for text, is_name in but],
        "but_total": len(names.but),
    }
