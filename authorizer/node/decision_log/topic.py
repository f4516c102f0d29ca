"""Events as messages of a Kafka topic, in CloudEvents' structured mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.node.decision_log.destination import Destination
from authorizer.node.decision_log.event import EVENT_CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from records.log.topic.async_producer import AsyncTopicProducer

#: Of every message.
HEADERS: Final = {"content-type": EVENT_CONTENT_TYPE.encode("ascii")}
#: How long the end waits for what brokers have not acknowledged.
_CLOSE_S: Final = 5.0


class TopicDestination(Destination):
    """An outlet's messages: they wait in its queue, which is bounded, and are counted when they are there."""

    def __init__(self, name: str, outlet: AsyncTopicProducer) -> None:
        super().__init__(name)
        self._outlet = outlet

    def put(self, events: Sequence[bytes]) -> None:
        self._outlet.put(events)
        self._look()

    def close(self) -> None:
        self._outlet.close(_CLOSE_S)
        self._look()

    def _look(self) -> None:
        outlet = self._outlet
        self.written, self.lost, self.reason = outlet.delivered, outlet.lost, outlet.reason
