"""Where decision events go: the parts of ``aclog.decision.log``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from records.topic_name import is_topic_name

DESTINATIONS_ALLOWED: Final = (
    "`stdout`, `file:PATH`, `kafka:TOPIC` on the log's own cluster, "
    "`kafka://HOST:PORT[,HOST:PORT...]/TOPIC`, separated by semicolons"
)


class DestinationKind(Enum):
    """What events can be written to."""

    STDOUT = "stdout"
    FILE = "file"
    TOPIC = "kafka"


@dataclass(frozen=True, slots=True)
class DestinationSettings:
    """One of them.

    Attributes:
        where: a file's path; a topic's name or URL; empty for stdout.
        text: as it was written.
    """

    kind: DestinationKind
    where: str
    text: str


def parse_destinations(text: str) -> tuple[DestinationSettings, ...]:
    """ValueError: one is none of those that there are, or comes twice."""
    found = tuple(_destination(part) for part in filter(None, map(str.strip, text.split(";"))))
    if len({(each.kind, each.where) for each in found}) < len(found):
        raise ValueError(text)
    return found


def _destination(text: str) -> DestinationSettings:
    kind, colon, where = text.partition(":")
    match kind, colon, where:
        case "stdout", "", "":
            return DestinationSettings(DestinationKind.STDOUT, "", text)
        case "file", ":", path if path:
            return DestinationSettings(DestinationKind.FILE, str(Path(path)), text)
        case "kafka", ":", url if url.startswith("//") and url.rpartition("/")[2]:
            return DestinationSettings(DestinationKind.TOPIC, text, text)
        case "kafka", ":", topic if is_topic_name(topic):
            return DestinationSettings(DestinationKind.TOPIC, topic, text)
    raise ValueError(text)
