"""Levels of metadata.version by their names.

Source: org.apache.kafka.server.common.MetadataVersion of 3.9.2 to 4.4.0.
"""

from __future__ import annotations

from typing import Final

#: Level of 3.9-IV0, the newest that every release from 3.9 on supports.
METADATA_VERSION_3_9: Final = 21

_FIRST_LEVEL: Final = 1
# Number of levels of each release, in order.
_CHANGES: Final = {
    "3.1": 1, "3.2": 1, "3.3": 4, "3.4": 1, "3.5": 3, "3.6": 3, "3.7": 5, "3.8": 1, "3.9": 1, "4.0": 4,
    "4.1": 2, "4.2": 2, "4.3": 1, "4.4": 3,
}  # fmt: skip
_NAMES: Final = (
    "3.0-IV1",
    *(f"{release}-IV{number}" for release, count in _CHANGES.items() for number in range(count)),
)
_LEVELS: Final = {name: level for level, name in enumerate(_NAMES, _FIRST_LEVEL)}


def metadata_version_name(level: int) -> str:
    """``4.3-IV0``; the number of an unknown level."""
    known = 0 <= level - _FIRST_LEVEL < len(_NAMES)
    return _NAMES[level - _FIRST_LEVEL] if known else str(level)


def parse_metadata_version(text: str) -> int:
    """The level of a name (``4.3-IV0``), of a release (``4.3``: its last level) or of a number.

    Raises:
        ValueError: an unknown level.
    """
    if text.isascii() and text.isdigit() and int(text) in _LEVELS.values():
        return int(text)
    if text in _CHANGES:
        text = f"{text}-IV{_CHANGES[text] - 1}"
    level = _LEVELS.get(text)
    if level is None:
        raise ValueError(f"`{text}` is no metadata.version: {_NAMES[0]} to {_NAMES[-1]}, say, or 4.3")
    return level
