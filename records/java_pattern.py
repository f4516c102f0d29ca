r"""Java's regular expressions, matched in linear time by RE2.

Java's engine and Python's ``re`` backtrack: ``(a+)+b`` takes hours for forty characters. If the pattern comes
from a configuration and the text from a client, that stops the process. RE2 reads a text once.

A pattern is translated piece by piece. Supported are constructs with the same meaning in both engines:
literals and their escapes, ``.``, classes without nested classes, groups, alternatives, greedy and lazy
quantifiers, anchors (``^ $ \A \z \Z \b``), ``\Q...\E`` and the flags ``i s d``. Everything else is refused
with its name: constructs of no linear engine (backreferences, lookaheads and lookbehinds, atomic groups,
possessive quantifiers) and rare ones (intersections of classes, ``(?x)``, ``(?u)``).

For two kinds of text, Java's answer depends on its version, or RE2's differs. They are refused (``covers``):
a text with a line terminator, which ``.``, ``^`` and ``$`` treat specially; and a text that is not ASCII for
a pattern with ``\b``.

Source: java.util.regex.Pattern of OpenJDK 17.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

#: Bounds the time of ``replace_all``, which may search from each character to the last.
TEXT_MAX: Final = 4096

_Ranges = list[tuple[int, int]]

_LINE_TERMINATOR: Final = re.compile("[\n\r\x85\u2028\u2029]")
_CODE_POINT_MAX: Final = 0x10FFFF
_REPETITION_MAX: Final = 1000
_QUANTIFIER: Final = re.compile(r"[*+?]|\{(\d{1,9})(?:(,)(\d{1,9})?)?\}", re.ASCII)
_GROUP_NAME: Final = re.compile(r"\?<([a-zA-Z][a-zA-Z0-9]*)>")
_FLAGS: Final = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
#: ``s`` and ``d`` concern line terminators, which no text has. So does ``m``, but with it Java finds no ``^``
#: in an empty text.
_SUPPORTED_FLAGS: Final = frozenset("isd")
_NOT_LINEAR: Final = (
    ("?=", "a lookahead"),
    ("?!", "a lookahead"),
    ("?<=", "a lookbehind"),
    ("?<!", "a lookbehind"),
    ("?>", "an atomic group"),
)
_CONTROLS: Final = {"t": 0x09, "n": 0x0A, "r": 0x0D, "f": 0x0C, "a": 0x07, "e": 0x1B}
_NUMBER: Final = re.compile(
    r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|0([0-3][0-7]{2}|[0-7]{1,2})"
)
_PROPERTY: Final = re.compile(r"[pP](?:\{([A-Za-z]+)\}|([A-Z]))")
#: Unicode's general categories that RE2 supports.
_CATEGORY: Final = re.compile(r"L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cf]")
_DIGITS: Final = [(0x30, 0x39)]
_UPPER: Final = [(0x41, 0x5A)]
_LOWER: Final = [(0x61, 0x7A)]
_ALPHA: Final = [*_UPPER, *_LOWER]
_PUNCTUATION: Final = [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)]
_SPACE: Final = [(0x09, 0x0D), (0x20, 0x20)]
_CLASSES: Final[Mapping[str, _Ranges]] = {
    "d": _DIGITS,
    "s": _SPACE,
    "w": [*_DIGITS, *_ALPHA, (0x5F, 0x5F)],
}
#: ASCII's classes: ``\p{Alpha}``.
_POSIX: Final[Mapping[str, _Ranges]] = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": [(0x00, 0x7F)],
    "Alpha": _ALPHA,
    "Digit": _DIGITS,
    "Alnum": [*_DIGITS, *_ALPHA],
    "Punct": _PUNCTUATION,
    "Graph": [(0x21, 0x7E)],
    "Print": [(0x20, 0x7E)],
    "Blank": [(0x09, 0x09), (0x20, 0x20)],
    "Cntrl": [(0x00, 0x1F), (0x7F, 0x7F)],
    "XDigit": [*_DIGITS, (0x41, 0x46), (0x61, 0x66)],
    "Space": _SPACE,
}


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """A pattern.

    Attributes:
        group_numbers: numbers of the named groups.
        is_for_ascii: whether Java's answer for text that is not ASCII depends on its version.
        backtracks: whether Java may match it in exponential time: it repeats a part that has repetitions or
            alternatives.
    """

    text: str
    groups: int
    group_numbers: Mapping[str, int]
    is_for_ascii: bool
    backtracks: bool
    _compiled: Any = field(repr=False, compare=False)

    @classmethod
    def compile(cls, text: str) -> JavaPattern:
        """Compile a pattern. Raises ValueError if Java or RE2 does not support it, with a way out."""
        import re2  # noqa: PLC0415 - most commands have no pattern

        translation = _Translation(text)
        translated = translation.translate()
        options = re2.Options()
        options.log_errors = False
        try:
            compiled = re2.compile(translated, options)
        except re2.error as error:
            reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
            raise ValueError(f"`{text}` is too large or cannot be: {reason}") from error
        numbers = dict(compiled.groupindex)
        return cls(text, compiled.groups, numbers, translation.is_for_ascii, translation.backtracks, compiled)

    @classmethod
    def compile_for_java(cls, text: str) -> JavaPattern:
        """As ``compile``, for a pattern that Java's own engine matches. Raises ValueError."""
        pattern = cls.compile(text)
        if pattern.backtracks:
            raise ValueError(
                f"`{text}` repeats what has a repetition or alternatives in it, as in (a+)+ or (a|b)*: Java, "
                "which matches it here, may never be done with a text. Repeat one class of characters, as in "
                "[ab]*"
            )
        return pattern

    def covers(self, text: str) -> bool:
        """Whether the answer for a text is certainly Java's; else do not match it."""
        if len(text) > TEXT_MAX or _LINE_TERMINATOR.search(text) is not None:
            return False
        return text.isascii() or not self.is_for_ascii

    def fullmatch(self, text: str) -> Any:
        """The match of the entire text, as ``re.Match``, or None. Raises ValueError: it is not covered."""
        self._require_covered(text)
        return self._compiled.fullmatch(text)

    def replace_all(self, text: str, replacement: Callable[[Any], str]) -> str:
        """Replace every match, as Matcher.replaceAll. Raises ValueError: it is not covered."""
        self._require_covered(text)
        parts: list[str] = []
        done = at = 0
        while at <= len(text):
            found = self._compiled.search(text, at)
            if found is None:
                break
            start, end = found.span()
            parts += text[done:start], replacement(found)
            done = end
            at = end if end > start else end + 1
        return "".join([*parts, text[done:]])

    def _require_covered(self, text: str) -> None:
        if not self.covers(text):
            raise ValueError(f"Java's answer for `{text!r:.100}` is not known: see JavaPattern.covers")


