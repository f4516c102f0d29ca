"""Decision log: the pipeline from decisions to events at their destinations.

    decisions -> level -> rules (dropped, sampled) -> folding -> events -> each destination

The audit writer's thread feeds it with decisions, some 50 ms later (200 after a pause), and calls ``write``
regularly. A decision never waits for it; lost events are counted, and a warning is logged.
"""

from __future__ import annotations

import math
import random
import secrets
import socket
import threading
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import structlog
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from authorizer.api.audit_levels import AUDIT_LEVELS
from authorizer.api.errors import ConfigError
from authorizer.configuration.decision_log import DROP, KEEP, DestinationKind, sampling_interval
from authorizer.configuration.keys.names import AUDIT_QUEUE, DECISION_LOG, DECISION_LOG_LEVEL
from authorizer.node.decision_log.destinations import (
    HEADERS,
    Destination,
    FileDestination,
    StdoutDestination,
    TopicDestination,
    event_topic,
)
from authorizer.node.decision_log.event import DecisionEvent, decision_event, encode_event
from authorizer.node.decision_log.folding import Folding
from records.errors import LogError
from records.log.open import open_async_producer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client import Metric

    from authorizer.configuration.decision_log import DestinationSettings, Rule
    from authorizer.configuration.load import Config
    from authorizer.engine.decisions.decision import DecidedAction

log = structlog.get_logger(__name__)


_WARNING_INTERVAL_S: Final = 10.0


class LossWarnings:
    """Limits the warnings about one kind of lost events to one in ten seconds. Not thread-safe."""

    __slots__ = ("_reported", "_reported_s")

    def __init__(self) -> None:
        self._reported = 0
        self._reported_s = -math.inf

    def take_unreported(self, lost: int, *, is_last: bool = False) -> int:
        """Return the number of lost events for a warning now; 0 for no warning.

        ``lost``: the total so far. ``is_last``: report all, as there is no later warning.
        """
        unreported, now_s = lost - self._reported, time.monotonic()
        if not unreported or (now_s - self._reported_s < _WARNING_INTERVAL_S and not is_last):
            return 0
        self._reported, self._reported_s = lost, now_s
        return unreported


