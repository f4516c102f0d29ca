"""What people see first is there before they look, and is right whatever has changed since."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from authorizer.analysis.matrix import Matrix
from authorizer.console.history.prefetch import Prefetcher
from authorizer.console.history.state_cache import StateCache
from authorizer.console.routes.matrix_window import window
from authorizer.console.routes.queries import MatrixQuery
from authorizer.engine.decisions.state import AuthorizerSettings
from authorizer.engine.index.acl_index import AclIndex
from authorizer.node.node import Node
from records.acl import AclOperation, ResourceType
from support.node_acls import acl
from support.nodes import SOON_S, config_of, create, delete, running_node

READ = AclOperation.READ
WHOLE = MatrixQuery(rows=200, columns=200)


def test_the_first_matrix_is_made_of_what_was_made_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_node(tmp_path / "log", log_mode="create") as node:
        create(node, [acl("User:a", READ, "orders"), acl("User:b", READ, "pay", prefixed=True)])
        states, anew = StateCache(node), Matrix.of
        made: list[ResourceType] = []

        def noted(index: AclIndex, settings: AuthorizerSettings, resource_type: ResourceType) -> Matrix:
            made.append(resource_type)
            return anew(index, settings, resource_type)

        monkeypatch.setattr(Matrix, "of", noted)
        assert states.prefetch()
        assert len(made) == 1
        for change in (
            lambda: None,
            lambda: create(node, [acl("User:c", READ, "audit"), acl("User:*", READ, "open")]),
            lambda: delete(node, "orders"),
        ):
            change()
            state = states.at(None)
            found = states.matrix(state, ResourceType.TOPIC)
            assert states.prefetch()
            assert made == [ResourceType.TOPIC]
            right = anew(state.index, state.settings, ResourceType.TOPIC)
            assert window(WHOLE, found, None, None) == window(WHOLE, right, None, None)
        # The others are made where they are looked at.
        states.matrix(states.at(None), ResourceType.GROUP)
        assert made == [ResourceType.TOPIC, ResourceType.GROUP]


def test_there_is_nothing_to_make_before_the_node_is_ready(tmp_path: Path) -> None:
    with Node.open(config_of(log_url=tmp_path / "log", log_mode="create")) as node:
        assert not StateCache(node).prefetch()


def test_it_is_looked_ahead_until_there_is_something_to_see() -> None:
    answers, is_done = iter([False, False, True]), threading.Event()

    def prefetch() -> bool:
        found = next(answers)
        if found:
            is_done.set()
        return found

    with Prefetcher(prefetch):
        assert is_done.wait(SOON_S)
