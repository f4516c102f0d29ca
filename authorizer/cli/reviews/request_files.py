"""Files of request lines, read into traffic."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from authorizer.cli.input import lines_of
from authorizer.cli.rendering.output import Progress, note, shown
from records.request_traffic import Traffic, TrafficReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from records.request_traffic import Window

#: Lines between two looks at the progress.
_AT_ONCE: Final = 16_384


def read_requests(paths: Iterable[str], window: Window) -> Traffic:
    """What the lines of all files say of a window; stdin for ``-``. With a note where a file has no ALLOW.

    Raises:
        OSError: one cannot be read.
    """
    traffic = Traffic()
    with Progress("lines") as progress:
        for path in paths:
            reader, number = TrafficReader(window), 1
            with lines_of(path) as lines:
                while some := list(islice(lines, _AT_ONCE)):
                    reader.read(some, path, number)
                    number += len(some)
                    progress.at(traffic.coverage.lines + number - 1)
            if reader.has_requests and not reader.has_allowed:
                note(f"note: {shown(path)} has no request that was allowed: Kafka logs those at DEBUG")
            traffic.add(reader.settle())
    return traffic
