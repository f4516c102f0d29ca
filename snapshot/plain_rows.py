"""PlainRows: ACLs of plain records (records.plain_batches) on their way to being rows of columns.

What a fold keeps of them until it is done: their texts are encoded, but not ours yet, and they are joined
once, with all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from records.ids import UUID_BYTES
from snapshot.arrow_columns import EncodedTexts
from snapshot.rows import AclRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_TEXTS: Final = ("names", "principals", "hosts")
_NUMBERS: Final = (
    "resource_types",
    "pattern_types",
    "operations",
    "permission_types",
    "offsets",
    "timestamps_ms",
)


class _Columns(Protocol):
    """Those of ACLs among the records of one read: numpy arrays, and Arrow arrays of strings."""

    ids: npt.NDArray[np.void]
    resource_types: npt.NDArray[np.int8]
    names: Any
    pattern_types: npt.NDArray[np.int8]
    principals: Any
    hosts: Any
    operations: npt.NDArray[np.int8]
    permission_types: npt.NDArray[np.int8]
    offsets: npt.NDArray[np.int64]
    timestamps_ms: npt.NDArray[np.int64]


class PlainRows:
    """Immutable."""

    __slots__ = ("ids", "numbers", "texts")

    def __init__(
        self, ids: bytes, texts: dict[str, EncodedTexts], numbers: dict[str, npt.NDArray[Any]]
    ) -> None:
        """Columns by their names in AclRows."""
        self.ids = ids
        self.texts = texts
        self.numbers = numbers

    @classmethod
    def of(cls, parts: Sequence[_Columns]) -> PlainRows:
        """The rows of all parts, in order."""
        if not parts:
            return cls(b"", {}, {})
        return cls(
            b"".join([part.ids.tobytes() for part in parts]),
            {
                name: EncodedTexts.of(pa.chunked_array([getattr(part, name) for part in parts]))
                for name in _TEXTS
            },
            {name: np.concatenate([getattr(part, name) for part in parts]) for name in _NUMBERS},
        )

    def __len__(self) -> int:
        return len(self.ids) // UUID_BYTES

    def taken(self, rows: npt.NDArray[np.bool_]) -> PlainRows:
        """Some of the rows."""
        return PlainRows(
            np.frombuffer(self.ids, f"V{UUID_BYTES}")[rows].tobytes(),
            {name: column.taken(rows) for name, column in self.texts.items()},
            {name: column[rows] for name, column in self.numbers.items()},
        )

    @staticmethod
    def joined(parts: Sequence[PlainRows]) -> AclRows:
        """The rows of all parts, in order."""
        parts = [part for part in parts if len(part)]
        if not parts:
            return AclRows.of(())
        texts: dict[str, Any] = {
            name: EncodedTexts.joined([part.texts[name] for part in parts]) for name in _TEXTS
        }
        numbers: dict[str, Any] = {
            name: np.concatenate([part.numbers[name] for part in parts]) for name in _NUMBERS
        }
        return AclRows(ids=b"".join([part.ids for part in parts]), **texts, **numbers)
