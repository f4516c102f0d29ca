"""RemoteWriter: what a node needs of another process that writes its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from authorizer.analysis.plan import PlanMutator

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future


class RemoteWriter(PlanMutator, Protocol):
    """Changes the log's ACLs in another process.

    Attributes:
        writable: whether that process can change them.
        visible: set by the node before the first change: a future that is done when everything below an end
            offset is visible in this node.
    """

    writable: bool
    visible: Callable[[int], Future[bool]]

    def close(self) -> None:
        """Begin nothing more. Idempotent."""
