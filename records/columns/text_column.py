"""TextColumn: texts by column, each distinct one kept once."""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


class TextColumn:
    """A column of texts: for each row the place of its text among the distinct ones.

    Attributes:
        distinct: these, as an Arrow array as long as rows are only moved about, and as a tuple once a text is
            asked for: the garbage collector looks at a tuple of texts once, at a list again and again.
        codes: for each row the place of its text among them.
    """

    __slots__ = ("codes", "distinct")

    def __init__(self, distinct: tuple[str, ...] | Any, codes: npt.NDArray[np.int32]) -> None:
        self.distinct = distinct
        self.codes = codes

    @property
    def texts(self) -> tuple[str, ...]:
        """The distinct texts."""
        distinct = self.distinct
        if not isinstance(distinct, tuple):
            # Here and below: Arrow is only there where something is already in its columns.
            from records.columns.arrow_arrays import text_tuple  # noqa: PLC0415

            self.distinct = distinct = text_tuple(distinct)
        return distinct

    @property
    def strings(self) -> Any:
        """The distinct texts as an Arrow array.

        Raises:
            UnicodeEncodeError: one has a lone surrogate.
        """
        if isinstance(self.distinct, tuple):
            from records.columns.arrow_arrays import string_array  # noqa: PLC0415

            return string_array(self.distinct)
        return self.distinct

    def utf8(self) -> list[bytes]:
        """The distinct texts, encoded; half a surrogate pair as what it would be."""
        distinct = self.distinct
        if isinstance(distinct, tuple):
            return [text.encode("utf-8", "surrogatepass") for text in distinct]
        from records.columns.arrow_arrays import utf8_list  # noqa: PLC0415

        return utf8_list(distinct)

    @classmethod
    def of(cls, rows: Sequence[str]) -> TextColumn:
        """From one text for each row."""
        places: defaultdict[str, int] = defaultdict(count().__next__)
        codes = np.fromiter(map(places.__getitem__, rows), np.int32, len(rows))
        return cls(tuple(places), codes)

    @classmethod
    def concat(cls, parts: Sequence[TextColumn]) -> TextColumn:
        """The rows of all parts, in order; a part may say one text twice."""
        if all(isinstance(part.distinct, tuple) for part in parts):
            texts = cls.of([text for part in parts for text in part.texts])
        else:
            try:
                from records.columns.arrow_arrays import dictionary_encoded  # noqa: PLC0415

                texts = cls(*dictionary_encoded([part.strings for part in parts]))
            except UnicodeEncodeError:  # no log has such a text, but what is put in force without one may
                texts = cls.of([text for part in parts for text in part.texts])
        first, codes = 0, [np.empty(0, np.int32)]
        for part in parts:
            end = first + len(part.distinct)
            codes.append(texts.codes[first:end][part.codes])
            first = end
        return cls(texts.distinct, np.concatenate(codes))

    def text(self, row: int) -> str:
        """The text of one row."""
        return self.texts[self.codes.item(row)]

    def take(self, rows: Any) -> TextColumn:
        """Some of the rows, by whatever numpy takes as an index."""
        return TextColumn(self.distinct, self.codes[rows]).without_unused()

    def without_unused(self) -> TextColumn:
        """Without texts that no row has: after years of changes they would be most of the memory."""
        distinct = self.distinct
        if len(self.codes) < len(distinct):
            # Few rows are not to pay for a look at all texts.
            used, places = np.unique(self.codes, return_inverse=True)
            return TextColumn(_some(distinct, used), places.astype(np.int32))
        is_used = np.zeros(len(distinct), np.bool_)
        is_used[self.codes] = True
        if is_used.all():
            return self
        shifted = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
        return TextColumn(_some(distinct, np.flatnonzero(is_used)), shifted[self.codes])


def _some(distinct: tuple[str, ...] | Any, places: npt.NDArray[np.integer[Any]]) -> tuple[str, ...] | Any:
    if isinstance(distinct, tuple):
        return tuple(distinct[place] for place in places.tolist())
    from records.columns.arrow_arrays import number_array  # noqa: PLC0415

    return distinct.take(number_array(places.astype(np.int32)))
