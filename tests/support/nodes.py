"""Started nodes on any kind of log, with an optional sidecar and client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from authorizer.configuration.load import Config, load_config
from authorizer.console.routes.in_process_console import InProcessConsole
from authorizer.node.node import Node
from authorizer.sidecar.server import Sidecar
from records.acl import AclBinding
from support.node_acls import CONTEXT, named

#: Timeout for a busy machine; a test that passes does not wait for it.
SOON_S = 60.0


@contextmanager
def running_node(url: object, *, ready: bool = True, **settings: object) -> Iterator[Node]:
    """A started node; settings by their key with underscores for dots, without ``aclog.``."""
    config = config_of(log_url=url, **settings)
    with Node.open(config) as node:
        node.start()
        if ready:
            assert node.wait_until_ready(SOON_S), node.status()
        yield node


@contextmanager
def sidecar_of(node: Node, **settings: object) -> Iterator[str]:
    """The URL ``http://HOST:PORT`` of a sidecar; the settings are the server's."""
    config = config_of(listeners="PLAINTEXT://127.0.0.1:0", **settings)
    with Sidecar(config, groups=InProcessConsole()) as sidecar:
        sidecar.start(node)
        yield sidecar.urls[0]


@contextmanager
def node_with_client(
    directory: Path, bindings: Sequence[AclBinding] = (), **settings: Any
) -> Iterator[tuple[Node, httpx.Client]]:
    """A ready node on a new log with these ACLs, and a client of its sidecar."""
    with (
        running_node(directory, log_mode="create", **settings) as node,
        sidecar_of(node) as url,
        httpx.Client(base_url=url, timeout=SOON_S) as client,
    ):
        if bindings:
            create(node, bindings)
        yield node, client


def config_of(**settings: object) -> Config:
    """A configuration; settings by their key with underscores for dots, without ``aclog.``."""
    flags = {f"aclog.{name.replace('_', '.')}": str(value) for name, value in settings.items()}
    return load_config(environ={}, flags=flags)


def create(node: Node, bindings: Sequence[AclBinding]) -> None:
    """Create them through a node, and wait until its decisions follow them."""
    for future in node.authorizer.create_acls(CONTEXT, bindings):
        assert (error := future.result(SOON_S).exception) is None, error


def delete(node: Node, name: str) -> list[AclBinding]:
    """Remove all ACLs on the resources of that name; returns them."""
    (future,) = node.authorizer.delete_acls(CONTEXT, [named(name)])
    result = future.result(SOON_S)
    assert result.exception is None, result.exception
    return [each.acl_binding for each in result.acl_binding_delete_results]
