"""What another process does between two looks of a reader at files, at every place where it may.

`every_place` runs a read again and again; in the n-th run the other process takes its step just before the
reader's n-th look at a file or a directory. So each race that one step can cause is tried, and none by luck.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

#: How a reader looks at files and directories; pathlib opens by `io.open`.
_LOOKS = (
    (os, "scandir"),
    (os, "stat"),
    (os, "open"),
    (os, "fstat"),
    (os, "pread"),
    (io, "open"),
)


def every_place(prepare: Callable[[], None], step: Callable[[], None], read: Callable[[], None]) -> int:
    """Prepare, then read with the step at the next place, until the read ends before that place.

    Returns how many places there were.
    """
    place = 0
    while True:
        prepare()
        with _before_look(place, step) as taken:
            read()
        if len(taken) <= place:
            return place
        place += 1


@contextmanager
def _before_look(place: int, step: Callable[[], None]) -> Iterator[list[str]]:
    """Take the step before the look of that number, from 0 on; gives the looks that were taken so far."""
    taken: list[str] = []
    with pytest.MonkeyPatch.context() as patch, pytest.MonkeyPatch.context() as pauses:
        # Nothing comes in a pause that does not come before a look.
        pauses.setattr(time, "sleep", lambda _: None)

        def looking(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
            def look(*args: Any, **kwargs: Any) -> Any:
                taken.append(name)
                if len(taken) == place + 1:
                    patch.undo()  # the step's own looks do not count, nor do any after it
                    step()
                return real(*args, **kwargs)

            return look

        for module, name in _LOOKS:
            patch.setattr(module, name, looking(name, getattr(module, name)))
        yield taken
