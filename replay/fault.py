"""What to do about a fault: one injected handler decides.

Source: org.apache.kafka.server.fault.FaultHandler. A fault is a failure of this program's own parts: of a
publisher that raised, of the loader. A log that cannot be read or decoded is none, it has its own rules (I7).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterable

_log = structlog.get_logger(__name__)


class Verdict(Enum):
    """What a fault means for the node."""

    GO_ON = "go on"
    #: No question is answered from this state until the part has recovered.
    NOT_READY = "not ready"


class FaultHandler(Protocol):
    """Hears of every fault, on the loader's thread."""

    def handle(self, part: str, message: str, error: Exception) -> Verdict:
        """Decide. ``part`` is a publisher's name, or ``loader``."""


class LoggingFaultHandler:
    """Logs and counts every fault, and fails closed unless the part is one that decides nothing.

    Attributes:
        faults: how many there were, by part.
    """

    def __init__(self, *, harmless: Iterable[str] = ()) -> None:
        """``harmless``: parts whose failure leaves every answer right (snapshots, metrics, feeds)."""
        self._harmless = frozenset(harmless)
        self.faults: dict[str, int] = {}

    def handle(self, part: str, message: str, error: Exception) -> Verdict:
        self.faults[part] = self.faults.get(part, 0) + 1
        verdict = Verdict.GO_ON if part in self._harmless else Verdict.NOT_READY
        _log.error("fault", part=part, message=message, verdict=verdict.value, exc_info=error)
        return verdict
