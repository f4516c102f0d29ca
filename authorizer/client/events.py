"""Server-sent events of ``/v1/changes``, from the bytes as they come. Pure.

Split at line feeds alone: what a name may hold else, such as U+2028, is no end of a line to the sidecar.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from authorizer.api.http.answers import Acl


class Event(msgspec.Struct, frozen=True):
    """One of start, change, current, reload, not-ready and ready; see docs/http.md.

    Attributes:
        id: the offset to go on behind; None for an event that has none.
    """

    name: str
    id: int | None
    removed: list[Acl]
    added: list[Acl]


class _Data(msgspec.Struct):
    removed: list[Acl] = msgspec.field(default_factory=list)
    added: list[Acl] = msgspec.field(default_factory=list)


class EventDecoder:
    """Of one stream."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The events that are complete with it; ValueError: what comes is no such stream."""
        *blocks, self._rest = (self._rest + piece).split(b"\n\n")
        for block in blocks:
            lines = [line for line in block.split(b"\n") if not line.startswith(b":")]
            if lines:
                fields = dict(line.split(b": ", 1) for line in lines)
                yield _event(fields)


def _event(fields: dict[bytes, bytes]) -> Event:
    try:
        data = msgspec.json.decode(fields[b"data"], type=_Data)
        name = fields[b"event"].decode("ascii")
    except (KeyError, msgspec.DecodeError) as error:
        raise ValueError(f"no event of /v1/changes: {fields}") from error
    given = fields.get(b"id")
    return Event(name, None if given is None else int(given), data.removed, data.added)
