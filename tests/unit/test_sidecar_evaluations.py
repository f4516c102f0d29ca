"""Evaluations without a server: inline answers, and large batches that yield to other tasks."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from authorizer.api.authorizer_api import Action, RequestContext
from authorizer.listeners.listener import Listener
from authorizer.node.node import Node
from authorizer.node.standard_authorizer import StandardAuthorizer
from authorizer.sidecar.http.errors import HttpError
from authorizer.sidecar.http.limits import LoadLimiter
from authorizer.sidecar.http.request_origin import Origin
from authorizer.sidecar.routes.authzen import Addresses
from authorizer.sidecar.routes.decision_json import decision_json, encoded_decisions_at, refusal_json
from authorizer.sidecar.routes.evaluations import (
    EVALUATION_PATH,
    EVALUATIONS_PATH,
    INLINE_MAX,
    RUN_MAX,
    SLICE_S,
    Evaluations,
)
from authorizer.sidecar.routes.request_state import RequestStates
from records.acl import AclOperation
from records.principal import ANONYMOUS, KafkaPrincipal
from support.decisions import topic
from support.node_acls import topic_acl
from support.nodes import create, running_node

ORIGIN = Origin(Listener(name="PLAINTEXT", url="http://127.0.0.1:1"), ANONYMOUS, "127.0.0.1")
CONTEXT = RequestContext(KafkaPrincipal("User", "a"), "10.0.0.1")
#: What others may have to wait, with room for reading the request at one go.
WAIT_S = 0.05


#: Evaluations of one request, by default.
EVALUATIONS_MAX = 10_000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(
        tmp_path / "log", log_mode="create", describe_principals="User:ANONYMOUS", audit_level="OFF"
    ) as node:
        create(node, [topic_acl("orders")])
        yield node


def evaluations_of(node: Node) -> Evaluations:
    load = LoadLimiter(node.config)
    return Evaluations(node, load, RequestStates(node, load))


def batch(count: int) -> bytes:
    items = [
        {
            "subject": {"type": "User", "id": "a"},
            "action": {"name": "READ"},
            "resource": {"type": "TOPIC", "id": f"t{number}" if number % 2 else "orders"},
            "context": {"host": "10.0.0.1"},
        }
        for number in range(count)
    ]
    return encoded({"evaluations": items})


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


async def answered_with_another_task(evaluations: Evaluations, body: bytes) -> tuple[bytes, list[float]]:
    """The answer, and the CPU seconds of this thread between two turns of another task."""
    turns: list[float] = []

    async def other() -> None:
        while True:
            turns.append(time.thread_time())
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await asyncio.sleep(0)
    answer = await evaluations.answer(EVALUATIONS_PATH, body, ORIGIN)
    turns.append(time.thread_time())
    task.cancel()
    return answer, [later - sooner for sooner, later in pairwise(turns)]


def test_a_large_batch_does_not_hold_the_event_loop(node: Node) -> None:
    """In CPU time of the loop's thread: a busy machine does not count."""
    evaluations = evaluations_of(node)
    answer, held_s = asyncio.run(answered_with_another_task(evaluations, batch(EVALUATIONS_MAX)))
    answers = json.loads(answer)["evaluations"]
    assert [each["decision"] for each in answers] == [True, False] * (EVALUATIONS_MAX // 2)
    assert max(held_s) < WAIT_S
    assert len(held_s) > sum(held_s) / SLICE_S / 5


def test_a_batch_is_decided_on_one_state(node: Node) -> None:
    """I1, also where others have their turn meanwhile."""
    evaluations = evaluations_of(node)
    end = node.status().end_offset
    answer_all, calls = StandardAuthorizer.answer_all, 0

    def growing(*args: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:
            create(node, [topic_acl("t11")])
        return answer_all(*args)  # type: ignore[arg-type]

    count = 5 * RUN_MAX
    with patch.object(StandardAuthorizer, "answer_all", growing):
        answer = asyncio.run(evaluations.answer(EVALUATIONS_PATH, batch(count), ORIGIN))
    assert calls == 5
    assert node.status().end_offset > end
    answers = json.loads(answer)["evaluations"]
    assert {each["context"]["offset"] for each in answers} == {end}
    assert [each["decision"] for each in answers] == [True, False] * (count // 2)


SUBJECTS = [None, {"type": "User", "id": "a"}, {"type": "User", "id": "b"}, {"type": "User", "id": "a"}]
ACTIONS = [None, {"name": "READ"}, {"name": "NONE"}]
RESOURCES = [None, {"type": "TOPIC", "id": "orders"}, {"type": "TOPIC", "id": "t"}, {"type": "X", "id": "t"}]
CONTEXTS = [
    None,
    {},
    {"host": "10.0.0.1", "explain": True},
    {"host": "10.0.0.1"},
    {"host": "10.0.0.2", "log_if_denied": False},
    {"host": "nowhere"},
]


def test_a_batch_is_answered_like_single_requests(node: Node) -> None:
    """However those of one client stand beside one another, and whichever cannot be answered."""
    evaluations = evaluations_of(node)
    drawn = random.Random(17)
    parts: dict[str, list[Any]] = {
        "subject": SUBJECTS,
        "action": ACTIONS,
        "resource": RESOURCES,
        "context": CONTEXTS,
    }
    items: list[dict[str, Any]] = []
    for _ in range(600):
        if drawn.random() < 0.5 or not items:
            items.append({name: drawn.choice(values) for name, values in parts.items()})
        else:
            items.append(items[-1] | {"resource": drawn.choice(RESOURCES)})
    requests = [{name: part for name, part in item.items() if part is not None} for item in items]
    alone = []
    for each in requests:
        try:
            alone.append(
                json.loads(evaluations.answer_one_inline(EVALUATION_PATH, encoded(each), ORIGIN) or b"")
            )
        except HttpError as error:
            alone.append(json.loads(refusal_json(error)))
    together = asyncio.run(evaluations.answer(EVALUATIONS_PATH, encoded({"evaluations": requests}), ORIGIN))
    assert json.loads(together)["evaluations"] == alone
    assert {True, False} == {each["decision"] for each in alone}
    assert len({each["context"]["error"]["message"] for each in alone if "error" in each["context"]}) >= 8


@pytest.mark.parametrize("semantic", ["deny_on_first_deny", "permit_on_first_permit"])
def test_nothing_is_decided_after_the_end_of_a_batch(node: Node, semantic: str) -> None:
    evaluations = evaluations_of(node)
    body = json.loads(batch(50)) | {"options": {"evaluations_semantic": semantic}}
    answer = evaluations.answer_inline(EVALUATIONS_PATH, encoded(body), ORIGIN)
    count = len(json.loads(answer or b"")["evaluations"])
    assert count == {"deny_on_first_deny": 2, "permit_on_first_permit": 1}[semantic]
    assert node.authorizer.metrics.allowed + node.authorizer.metrics.denied == count


@pytest.mark.parametrize(("count", "inline"), [(INLINE_MAX, True), (INLINE_MAX + 1, False)])
def test_only_a_small_batch_is_answered_inline(node: Node, count: int, *, inline: bool) -> None:
    """A larger batch is not decided inline, so that nothing is counted or audited twice."""
    answer = evaluations_of(node).answer_inline(EVALUATIONS_PATH, batch(count), ORIGIN)
    assert (answer is not None) is inline
    metrics = node.authorizer.metrics
    assert metrics.allowed + metrics.denied == (count if inline else 0)


def test_the_cache_of_addresses_is_bounded() -> None:
    addresses = Addresses(default=None)
    for number in range(5000):
        assert addresses[f"::{number:x}"] == f"0:0:0:0:0:0:0:{number:x}"
    assert len(addresses) < 5000
    long = f"fe80::1%{'a' * 100}"
    remembered = Addresses(default="10.0.0.9")
    assert [remembered[host] for host in ("10.0.0.1", None, "")] == ["10.0.0.1", "10.0.0.9", "10.0.0.9"]
    assert remembered[long].endswith("a" * 100)
    assert set(remembered) == {"10.0.0.1", None, ""}
    for wrong in ("localhost", None):
        with pytest.raises(HttpError):
            addresses[wrong]


def test_each_reason_is_in_plain_words() -> None:
    """Clients show these texts."""
    reasons = [json.loads(answer)["context"]["reason"] for answer in encoded_decisions_at(7)]
    assert reasons == [
        "the principal is a super user",
        "an ACL allows it",
        "an ACL denies it",
        "no ACL covers the resource, and allow.everyone.if.no.acl.found is true",
        "no ACL allows it",
    ]


@pytest.mark.parametrize("end_offset", [0, 7, 1 << 62])
def test_a_decision_has_its_rule_and_its_offset(node: Node, end_offset: int) -> None:
    authorizer = node.authorizer
    allowed = authorizer.answer(CONTEXT, Action(AclOperation.READ, topic("orders")))
    denied = authorizer.answer(CONTEXT, Action(AclOperation.READ, topic("t")))
    for decided, rule in ((allowed, "MatchingAcl"), (denied, "DefaultDeny")):
        answer = json.loads(decision_json(decided, encoded_decisions_at(end_offset), explained=True))
        assert answer["decision"] is decided.is_allowed
        assert (answer["context"]["rule"], answer["context"]["offset"]) == (rule, end_offset)
        assert ("acl" in answer["context"]) is decided.is_allowed
