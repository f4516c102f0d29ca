"""The decision log: which decisions become events, and where these go.

    decisions -> level -> rules (dropped, sampled) -> folding -> events -> each destination

It is the audit writer's: its thread gives it what was decided, some 50 ms later, and looks after it when
nothing is. Nothing here makes a decision wait; what is lost on the way is counted, and said.
"""

from __future__ import annotations

import random
import secrets
import socket
import threading
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Self

import structlog

from authorizer.api.audit_levels import AUDIT_LEVELS
from authorizer.api.errors import ConfigError
from authorizer.configuration.decision_log import DROP, KEEP, DestinationKind, sampling_interval
from authorizer.configuration.keys.names import AUDIT_QUEUE, DECISION_LOG, DECISION_LOG_LEVEL
from authorizer.node.decision_log.event import decision_event, encode_event
from authorizer.node.decision_log.event_topic import event_topic
from authorizer.node.decision_log.folding import Folding
from authorizer.node.decision_log.lines import FileDestination, StdoutDestination
from authorizer.node.decision_log.topic import HEADERS, TopicDestination
from authorizer.node.dropped_event_counter import Losses
from records.errors import LogError
from records.log.open import open_async_producer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.configuration.decision_log import DestinationSettings, Rule
    from authorizer.configuration.load import Config
    from authorizer.engine.decisions.decision import DecidedAction
    from authorizer.node.decision_log.destination import Destination
    from authorizer.node.decision_log.event import DecisionEvent

log = structlog.get_logger(__name__)


class DecisionLog:
    """See the module. Thread-safe.

    Attributes:
        level: the lowest level of the audit log whose decisions become events.
        destinations: where these go.
        dropped: decisions that a rule has no event for.
        sampled_out: decisions that others' events stand for, by a rule ``1/N``.
        lost: decisions that there was no room for in the audit writer's queue.
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
        """``fold_s``: the window in which repeats are counted; 0: an event for each decision."""
        self.level = level
        self.destinations = tuple(destinations)
        self.dropped = 0
        self.sampled_out = 0
        self.lost = 0
        self._rules = tuple(rules)
        self._source = source
        self._folding = Folding(fold_s, source) if fold_s else None
        self._events: list[DecisionEvent] = []
        # A process's ids begin alike, and are numbered: a number that is not there was lost.
        self._prefix = secrets.token_hex(8)
        self._numbers = count(1)
        self._random = random.Random()  # noqa: S311 - nobody gains by guessing which decisions are sampled
        self._lock = threading.Lock()
        self._losses = {each: Losses() for each in self.destinations}
        self._queue_losses = Losses()

    @classmethod
    def configured(cls, config: Config, worker: int | None = None) -> Self | None:
        """As the configuration has it; None without destinations.

        ``worker``: of several processes the number of this one, whose files are its own.

        Raises:
            ConfigError: a file that cannot be opened, a topic's settings that its client does not take.
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
        """Decisions that are counted in an earlier one's event."""
        return 0 if self._folding is None else self._folding.folded

    def take(self, decided: DecidedAction) -> None:
        """One decision at ``level`` or above; ``write`` writes what is complete."""
        context, action = decided.context, decided.action
        principal = str(context.principal)
        of = sampling_interval(self._rules, principal, context, action, is_allowed=decided.is_allowed)
        with self._lock:
            if of == DROP:
                self.dropped += 1
            elif of > KEEP and self._random.randrange(of):
                self.sampled_out += 1
            elif self._folding is None:
                self._events.append(decision_event(decided, principal, self._source, of))
            else:
                event = self._folding.take(decided, principal, of, time.monotonic())
                if event is not None:
                    self._events.append(event)

    def write(self) -> None:
        """Write the events that are complete; look after the destinations."""
        with self._lock:
            self._write(time.monotonic())

    def close(self) -> None:
        """Write all that there is, within the destinations' bounds. Idempotent."""
        with self._lock:
            self._write(None)
            for each in self.destinations:
                each.close()
                self._say_lost(each, is_last=True)
            self._say_lost_in_queue(is_last=True)

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
            self._say_lost(each)
        self._say_lost_in_queue()

    def _say_lost(self, destination: Destination, *, is_last: bool = False) -> None:
        lost = self._losses[destination].to_say(destination.lost, is_last=is_last)
        if lost:
            log.warning(
                "decision_events_lost", events=lost, destination=destination.name, reason=destination.reason
            )

    def _say_lost_in_queue(self, *, is_last: bool = False) -> None:
        lost = self._queue_losses.to_say(self.lost, is_last=is_last)
        if lost:
            log.warning(
                "decision_events_lost",
                events=lost,
                destination="all",
                reason="decisions come quicker than their events are written",
                way_out=f"more room ({AUDIT_QUEUE}), or a level that has fewer ({DECISION_LOG_LEVEL})",
            )


def _opened(config: Config, settings: DestinationSettings, worker: int | None) -> Destination:
    """One destination, ready to be written to."""
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
