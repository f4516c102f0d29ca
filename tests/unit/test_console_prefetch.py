"""The first view is prefetched, and correct after later changes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from authorizer.analysis.matrix.matrix import Matrix
from authorizer.analysis.matrix.teams import Teams
from authorizer.console.console_server import Prefetcher
from authorizer.console.history.state_cache import StateCache
from authorizer.console.routes.matrix_window import compute_first_view, window
from authorizer.console.routes.queries import MatrixQuery
from authorizer.engine.decisions.state import AuthorizerSettings
from authorizer.engine.index.acl_index import AclIndex
from authorizer.node.node import Node
from records.acl import AclOperation, ResourceType
from support.node_acls import acl
from support.nodes import SOON_S, config_of, create, delete, running_node

READ = AclOperation.READ
ALL_CELLS = MatrixQuery(rows=200, columns=200)


def test_the_first_matrix_is_derived_from_the_prefetched_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_node(tmp_path / "log", log_mode="create") as node:
        create(node, [acl("User:a", READ, "orders"), acl("User:b", READ, "pay", prefixed=True)])
        states, compute = StateCache(node, compute_first_view), Matrix.of
        computed: list[ResourceType] = []

        def recorded(index: AclIndex, settings: AuthorizerSettings, resource_type: ResourceType) -> Matrix:
            computed.append(resource_type)
            return compute(index, settings, resource_type)

        monkeypatch.setattr(Matrix, "of", recorded)
        assert states.prefetch()
        assert len(computed) == 1
        for change in (
            lambda: None,
            lambda: create(node, [acl("User:c", READ, "audit"), acl("User:*", READ, "open")]),
            lambda: delete(node, "orders"),
        ):
            change()
            state = states.state_at(None)
            found = states.matrix(state, ResourceType.TOPIC)
            assert states.prefetch()
            assert computed == [ResourceType.TOPIC]
            expected = compute(state.index, state.settings, ResourceType.TOPIC)
            both = (window(ALL_CELLS, each, None, None, Teams(), Teams()) for each in (found, expected))
            assert next(both) == next(both)
        # Other matrices are computed on request.
        states.matrix(states.state_at(None), ResourceType.GROUP)
        assert computed == [ResourceType.TOPIC, ResourceType.GROUP]


def test_nothing_is_prefetched_before_the_node_is_ready(tmp_path: Path) -> None:
    with Node.open(config_of(log_url=tmp_path / "log", log_mode="create")) as node:
        assert not StateCache(node).prefetch()


def test_the_prefetch_is_retried_until_the_node_is_ready() -> None:
    answers, is_done = iter([False, False, True]), threading.Event()

    def prefetch() -> bool:
        found = next(answers)
        if found:
            is_done.set()
        return found

    with Prefetcher(prefetch):
        assert is_done.wait(SOON_S)
