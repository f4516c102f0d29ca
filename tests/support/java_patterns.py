"""Random Java regular expressions, and random texts that they often match."""

from __future__ import annotations

from random import Random
from typing import Final

_ATOMS: Final = (
    *"abACksN=,.-&}]_1éİ\u017f\u212a",  # the last two are s and k, but for their case
    *("[a-c]", "[^,]", "[^,=]", "[A-Z]", "[kK]", "[^a-c]", "[-a]", "[a-]", "[a\\-c]", "[a&]", "[é-ü]"),
    *(r"\d", r"\w", r"\s", r"\S", r"\W", r"\D", r"\.", r"\,", r"\=", r"\-", r"\ ", r"\t"),
    *(r"[\d,]", r"[^\w=]", r"[\s\S]", r"[^\D]", r"[\p{L}0]"),
    *(r"\x41", r"\u0062", r"\0101", r"\p{L}", r"\p{Lu}", r"\P{L}", r"\p{Alpha}", r"\p{Upper}", r"\Qa.\E"),
)
_QUANTIFIERS: Final = ("*", "+", "?", "*?", "+?", "??", "{1,2}", "{2}", "{0,3}?", "{1,}")
_GROUPS: Final = ("(", "(", "(?:", "(?i:", "(?-i:", "(?s:", "(?<{}>")
_ASSERTIONS: Final = ("^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z")
_CHARACTERS: Final = "aAbBckKsSnN=,. 1_-éİ\u017f\u212aü&]}0\\\t"
_DEPTH_MAX: Final = 3


def random_text(rng: Random) -> str:
    """A short text, so that Java's engine is fast."""
    return "".join(rng.choices(_CHARACTERS, k=rng.randrange(9)))


def random_pattern(rng: Random) -> tuple[str, int]:
    """A pattern, and its number of groups."""
    made = _Pattern(rng)
    beginning = rng.choice(("", "^", "(?i)"))
    return beginning + made.alternatives(0) + rng.choice(("", "", ".*")), made.groups


class _Pattern:
    def __init__(self, rng: Random) -> None:
        self.groups = 0
        self._rng = rng

    def alternatives(self, depth: int) -> str:
        return "|".join(self._sequence(depth) for _ in range(self._rng.choice((1, 1, 1, 2, 3))))

    def _sequence(self, depth: int) -> str:
        count = self._rng.choice((0, 1, 1, 2, 2, 3)) if depth < _DEPTH_MAX else 1
        return "".join(self._part(depth) for _ in range(count))

    def _part(self, depth: int) -> str:
        rng = self._rng
        drawn = rng.random()
        if drawn < 0.06:
            return rng.choice((*_ASSERTIONS, "(?i)", "(?s)", "(?-i)"))
        quantifier = rng.choice(_QUANTIFIERS) if rng.random() < 0.4 else ""
        if drawn < 0.35 and depth < _DEPTH_MAX:
            opening = rng.choice(_GROUPS)
            if opening in ("(", "(?<{}>"):
                self.groups += 1
                opening = opening.format(f"n{self.groups}")
            return f"{opening}{self.alternatives(depth + 1)}){quantifier}"
        return rng.choice(_ATOMS) + quantifier
