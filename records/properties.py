"""Java properties: the format of server.properties, of meta.properties, and of small files of aclog.

Source: java.util.Properties.load and store. The rules:

- A line that ends with an odd number of backslashes continues in the next line, without its indentation.
- A line whose first character is ``#`` or ``!`` is a comment, and does not continue.
- The key ends at the first ``=``, ``:`` or space without a backslash. The last of equal keys counts.
- An escape is a letter for a control character, four hexadecimal digits of UTF-16, or any other character.

Every command on a directory reads such a file first. An existing package imports an HTTP client for its XML,
which would add a tenth to the duration of such a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_SPACE: Final = " \t\f"
_PAIR: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_BY_LETTER: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED: Final = {ord(character): f"\\{letter}" for letter, character in _BY_LETTER.items()} | {
    ord(letter): f"\\{letter}" for letter in " \\=:#!"
}
_NOT_PLAIN: Final = re.compile(r"[^ -~]")


def parse_properties(text: str) -> dict[str, str]:
    r"""Parse keys and values.

    Raises:
        ValueError: a ``\u`` without four hexadecimal digits.
    """
    return {key: value for _, key, value in _pairs(text)}


def property_lines(text: str) -> dict[str, int]:
    """Return each key's line, from 1 on; of equal keys the last. Raises as ``parse_properties``."""
    return {key: number for number, key, _ in _pairs(text)}


def escape_property(text: str) -> str:
    """A key or value for a properties file, in ASCII."""
    return _NOT_PLAIN.sub(_as_utf16, text.translate(_ESCAPED))


def _pairs(text: str) -> Iterator[tuple[int, str, str]]:
    for number, line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        if pair is None:  # it matches every line
            continue
        try:
            yield number, _unescaped(pair[1]), _unescaped(pair[2])
        except ValueError as error:
            raise ValueError(f"line {number} has {error}") from error


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    line, first = "", 1
    for number, each in enumerate(_LINE_END.split(text), 1):
        if not line:
            first = number
        line += each.lstrip(_SPACE)
        is_comment = line.startswith(("#", "!"))
        if not is_comment and _is_continued(line):
            line = line[:-1]
            continue
        if line and not is_comment:
            yield first, line
        line = ""
    if line:
        yield first, line


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(_unescaped_character, text)
    if _SURROGATE.search(text):
        # Java's strings are UTF-16: two escapes may be one character.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def _unescaped_character(escape: re.Match[str]) -> str:
    what = escape[1]
    if what == "u":
        raise ValueError(f"a \\u without four hexadecimal digits: `{escape.string[escape.start() :][:6]}`")
    return chr(int(what[1:], 16)) if len(what) > 1 else _BY_LETTER.get(what, what)


def _as_utf16(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
