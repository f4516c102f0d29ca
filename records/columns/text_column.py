"""TextColumn: a dictionary-encoded column of texts."""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt


class TextColumn:
    """A column of texts: distinct texts, and the index of each row's text.

    Attributes:
        distinct: an Arrow array until a text is accessed, then a tuple: the garbage collector visits a tuple
            of texts once, but a list at every collection.
        codes: for each row, the index of its text in ``distinct``.
    """

    __slots__ = ("codes", "distinct")

    def __init__(self, distinct: tuple[str, ...] | Any, codes: npt.NDArray[np.int32]) -> None:
        self.distinct = distinct
        self.codes = codes

    @property
    def texts(self) -> tuple[str, ...]:
        distinct = self.distinct
        if not isinstance(distinct, tuple):
            # Here and below: Arrow is loaded only if a column already uses it.
            from records.columns.arrow_arrays import text_tuple  # noqa: PLC0415

            self.distinct = distinct = text_tuple(distinct)
        return distinct

    @property
    def strings(self) -> Any:
        """The distinct texts as an Arrow array. Raises UnicodeEncodeError: one has a lone surrogate."""
        if isinstance(self.distinct, tuple):
            from records.columns.arrow_arrays import string_array  # noqa: PLC0415

            return string_array(self.distinct)
        return self.distinct

    def utf8(self) -> list[bytes]:
        """The distinct texts as UTF-8; lone surrogates by `surrogatepass`."""
        distinct = self.distinct
        if isinstance(distinct, tuple):
            return [text.encode("utf-8", "surrogatepass") for text in distinct]
        from records.columns.arrow_arrays import utf8_list  # noqa: PLC0415

        return utf8_list(distinct)

    @classmethod
    def of(cls, rows: Sequence[str]) -> TextColumn:
        indexes: defaultdict[str, int] = defaultdict(count().__next__)
        codes = np.fromiter(map(indexes.__getitem__, rows), np.int32, len(rows))
        return cls(tuple(indexes), codes)

    @classmethod
    def concat(cls, parts: Sequence[TextColumn]) -> TextColumn:
        """Concatenate columns; a text may occur twice in ``distinct`` of one of them."""
        if all(isinstance(part.distinct, tuple) for part in parts):
            texts = cls.of([text for part in parts for text in part.texts])
        else:
            try:
                from records.columns.arrow_arrays import dictionary_encoded  # noqa: PLC0415

                texts = cls(*dictionary_encoded([part.strings for part in parts]))
            except UnicodeEncodeError:  # no log has a lone surrogate, but ACLs from elsewhere may
                texts = cls.of([text for part in parts for text in part.texts])
        first, codes = 0, [np.empty(0, np.int32)]
        for part in parts:
            end = first + len(part.distinct)
            codes.append(texts.codes[first:end][part.codes])
            first = end
        return cls(texts.distinct, np.concatenate(codes))

    def text(self, row: int) -> str:
        return self.texts[self.codes.item(row)]

    def where(self, is_selected: Callable[[str], object]) -> npt.NDArray[np.bool_]:
        """Which rows have a selected text; called once for each distinct text."""
        texts = self.texts
        return np.fromiter(map(is_selected, texts), np.bool_, len(texts))[self.codes]

    def texts_of(self, rows: Any) -> set[str]:
        """The texts of some rows, by any index of numpy."""
        texts, codes = self.texts, self.codes[rows]
        used = np.flatnonzero(np.bincount(codes)) if len(codes) > len(texts) // 8 else np.unique(codes)
        return {texts[code] for code in used.tolist()}

    def take(self, rows: Any) -> TextColumn:
        return TextColumn(self.distinct, self.codes[rows]).without_unused()

    def without_unused(self) -> TextColumn:
        """The same rows without unused texts, which would accumulate over years of changes."""
        distinct = self.distinct
        if len(self.codes) < len(distinct):
            # For few rows, do not scan all texts.
            used, codes = np.unique(self.codes, return_inverse=True)
            return TextColumn(_take(distinct, used), codes.astype(np.int32))
        is_used = np.zeros(len(distinct), np.bool_)
        is_used[self.codes] = True
        if is_used.all():
            return self
        shifted = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
        return TextColumn(_take(distinct, np.flatnonzero(is_used)), shifted[self.codes])


def _take(distinct: tuple[str, ...] | Any, indexes: npt.NDArray[np.integer[Any]]) -> tuple[str, ...] | Any:
    if isinstance(distinct, tuple):
        return tuple(distinct[index] for index in indexes.tolist())
    from records.columns.arrow_arrays import number_array  # noqa: PLC0415

    return distinct.take(number_array(indexes.astype(np.int32)))
