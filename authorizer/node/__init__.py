"""A running node: it follows a log, decides, writes and audits. It contains no HTTP.

Programs import it from here: ``from authorizer.node import Node``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from authorizer.node.node import Node as Node
    from authorizer.node.node import NodeStatus as NodeStatus


def __getattr__(name: str) -> object:
    """Import the node on first use."""
    if name not in ("Node", "NodeStatus"):
        raise AttributeError(name)
    return getattr(import_module("authorizer.node.node"), name)