class _Translation:
    def __init__(self, text: str) -> None:
        self.is_for_ascii = False
        self.backtracks = False
        # Alternatives and repetitions so far.
        self._branches = 0
        self._text = text
        self._at = 0

    def translate(self) -> str:
        translated, _ = self._alternatives(is_insensitive=False)
        if self._at < len(self._text):
            raise self._refusal("a `)` that closes nothing; write \\)")
        return translated

    # --- sequences ------------------------------------------------------------------------------------------

    def _alternatives(self, *, is_insensitive: bool) -> tuple[str, bool]:
        """Translate up to the end or a closing parenthesis; and whether it can match the empty text."""
        translated: list[str] = []
        # For each alternative: whether it can match the empty text.
        empty = [True]
        while self._at < len(self._text) and not self._is_next(")"):
            if self._consume("|"):
                self._branches += 1
                translated.append("|")
                empty.append(True)
                continue
            flags = _FLAGS.match(self._text, self._at + 1) if self._is_next("(?") else None
            if flags is not None and flags[3] == ")":
                # For the rest of the group.
                is_insensitive = self._flags(flags, is_insensitive=is_insensitive)
                self._at = flags.end()
                continue
            branches = self._branches
            atom, can_be_empty = self._atom(is_insensitive=is_insensitive)
            quantifier, may_be_left_out = self._quantifier(atom, can_be_empty=can_be_empty)
            if quantifier not in ("", "?", "??"):
                self.backtracks |= self._branches > branches
                self._branches += 1
            translated.append(atom + quantifier)
            empty[-1] &= can_be_empty or may_be_left_out
        return "".join(translated), any(empty)

    def _quantifier(self, atom: str, *, can_be_empty: bool) -> tuple[str, bool]:
        found = _QUANTIFIER.match(self._text, self._at)
        if found is None:
            if self._is_next("{"):
                raise self._refusal("a `{` that is no quantifier; write \\{")
            return "", False
        if atom in _ASSERTIONS:
            raise self._refusal("a quantifier of an assertion")
        self._at = found.end()
        minimum = found[1] or ("1" if found[0] == "+" else "0")
        maximum = found[3] if found[2] else found[1] or ("1" if found[0] == "?" else None)
        if max(int(minimum), int(maximum or 0)) > _REPETITION_MAX:
            raise self._refusal(f"a repetition of more than {_REPETITION_MAX} times")
        if can_be_empty and maximum not in ("0", "1"):
            raise self._refusal(
                "a repetition of what can match nothing, such as (a*)*: engines differ in what is left"
            )
        if self._is_next("+"):
            raise self._refusal("a possessive quantifier")
        is_lazy = self._consume("?")
        if _QUANTIFIER.match(self._text, self._at):
            raise self._refusal("two quantifiers one after the other")
        return found[0] + ("?" if is_lazy else ""), int(minimum) == 0

    # --- one part ------------------------------------------------------------------------------------------

    def _atom(self, *, is_insensitive: bool) -> tuple[str, bool]:
        """Translate one part; and whether it can match the empty text."""
        character = self._text[self._at]
        self._at += 1
        match character:
            case "(":
                return self._group(is_insensitive=is_insensitive)
            case "[":
                return self._class(is_insensitive=is_insensitive), False
            case "\\":
                return self._escape(is_insensitive=is_insensitive)
            case ".":
                return "(?s:.)", False
            case "^":
                return r"\A", True
            case "$":
                return r"\z", True
            case "*" | "+" | "?":
                raise self._refusal(f"a `{character}` after nothing; write \\{character}")
            case "{":
                raise self._refusal("a `{` that is no quantifier; write \\{")
            case _:
                return _literal(ord(character), is_insensitive=is_insensitive), False

    def _group(self, *, is_insensitive: bool) -> tuple[str, bool]:
        for beginning, name in _NOT_LINEAR:
            if self._is_next(beginning):
                raise self._refusal(name)
        opening = "("
        if self._is_next("?"):
            named = _GROUP_NAME.match(self._text, self._at)
            flags = _FLAGS.match(self._text, self._at)
            if named is not None:
                opening, self._at = f"(?P<{named[1]}>", named.end()
            elif flags is not None:
                opening, self._at = "(?:", flags.end()
                is_insensitive = self._flags(flags, is_insensitive=is_insensitive)
            else:
                raise self._refusal("a group of a kind that Java does not have")
        inner, can_be_empty = self._alternatives(is_insensitive=is_insensitive)
        if not self._consume(")"):
            raise self._refusal("a `(` that is not closed; write \\(")
        return f"{opening}{inner})", can_be_empty

    def _flags(self, found: re.Match[str], *, is_insensitive: bool) -> bool:
        """Apply flags; whether case is ignored after them."""
        on, off = set(found[1]), set(found[2] or "")
        for flag in sorted((on | off) - _SUPPORTED_FLAGS):
            raise self._refusal(f"the flag `{flag}`")
        return "i" in on or (is_insensitive and "i" not in off)

    def _escape(self, *, is_insensitive: bool) -> tuple[str, bool]:
        character = self._next_of_escape()
        match character:
            case "A" | "z" | "Z":
                self._at += 1
                return r"\A" if character == "A" else r"\z", True
            case "b" | "B":
                self._at += 1
                if self._is_next("{"):
                    raise self._refusal("a boundary of graphemes")
                self.is_for_ascii = True
                return f"\\{character}", True
            case "Q":
                return self._quoted(is_insensitive=is_insensitive)
        ranges, raw = self._class_escape(is_insensitive=is_insensitive)
        if raw:
            return raw, False
        if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
            return _literal(ranges[0][0], is_insensitive=is_insensitive), False
        return _class_text(ranges), False

    def _quoted(self, *, is_insensitive: bool) -> tuple[str, bool]:
        end = self._text.find(r"\E", self._at)
        quoted = self._text[self._at + 1 : None if end < 0 else end]
        self._at = len(self._text) if end < 0 else end + 2
        if _QUANTIFIER.match(self._text, self._at):
            raise self._refusal("a quantifier after \\E; put what it is about into a group")
        return "".join(_literal(ord(each), is_insensitive=is_insensitive) for each in quoted), not quoted

    def _class(self, *, is_insensitive: bool) -> str:
        is_negated = self._consume("^")
        ranges: _Ranges = []
        raws: list[str] = []
        begin = self._at
        while not self._is_next("]") or self._at == begin:
            if self._at >= len(self._text):
                raise self._refusal("a `[` that is not closed; write \\[")
            if self._is_next("[") or self._is_next("&&"):
                raise self._refusal(
                    "a class within a class; write one class, and \\[ or \\& for the character"
                )
            if self._is_next("]"):
                raise self._refusal("a `]` at the beginning of a class; write \\]")
            is_range_end = (
                self._is_next("-") and begin < self._at and not self._text.startswith("-]", self._at)
            )
            if is_range_end:
                raise self._refusal(
                    "a `-` that is neither first nor last nor between two characters; write \\-"
                )
            found, raw = self._member(is_insensitive=is_insensitive)
            if self._is_next("-") and not self._is_next("-]"):
                self._at += 1
                end = self._member(is_insensitive=is_insensitive) if not self._is_next("[") else ([], "")
                if raw or end[1] or _single(found) is None or _single(end[0]) is None or found > end[0]:
                    raise self._refusal(
                        "a range whose ends are not two characters in order; write \\- for a `-`"
                    )
                found = [(found[0][0], end[0][0][0])]
            if is_insensitive and not raw:
                found = _in_both_cases(found)
            ranges += found
            raws.append(raw)
        self._at += 1
        return _class_text(ranges, "".join(raws), is_negated=is_negated)

    def _member(self, *, is_insensitive: bool) -> tuple[_Ranges, str]:
        if self._at >= len(self._text):
            raise self._refusal("a `[` that is not closed; write \\[")
        character = self._text[self._at]
        self._at += 1
        if character == "\\":
            if self._next_of_escape() in ("Q", "E"):
                raise self._refusal("\\Q in a class")
            return self._class_escape(is_insensitive=is_insensitive)
        return [(ord(character), ord(character))], ""

    def _class_escape(self, *, is_insensitive: bool) -> tuple[_Ranges, str]:
        """Translate an escape, in a class or outside: to characters, or to RE2's text for them."""
        character = self._next_of_escape()
        if not (character.isascii() and character.isalnum()):
            self._at += 1
            return [(ord(character), ord(character))], ""
        if character in _CONTROLS:
            self._at += 1
            return [(_CONTROLS[character], _CONTROLS[character])], ""
        if (ranges := _CLASSES.get(character.lower())) is not None:
            self._at += 1
            return (ranges if character.islower() else _complement(ranges)), ""
        if (number := _NUMBER.match(self._text, self._at)) is not None:
            self._at = number.end()
            hexadecimal = number[1] or number[2] or number[3]
            code = int(hexadecimal, 16) if hexadecimal else int(number[4], 8)
            if code <= _CODE_POINT_MAX and not 0xD800 <= code <= 0xDFFF:
                return [(code, code)], ""
            raise self._refusal("a character that there is not")
        if (named := _PROPERTY.match(self._text, self._at)) is not None:
            return self._property(named, is_insensitive=is_insensitive)
        if character.isdigit() or character == "k":
            raise self._refusal("a backreference")
        raise self._refusal(f"the escape \\{character}")

    def _property(self, found: re.Match[str], *, is_insensitive: bool) -> tuple[_Ranges, str]:
        name, is_negated = found[1] or found[2], found[0].startswith("P")
        if is_insensitive:
            raise self._refusal(f"\\{found[0]} under the flag `i`")
        self._at = found.end()
        if (ranges := _POSIX.get(name)) is not None and found[1]:
            return (_complement(ranges) if is_negated else ranges), ""
        if _CATEGORY.fullmatch(name) is None:
            raise self._refusal(f"\\{found[0]}")
        return [], f"\\{'P' if is_negated else 'p'}{{{name}}}"

    # --- reading -------------------------------------------------------------------------------------------

    def _is_next(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _consume(self, text: str) -> bool:
        is_next = self._is_next(text)
        self._at += len(text) * is_next
        return is_next

    def _next_of_escape(self) -> str:
        if self._at >= len(self._text):
            raise self._refusal("a `\\` with nothing behind it")
        return self._text[self._at]

    def _refusal(self, what: str) -> ValueError:
        return ValueError(
            f"`{self._text}` has {what}, at character {min(self._at, len(self._text)) + 1}, which aclog does "
            "not support: RE2 matches patterns in linear time. Write the pattern without it"
        )


#: Translated assertions, which match between characters.
_ASSERTIONS: Final = frozenset({r"\A", r"\z", r"\b", r"\B"})


def _literal(code: int, *, is_insensitive: bool) -> str:
    ranges = _in_both_cases([(code, code)]) if is_insensitive else [(code, code)]
    return _class_text(ranges) if len(ranges) > 1 else _code(code)


def _single(ranges: _Ranges) -> int | None:
    return ranges[0][0] if len(ranges) == 1 and ranges[0][0] == ranges[0][1] else None


def _in_both_cases(ranges: _Ranges) -> _Ranges:
    """With the other case of ASCII letters, as in Java without ``(?u)``."""
    other: _Ranges = []
    for (low, high), by in ((_UPPER[0], 0x20), (_LOWER[0], -0x20)):
        for begin, end in ranges:
            first, last = max(begin, low), min(end, high)
            if first <= last:
                other.append((first + by, last + by))
    return [*ranges, *(each for each in other if each not in ranges)]


def _complement(ranges: Iterable[tuple[int, int]]) -> _Ranges:
    gaps: _Ranges = []
    begin = 0
    for first, last in sorted(ranges):
        if begin < first:
            gaps.append((begin, first - 1))
        begin = max(begin, last + 1)
    return [*gaps, (begin, _CODE_POINT_MAX)]


def _class_text(ranges: _Ranges, raw: str = "", *, is_negated: bool = False) -> str:
    members = "".join(
        _code(first) if first == last else f"{_code(first)}-{_code(last)}" for first, last in ranges
    )
    return f"[{'^' if is_negated else ''}{members}{raw}]"


def _code(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\x{{{code:x}}}"
