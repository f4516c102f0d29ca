"""Every text that an object holds, however deep: to look for what must not be in memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any

import msgspec
import numpy as np

# They lead to all of the program, the test itself among it.
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, FrameType)


def held_texts(root: object) -> Iterator[bytes]:
    """The str, bytes and arrays that are reachable without the program's own modules, types and functions."""
    seen = {id(root)}
    left: list[Any] = [root]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each.encode(errors="surrogatepass")
        elif isinstance(each, bytes | bytearray | memoryview):
            yield bytes(each)
        elif isinstance(each, np.ndarray) and not each.dtype.hasobject:
            yield each.tobytes()
        found = gc.get_referents(each)
        if isinstance(each, msgspec.Struct):  # those without the collector's head do not say it otherwise
            found += [getattr(each, name) for name in each.__struct_fields__]
        for other in found:
            if id(other) not in seen and not isinstance(other, _SHARED):
                seen.add(id(other))
                left.append(other)
