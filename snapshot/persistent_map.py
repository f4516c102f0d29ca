"""PersistentMap: an immutable map whose changed copy shares all that did not change.

`immutables` is faster but has no wheels for Python 3.14 and later, where aclog installs `rpds-py`
(docs/performance.md has the difference). Both classes have the interface of a mapping and ``update``. Their
methods for one key have other names, so each is a function here: a wrapper class would cost a call more.
"""

from __future__ import annotations

try:
    from immutables import Map as PersistentMap

    with_item = PersistentMap.set
    without_item = PersistentMap.delete
except ModuleNotFoundError:
    from rpds import HashTrieMap as PersistentMap  # type: ignore[assignment]

    with_item = PersistentMap.insert  # type: ignore[attr-defined]
    without_item = PersistentMap.remove  # type: ignore[attr-defined]

__all__ = ["PersistentMap", "with_item", "without_item"]
