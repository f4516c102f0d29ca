"""Runs a step of another process between any two file accesses of a reader.

`interleave_at_every_access` repeats a read; in the n-th run the step comes just before the reader's n-th
access to a file or a directory. So every race that one step can cause is tested.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

#: Functions by which a reader accesses files and directories; pathlib opens by `io.open`.
_ACCESSES = (
    (os, "scandir"),
    (os, "stat"),
    (os, "open"),
    (os, "fstat"),
    (os, "pread"),
    (io, "open"),
)


def interleave_at_every_access(
    prepare: Callable[[], None], step: Callable[[], None], read: Callable[[], None]
) -> int:
    """Prepare, then read with the step before the next access, until the read has no such access.

    Returns the number of accesses.
    """
    access = 0
    while True:
        prepare()
        with _step_before_access(access, step) as accesses:
            read()
        if len(accesses) <= access:
            return access
        access += 1


@contextmanager
def _step_before_access(access: int, step: Callable[[], None]) -> Iterator[list[str]]:
    """Run the step before the access of that number, from 0 on; yields the accesses so far."""
    accesses: list[str] = []
    with pytest.MonkeyPatch.context() as patch, pytest.MonkeyPatch.context() as pauses:
        # A pause needs no step: the step before the next access covers it.
        pauses.setattr(time, "sleep", lambda _: None)

        def intercept(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
            def intercepted(*args: Any, **kwargs: Any) -> Any:
                accesses.append(name)
                if len(accesses) == access + 1:
                    patch.undo()  # accesses of the step, and later ones, do not count
                    step()
                return real(*args, **kwargs)

            return intercepted

        for module, name in _ACCESSES:
            patch.setattr(module, name, intercept(name, getattr(module, name)))
        yield accesses