class DecisionLog:
    """Turns decisions into events and writes these to destinations. Thread-safe.

    Attributes:
        level: decisions at this level of the audit log or above become events.
        dropped: number of decisions that a rule ``drop`` discarded.
        sampled_out: number of decisions that a rule ``1/N`` discarded.
        lost: number of decisions that did not fit into the audit writer's queue.
    """

    def __init__(
        self,
        destinations: Sequence[Destination],
        *,
        level: int,
        rules: Sequence[Rule] = (),
        fold_s: float = 0.0,
        source: str = "/aclog",
    ) -> None:
        """``fold_s``: time window in which repeats are counted; 0: an event for each decision."""
        self.level = level
        self.destinations = tuple(destinations)
        self.dropped = 0
        self.sampled_out = 0
        self.lost = 0
        self._rules = tuple(rules)
        self._source = source
        self._folding = Folding(fold_s, source) if fold_s else None
        self._events: list[DecisionEvent] = []
        # A process's ids have one prefix and consecutive numbers: a missing number shows a lost event.
        self._prefix = secrets.token_hex(8)
        self._numbers = count(1)
        self._random = random.Random()  # noqa: S311 - guessing which decisions are sampled is harmless
        self._lock = threading.Lock()
        self._loss_warnings = {each: LossWarnings() for each in self.destinations}
        self._queue_loss_warnings = LossWarnings()

    @classmethod
    def configured(cls, config: Config, worker: int | None = None) -> Self | None:
        """Return the configured decision log; None without destinations.

        ``worker``: number of this process among several, which have separate files. ConfigError: a file
        cannot be opened, or the Kafka client refuses a topic's settings.
        """
        if not config.decision_log:
            return None
        source = f"//{socket.gethostname()}/aclog"
        if config.node_id >= 0:
            source += f"/{config.node_id}"
        return cls(
            [_opened(config, each, worker) for each in config.decision_log],
            level=AUDIT_LEVELS[config.decision_log_level],
            rules=config.decision_log_rules,
            fold_s=config.decision_log_fold_ms / 1000,
            source=source,
        )

    @property
    def folded(self) -> int:
        """Number of decisions that are counted in the event of an earlier one."""
        return 0 if self._folding is None else self._folding.folded

    def take(self, decided: DecidedAction) -> None:
        """Add a decision at ``level`` or above; ``write`` writes complete events."""
        context, action = decided.context, decided.action
        principal = str(context.principal)
        interval = sampling_interval(self._rules, principal, context, action, is_allowed=decided.is_allowed)
        with self._lock:
            if interval == DROP:
                self.dropped += 1
            elif interval > KEEP and self._random.randrange(interval):
                self.sampled_out += 1
            elif self._folding is None:
                self._events.append(decision_event(decided, principal, self._source, interval))
            else:
                event = self._folding.take(decided, principal, interval, time.monotonic())
                if event is not None:
                    self._events.append(event)

    def write(self) -> None:
        """Write complete events, and update the destinations' counts."""
        with self._lock:
            self._write(time.monotonic())

    def close(self) -> None:
        """Write all events, within the destinations' time limits. Idempotent."""
        with self._lock:
            self._write(None)
            for each in self.destinations:
                each.close()
                self._warn_if_lost(each, is_last=True)
            self._warn_if_queue_was_full(is_last=True)

    def _write(self, now_s: float | None) -> None:
        events, self._events = self._events, []
        if self._folding is not None:
            events += self._folding.ended(now_s)
        lines = []
        for event in events:
            event.id = f"{self._prefix}-{next(self._numbers)}"
            lines.append(encode_event(event))
        for each in self.destinations:
            each.put(lines)
            self._warn_if_lost(each)
        self._warn_if_queue_was_full()

    def _warn_if_lost(self, destination: Destination, *, is_last: bool = False) -> None:
        lost = self._loss_warnings[destination].take_unreported(destination.lost, is_last=is_last)
        if lost:
            log.warning(
                "decision_events_lost", events=lost, destination=destination.name, reason=destination.reason
            )

    def _warn_if_queue_was_full(self, *, is_last: bool = False) -> None:
        lost = self._queue_loss_warnings.take_unreported(self.lost, is_last=is_last)
        if lost:
            log.warning(
                "decision_events_lost",
                events=lost,
                destination="all",
                reason="decisions come quicker than their events are written",
                way_out=f"more room ({AUDIT_QUEUE}), or a level that has fewer ({DECISION_LOG_LEVEL})",
            )


class DecisionLogCollector(Collector):
    """Prometheus metrics of a decision log."""

    def __init__(self, decision_log: DecisionLog) -> None:
        self._decision_log = decision_log

    def collect(self) -> Iterator[Metric]:
        written = CounterMetricFamily(
            "aclog_decision_events_written", "Decision events that are written.", labels=["destination"]
        )
        lost = CounterMetricFamily(
            "aclog_decision_events_lost", "Decision events that could not be written.", labels=["destination"]
        )
        for each in self._decision_log.destinations:
            written.add_metric([each.name], each.written)
            lost.add_metric([each.name], each.lost)
        without_event = CounterMetricFamily(
            "aclog_decisions_without_event",
            "Decisions without an event of their own: dropped or sampled out by a rule, folded into an "
            "earlier one's, lost because too many waited.",
            labels=["why"],
        )
        counts = self._decision_log
        for why, total in (
            ("dropped", counts.dropped),
            ("sampled_out", counts.sampled_out),
            ("folded", counts.folded),
            ("lost", counts.lost),
        ):
            without_event.add_metric([why], total)
        yield from (written, lost, without_event)


def _opened(config: Config, settings: DestinationSettings, worker: int | None) -> Destination:
    match settings.kind:
        case DestinationKind.STDOUT:
            return StdoutDestination(settings.text)
        case DestinationKind.FILE:
            path = Path(settings.location)
            if worker is not None:
                path = path.with_stem(f"{path.stem}-{worker}")
            try:
                return FileDestination(
                    settings.text,
                    path,
                    max_bytes=config.decision_log_file_max_bytes,
                    keep=config.decision_log_file_keep,
                )
            except OSError as error:
                allowed = f"a file that this process can write: {error.strerror}"
                raise ConfigError(DECISION_LOG, settings.text, allowed) from error
        case DestinationKind.TOPIC:
            url, client = event_topic(config, settings)
            try:
                return TopicDestination(
                    settings.text, open_async_producer(url, client=client, headers=HEADERS)
                )
            except LogError as error:
                raise ConfigError(DECISION_LOG, settings.text, str(error)) from error
