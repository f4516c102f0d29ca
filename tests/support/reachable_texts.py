"""All texts that are reachable from an object, to search memory for what must not be in it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any

import msgspec
import numpy as np

# These lead to the complete program, including the test.
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, FrameType)


def reachable_texts(root: object) -> Iterator[bytes]:
    """The str, bytes and arrays that are reachable without the program's own modules, types and functions."""
    visited = {id(root)}
    pending: list[Any] = [root]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            yield each.encode(errors="surrogatepass")
        elif isinstance(each, bytes | bytearray | memoryview):
            yield bytes(each)
        elif isinstance(each, np.ndarray) and not each.dtype.hasobject:
            yield each.tobytes()
        found = gc.get_referents(each)
        if isinstance(each, msgspec.Struct):  # structs without a GC header have no referents
            found += [getattr(each, name) for name in each.__struct_fields__]
        for other in found:
            if id(other) not in visited and not isinstance(other, _SHARED):
                visited.add(id(other))
                pending.append(other)
