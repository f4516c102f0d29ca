"""TextColumn: texts by column, each distinct one kept once."""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


def _places() -> dict[str, int]:
    """Gives each text that it is asked for the next place, and the same one ever after."""
    return defaultdict(count().__next__)


class TextColumn:
    """A column of texts: for each row the place of its text among the distinct ones."""

    __slots__ = ("codes", "texts")

    def __init__(self, texts: list[str], codes: npt.NDArray[np.int32]) -> None:
        self.texts = texts
        self.codes = codes

    @classmethod
    def of(cls, rows: Sequence[str]) -> TextColumn:
        """From one text for each row."""
        places = _places()
        codes = np.fromiter(map(places.__getitem__, rows), np.int32, len(rows))
        return cls(list(places), codes)

    @classmethod
    def joined(cls, parts: Sequence[TextColumn]) -> TextColumn:
        """The rows of all parts, in order; a part may say one text twice."""
        places = _places()
        codes = [
            np.fromiter(map(places.__getitem__, part.texts), np.int32, len(part.texts))[part.codes]
            for part in parts
        ]
        return cls(list(places), np.concatenate(codes) if codes else np.empty(0, np.int32))

    def text(self, row: int) -> str:
        """The text of one row."""
        return self.texts[self.codes.item(row)]

    def taken(self, rows: Any) -> TextColumn:
        """Some of the rows, by whatever numpy takes as an index."""
        return TextColumn(self.texts, self.codes[rows]).without_unused()

    def without_unused(self) -> TextColumn:
        """Without texts that no row has: after years of changes they would be most of the memory."""
        if len(self.codes) < len(self.texts):
            # Few rows are not to pay for a look at all texts.
            codes, places = np.unique(self.codes, return_inverse=True)
            return TextColumn([self.texts[code] for code in codes.tolist()], places.astype(np.int32))
        used = np.zeros(len(self.texts), np.bool_)
        used[self.codes] = True
        if used.all():
            return self
        texts = [text for text, is_used in zip(self.texts, used.tolist(), strict=True) if is_used]
        return TextColumn(texts, (np.cumsum(used, dtype=np.int32) - np.int32(1))[self.codes])
