"""A node that is asked over HTTP, with a client of its sidecar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from authorizer.node.node import Node
from records.acl import AclBinding
from support.nodes import SOON_S, create, running_node, sidecar_of


@contextmanager
def asked_node(
    directory: Path, bindings: Sequence[AclBinding] = (), **settings: Any
) -> Iterator[tuple[Node, httpx.Client]]:
    """A ready one on a new log with these ACLs; settings as those of ``running_node``."""
    with (
        running_node(directory, log_mode="create", **settings) as node,
        sidecar_of(node) as url,
        httpx.Client(base_url=url, timeout=SOON_S) as client,
    ):
        if bindings:
            create(node, bindings)
        yield node, client
