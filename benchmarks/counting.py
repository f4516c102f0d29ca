"""Counts what a piece of Python does, instead of how long it takes: the same on every machine."""

from __future__ import annotations

import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Self


class BytecodeCounter:
    """Counts executed bytecodes by function, in this thread, within its ``with`` block.

    C functions count as the one bytecode that calls them: what they do themselves is not seen. From Python
    3.12 on the interpreter's monitoring counts (PEP 669): tracing sees opcodes there only in frames that were
    marked for it before tracing began.
    """

    def __init__(self) -> None:
        self.by_function: Counter[str] = Counter()
        self._by_code: Counter[CodeType] = Counter()
        self._before: Any = None

    @property
    def total(self) -> int:
        return self.by_function.total()

    def __enter__(self) -> Self:
        if sys.version_info >= (3, 12):
            sys.monitoring.use_tool_id(sys.monitoring.PROFILER_ID, __name__)
            sys.monitoring.register_callback(
                sys.monitoring.PROFILER_ID, sys.monitoring.events.INSTRUCTION, self._instruction()
            )
            sys.monitoring.set_events(sys.monitoring.PROFILER_ID, sys.monitoring.events.INSTRUCTION)
        else:
            self._before = sys.gettrace()
            sys.settrace(self._frame)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if sys.version_info >= (3, 12):
            sys.monitoring.set_events(sys.monitoring.PROFILER_ID, 0)
            sys.monitoring.free_tool_id(sys.monitoring.PROFILER_ID)
        else:
            sys.settrace(self._before)
        # What ran in these two methods while counting went on.
        for method in (BytecodeCounter.__enter__, BytecodeCounter.__exit__):
            del self._by_code[method.__code__]
        for code, count in self._by_code.items():
            module = inspect.getmodule(code)
            self.by_function[f"{module.__name__ if module else '?'}.{code.co_qualname}"] += count
        self._by_code.clear()

    def _instruction(self) -> Callable[[CodeType, int], None]:
        """Called before each bytecode of every thread."""
        counts, thread, this_thread = self._by_code, threading.get_ident(), threading.get_ident

        def count(code: CodeType, _offset: int) -> None:
            if this_thread() == thread:
                counts[code] += 1

        return count

    def _frame(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        """Called at each call of a function; what it returns, before each bytecode of that."""
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        counts, code = self._by_code, frame.f_code

        def count(_frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
            if event == "opcode":
                counts[code] += 1
            return count

        return count
