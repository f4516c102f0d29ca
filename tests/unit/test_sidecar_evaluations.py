"""Evaluations without a server: what is answered at once, and how large batches give others a turn."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest

from authorizer.node import Node
from authorizer.sidecar.authzen import EVALUATIONS_MAX
from authorizer.sidecar.evaluations import AT_ONCE_MAX, EVALUATIONS_PATH, SLICE_S, Evaluations
from authorizer.sidecar.origin import Listener, Origin
from authorizer.standard import StandardAuthorizer
from records.principal import ANONYMOUS
from support.node_acls import topic_acl
from support.nodes import create, running_node

ORIGIN = Origin(Listener(name="PLAINTEXT", url="http://127.0.0.1:1"), ANONYMOUS, "127.0.0.1")
#: What others may have to wait, with room for reading the request at one go.
WAIT_S = 0.05


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(
        tmp_path / "log", log_mode="create", describe_principals="User:ANONYMOUS", audit_level="OFF"
    ) as node:
        create(node, [topic_acl("orders")])
        yield node


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
    return json.dumps({"evaluations": items}).encode()


async def answered_beside_another(evaluations: Evaluations, body: bytes) -> tuple[bytes, list[float]]:
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
    evaluations = Evaluations(node)
    answer, held_s = asyncio.run(answered_beside_another(evaluations, batch(EVALUATIONS_MAX)))
    answers = json.loads(answer)["evaluations"]
    assert [each["decision"] for each in answers] == [True, False] * (EVALUATIONS_MAX // 2)
    assert max(held_s) < WAIT_S
    assert len(held_s) > sum(held_s) / SLICE_S / 5


def test_a_batch_is_decided_on_one_state_whatever_comes_between(node: Node) -> None:
    """I1, also where others have their turn meanwhile."""
    evaluations = Evaluations(node)
    end = node.status().end_offset
    decide, decided = StandardAuthorizer.decide, 0

    def growing(*args: object) -> object:
        nonlocal decided
        decided += 1
        if decided == 10:
            create(node, [topic_acl("t11")])
        return decide(*args)  # type: ignore[arg-type]

    with patch.object(StandardAuthorizer, "decide", growing):
        answer = asyncio.run(evaluations.answer(EVALUATIONS_PATH, batch(20), ORIGIN))
    assert node.status().end_offset > end
    answers = json.loads(answer)["evaluations"]
    assert {each["context"]["offset"] for each in answers} == {end}
    assert answers[11]["decision"] is False


@pytest.mark.parametrize(("count", "at_once"), [(AT_ONCE_MAX, True), (AT_ONCE_MAX + 1, False)])
def test_only_a_small_batch_is_answered_at_once(node: Node, count: int, *, at_once: bool) -> None:
    """A larger one is left undecided: nothing is counted or audited twice."""
    answer = Evaluations(node).answer_at_once(EVALUATIONS_PATH, batch(count), ORIGIN)
    assert (answer is not None) is at_once
    metrics = node.authorizer.metrics
    assert metrics.allowed + metrics.denied == (count if at_once else 0)
