"""FaultHandler: decides whether a fault makes the node not ready.

Source: org.apache.kafka.server.fault.FaultHandler. A fault is a failure of a part of this program: of a
publisher that raised, or of the loader. A log that cannot be read or decoded is no fault: see I7.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Protocol

import structlog

_log = structlog.get_logger(__name__)


class Verdict(Enum):
    """Consequence of a fault for the node."""

    GO_ON = "go on"
    #: No decision is made on this state until the part has recovered.
    NOT_READY = "not ready"


class FaultHandler(Protocol):
    """Receives every fault, on the loader's thread."""

    def handle(self, part: str, message: str, error: Exception) -> Verdict:
        """Return the verdict. ``part`` is a publisher's name, or ``loader``."""


class LoggingFaultHandler:
    """Logs and counts every fault, and fails closed unless the part makes no decisions.

    ``faults``: their number, by part.
    """

    def __init__(self, *, harmless: Iterable[str] = ()) -> None:
        """``harmless``: parts whose failure does not affect decisions (snapshots, metrics, feeds)."""
        self._harmless = frozenset(harmless)
        self.faults: dict[str, int] = {}

    def handle(self, part: str, message: str, error: Exception) -> Verdict:
        self.faults[part] = self.faults.get(part, 0) + 1
        verdict = Verdict.GO_ON if part in self._harmless else Verdict.NOT_READY
        _log.error("fault", part=part, message=message, verdict=verdict.value, exc_info=error)
        return verdict
