"""Destination: where events go, and how many have gone there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Destination(ABC):
    """One of ``aclog.decision.log``. Nothing of it raises: what it does not take is lost, and counted.

    Attributes:
        name: as it was configured, without a secret: for metrics and log lines.
        written: events that are there.
        lost: events that are not, and will not be.
        reason: why the last of those was lost, for people.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.written = 0
        self.lost = 0
        self.reason = ""

    @abstractmethod
    def put(self, events: Sequence[bytes]) -> None:
        """Take events, a line of JSON each without its end; none to look after those it has."""

    @abstractmethod
    def close(self) -> None:
        """Write what waits, within a bound. Afterwards nothing is taken. Idempotent."""

    def lose(self, events: int, reason: str) -> None:
        """Count events that are lost."""
        self.lost += events
        self.reason = reason
