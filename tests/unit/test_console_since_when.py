"""Since when requests have their answer: a page of them together, compared with the history of each."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest

from authorizer.analysis.history.blame import RequestSubject
from authorizer.analysis.permissions.access_queries import answers_for
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.analysis.permissions.request_class import PrincipalSet, RequestClass, request_classes
from authorizer.analysis.permissions.witness import decision_arguments
from authorizer.console.history.history_json import decision_history_json
from authorizer.console.history.history_states import Change, HistoryState
from authorizer.console.history.since_when import AnswerAges
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import ResourceType
from records.columns.acl_table import AppliedAcl
from records.entries import BrokerRecord, RemoveAccessControlEntryRecord, SupportedLevels
from records.ids import Uuid
from records.log_batch import LogRecord
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support.brute_force import PRINCIPALS, random_pair

GROUP = ResourceType.GROUP
#: By end offset; only the later release matches networks.
BROKER_LEVELS = {4: SupportedLevels(7, 30), 8: SupportedLevels(7, 32)}


def random_states(rng: random.Random) -> list[HistoryState]:
    """States whose steps add, replace and remove some of a few ACLs, and register brokers of two releases."""
    records = [*random_pair(rng)[0], *random_pair(rng)[1]]
    # An id may get another content.
    numbered = [
        msgspec.structs.replace(
            each,
            id=Uuid((number % 6 + 1).to_bytes(16, "big")),
            host="10.0.0.0/30" if rng.random() < 0.2 else each.host,
        )
        for number, each in enumerate(records)
    ]
    delta = AclsDelta(AclsImage.EMPTY)
    for record in numbered[:3]:
        delta.put(AppliedAcl(record, 0, 1))
    image = delta.apply(Provenance(1, 0, 1))
    states = [HistoryState(image, 1, (), 0, 0)]
    for end_offset in range(2, 12):
        delta = AclsDelta(image)
        for record in rng.sample(numbered, min(len(numbered), 2)):
            if rng.random() < 0.4:
                removal = RemoveAccessControlEntryRecord(record.id)
                delta.replay(LogRecord(end_offset, end_offset * 10, removal))
            else:
                delta.put(AppliedAcl(record, end_offset, end_offset * 10))
        changes = tuple(Change(old, new, end_offset - 1) for old, new in delta.changed() if old != new)
        image = delta.apply(Provenance(end_offset, 0, end_offset * 10))
        brokers = tuple(
            LogRecord(end_offset - 1, end_offset * 10, BrokerRecord(0, 4, 1, levels))
            for end, levels in BROKER_LEVELS.items()
            if end == end_offset
        )
        states.append(HistoryState(image, end_offset * 10, changes, 0, 0, None, brokers))
    return states


def classes_of(state: HistoryState, settings: AuthorizerSettings) -> list[RequestClass]:
    permissions = EffectivePermissions.of(state.image.merged().columns, settings)
    return [
        requests
        for principal in PRINCIPALS
        for requests in request_classes(
            answers_for(permissions, principal, GROUP), PrincipalSet.of(principal), GROUP
        )
    ]


def last_change(
    requests: RequestClass, states: Sequence[HistoryState], settings: AuthorizerSettings
) -> dict[str, object]:
    """The state of the last change of one request after the other."""
    witness, found = requests.witness, []
    for operation in requests.operations:
        arguments = decision_arguments(
            witness.principal, witness.host, operation, witness.resource_type, witness.name
        )
        turns = decision_history_json(RequestSubject(*arguments, settings), states)["turns"]
        known = bool(turns)
        last = turns[-1] if known else {"end_offset": states[0].end_offset, "timestamp": 1}
        found.append({"known": known, "end_offset": last["end_offset"], "timestamp": last["timestamp"]})
    return max(found, key=lambda each: (each["known"], each["end_offset"]))


@pytest.mark.parametrize("limit_s", [None, 600.0])
def test_each_date_is_that_of_the_requests_history(limit_s: float | None) -> None:
    rng = random.Random(303)
    dated = 0
    for number in range(30):
        states = random_states(rng)
        settings = AuthorizerSettings(
            frozenset(("User:b",)) if number % 7 == 0 else frozenset(), allow_everyone=number % 4 == 0
        )
        requests = classes_of(states[-1], settings)
        found = list(AnswerAges(states, GROUP).since(requests, settings, limit_s=limit_s))
        assert found == [last_change(each, states, settings) for each in requests], number
        dated += sum(1 for each in found if each is not None and each["known"])
    assert dated > 40


def test_without_time_there_is_no_answer() -> None:
    states = random_states(random.Random(1))
    settings = AuthorizerSettings()
    requests = classes_of(states[-1], settings)
    assert requests
    found = AnswerAges(states, GROUP).since(requests, settings, limit_s=-1.0)
    assert list(found) == [None] * len(requests)
