"""Nesting of prefixes: the one rule by which a prefix covers longer prefixes and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Position of the enclosing prefix where there is none.
NO_PREFIX: Final = -1


def enclosing_prefixes(keys: Iterable[tuple[str, bool, *tuple[object, ...]]]) -> list[int]:
    """Return for each key the position of the longest other prefix that covers it, or NO_PREFIX.

    Args:
        keys: text, whether it is a single name, and anything else. Sorted by these two, each once: a prefix
            sorts before the name that is equal, and before all that it covers.
    """
    enclosing: list[int] = []
    # The prefixes that may cover the next key: the last one is the longest, each covers the next.
    open_texts: list[str] = []
    open_positions = [NO_PREFIX]
    for position, key in enumerate(keys):
        text = key[0]
        while open_texts and not text.startswith(open_texts[-1]):
            open_texts.pop()
            open_positions.pop()
        enclosing.append(open_positions[-1])
        if not key[1]:
            open_texts.append(text)
            open_positions.append(position)
    return enclosing
