"""Decision logs that write their events to memory."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from authorizer.api.audit_levels import DEBUG, OFF
from authorizer.configuration.decision_log import parse_rules
from authorizer.configuration.log_setup import LogOutput
from authorizer.node.audit_writer import AuditWriter
from authorizer.node.decision_log.decision_log import DecisionLog
from authorizer.node.decision_log.destinations import Destination


class MemoryDestination(Destination):
    """Stores all events, unless it has no room."""

    def __init__(self, name: str = "kept") -> None:
        super().__init__(name)
        self.lines: list[bytes] = []
        self.has_room = True

    def put(self, events: Sequence[bytes]) -> None:
        if self.has_room:
            self.lines += events
            self.written += len(events)
        elif events:
            self.lose(len(events), "no room")

    def close(self) -> None:
        """Nothing waits."""

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def data(self) -> list[dict[str, Any]]:
        return [event["data"] for event in self.events()]

    def names(self) -> list[str]:
        """The resource names of the events."""
        return [data["resource_name"] for data in self.data()]


@contextmanager
def events_to(
    *destinations: Destination,
    level: int = DEBUG,
    lines: int = OFF,
    rules: str = "",
    fold_s: float = 0.0,
    max_lines: int = 0,
) -> Iterator[AuditWriter]:
    """An audit writer with a decision log; ``lines``: from which level on it has lines, too."""
    decision_log = DecisionLog(
        destinations, level=level, rules=parse_rules(rules, key="rules"), fold_s=fold_s, source="//host/aclog"
    )
    output = LogOutput(logging.StreamHandler(io.StringIO()), as_json=True)
    with AuditWriter(output, lines, max_lines=max_lines, decision_log=decision_log) as audit:
        yield audit
