"""The ids that the keys of many messages say (records.log.topic.message says how one lies). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from records.ids import UUID_BYTES

if TYPE_CHECKING:
    import numpy.typing as npt

    from records.columns.values import Bytes, Ints, Mask, Values

_CHARACTERS: Final = 22
_NO_DIGIT: Final = 0xFF
# The 6 bits that a character of URL-safe base64 stands for.
_DIGITS: Final = np.full(256, _NO_DIGIT, np.uint8)
_DIGITS[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")] = np.arange(64)


class KeyIds:
    """What the keys say.

    Attributes:
        is_id: which keys are ids: 16 bytes, or these as Kafka prints them.
        ids: 16 bytes in a row for each key.
    """

    __slots__ = ("_is_null", "ids", "is_id")

    def __init__(self, keys: Values) -> None:
        count = len(keys)
        self.ids = np.zeros((count, UUID_BYTES), np.uint8)
        self.is_id = np.zeros(count, np.bool_)
        self._is_null: Mask = np.zeros(count, np.bool_) if keys.is_null is None else keys.is_null
        sizes = np.where(self._is_null, 0, keys.ends - keys.starts)
        as_bytes = np.flatnonzero(sizes == UUID_BYTES)
        self.ids[as_bytes] = keys.windows(UUID_BYTES, keys.starts[as_bytes])
        self.is_id[as_bytes] = True
        as_text = np.flatnonzero(sizes == _CHARACTERS)
        digits = np.zeros((len(as_text), _CHARACTERS + 2), np.uint8)
        digits[:, :_CHARACTERS] = _DIGITS[keys.windows(_CHARACTERS, keys.starts[as_text])]
        self.is_id[as_text] = (digits != _NO_DIGIT).all(axis=1)
        first, second, third, fourth = digits.reshape(-1, 6, 4).transpose(2, 0, 1)
        triples = np.stack([first << 2 | second >> 4, second << 4 | third >> 2, third << 6 | fourth], axis=2)
        self.ids[as_text] = triples.reshape(len(as_text), 18)[:, :UUID_BYTES]

    def contradict(self, rows: Ints, ids: Bytes) -> npt.NDArray[np.bool_]:
        """Which of the rows, whose values say these ids, have a key, but not of that id."""
        differs: Mask = ~self.is_id[rows] | (self.ids[rows] != ids).any(axis=1)
        return differs & ~self._is_null[rows]
