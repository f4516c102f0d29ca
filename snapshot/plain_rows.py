"""PlainRows: ACLs of plain records (records.plain_batches) on their way to being rows of columns.

What a fold keeps of them until it is done: their texts are encoded, but not ours yet, and they are joined
once, with all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from records.ids import UUID_BYTES
from snapshot.arrow_columns import EncodedTexts
from snapshot.digest import DIGEST_BITS, acl_hash, frame_hashes
from snapshot.rows import NUMBERS, TEXTS, AclRows

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from records.plain_batches import PlainRecords
    from snapshot.rows import AppliedAcl

_HASH_BYTES: Final = DIGEST_BITS // 8


class PlainPart:
    """The ACLs among consecutive records of one read: their columns, and number and hash of each.

    Attributes:
        numbers: of each one's record, among all records that a fold takes.
        others: as in PlainRows and AclRows.
    """

    __slots__ = (
        "hashes",
        "hosts",
        "ids",
        "names",
        "numbers",
        "offsets",
        "operations",
        "pattern_types",
        "permission_types",
        "principals",
        "resource_types",
        "timestamps_ms",
    )

    def __init__(self, plain: PlainRecords, first: int, end: int, shift: int) -> None:
        """The records from ``first`` to ``end``; ``shift`` is what their numbers are greater by."""
        rows = slice(*np.searchsorted(plain.acls, (first, end)))
        acls = plain.acls[rows]
        self.numbers = acls + shift
        self.ids = plain.ids[rows]
        self.resource_types = plain.resource_types[rows]
        self.names = plain.names[rows]
        self.pattern_types = plain.pattern_types[rows]
        self.principals = plain.principals[rows]
        self.hosts = plain.hosts[rows]
        self.operations = plain.operations[rows]
        self.permission_types = plain.permission_types[rows]
        self.offsets = plain.offsets[acls]
        self.timestamps_ms = plain.timestamps_ms[acls]
        starts, ends = plain.frame_starts[acls].tolist(), plain.frame_ends[acls].tolist()
        self.hashes = np.frombuffer(frame_hashes(plain.data, starts, ends), f"V{_HASH_BYTES}")


class PlainRows:
    """Immutable.

    Attributes:
        ids, hashes: 16 bytes for each row; hashes are those of the digest.
        texts, numbers: other columns, by their names in AclRows.
    """

    __slots__ = ("hashes", "ids", "numbers", "texts")

    def __init__(
        self,
        ids: npt.NDArray[np.void],
        hashes: npt.NDArray[np.void],
        texts: dict[str, EncodedTexts],
        numbers: dict[str, npt.NDArray[Any]],
    ) -> None:
        self.ids = ids
        self.hashes = hashes
        self.texts = texts
        self.numbers = numbers

    @classmethod
    def of(cls, parts: Sequence[PlainPart]) -> PlainRows:
        """The rows of all parts, in order; there is one part at least."""
        return cls(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.hashes for part in parts]),
            {
                name: EncodedTexts.of(pa.chunked_array([getattr(part, name) for part in parts]))
                for name in TEXTS
            },
            {name: np.concatenate([getattr(part, name) for part in parts]) for name in NUMBERS},
        )

    @classmethod
    def of_acls(cls, acls: Collection[AppliedAcl]) -> PlainRows:
        """Of ACLs that were decoded by themselves."""
        rows = AclRows.of(acls)
        hashes = b"".join([acl_hash(acl.record).to_bytes(_HASH_BYTES, "big") for acl in acls])
        return cls(
            np.frombuffer(rows.ids, f"V{UUID_BYTES}"),
            np.frombuffer(hashes, f"V{_HASH_BYTES}"),
            {name: EncodedTexts.of_column(getattr(rows, name)) for name in TEXTS},
            {name: getattr(rows, name) for name in NUMBERS},
        )

    def __len__(self) -> int:
        return len(self.ids)

    def taken(self, rows: npt.NDArray[np.bool_]) -> PlainRows:
        """Some of the rows."""
        return PlainRows(
            self.ids[rows],
            self.hashes[rows],
            {name: column.taken(rows) for name, column in self.texts.items()},
            {name: column[rows] for name, column in self.numbers.items()},
        )

    @classmethod
    def merged(cls, parts: Sequence[PlainRows]) -> PlainRows:
        """The rows of all parts, in order, without what they were taken from; there is one part at least."""
        return cls(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.hashes for part in parts]),
            {name: EncodedTexts.merged([part.texts[name] for part in parts]) for name in TEXTS},
            {name: np.concatenate([part.numbers[name] for part in parts]) for name in NUMBERS},
        )

    @staticmethod
    def joined(parts: Sequence[PlainRows]) -> AclRows:
        """The rows of all parts, in order."""
        parts = [part for part in parts if len(part)]
        if not parts:
            return AclRows.of(())
        texts: dict[str, Any] = {
            name: EncodedTexts.joined([part.texts[name] for part in parts]) for name in TEXTS
        }
        numbers: dict[str, Any] = {
            name: np.concatenate([part.numbers[name] for part in parts]) for name in NUMBERS
        }
        return AclRows(ids=b"".join([part.ids.tobytes() for part in parts]), **texts, **numbers)
