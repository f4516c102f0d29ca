"""Java properties: the format of server.properties, of meta.properties, and of aclog's own small files.

Source: java.util.Properties.load and store. The rules:

- A line that ends with an odd number of backslashes goes on in the next one, without that one's indent.
- A line whose first letter is ``#`` or ``!`` is a comment, and does not go on.
- The key ends at the first ``=``, ``:`` or space without a backslash; of equal keys the last one counts.
- An escape is a letter for a control character, four hexadecimal digits of UTF-16, or any other character.

Every command on a directory reads such a file first. The package that could do it as well imports an HTTP
client for its XML: a tenth of all that such a command takes.
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
_ESCAPED: Final = {ord(meant): f"\\{letter}" for letter, meant in _BY_LETTER.items()} | {
    ord(letter): f"\\{letter}" for letter in " \\=:#!"
}
_NOT_PLAIN: Final = re.compile(r"[^ -~]")


def parse_properties(text: str) -> dict[str, str]:
    r"""The keys and their texts.

    Raises:
        ValueError: a ``\u`` without four hexadecimal digits.
    """
    found = {}
    for line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        if pair is not None:  # it matches every line
            found[_unescaped(pair[1])] = _unescaped(pair[2])
    return found


def escape_property(text: str) -> str:
    """A key or a text as it can stand in a properties file, in ASCII."""
    return _NOT_PLAIN.sub(_as_utf16, text.translate(_ESCAPED))


def _logical_lines(text: str) -> Iterator[str]:
    line = ""
    for each in _LINE_END.split(text):
        line += each.lstrip(_SPACE)
        is_comment = line.startswith(("#", "!"))
        if not is_comment and _is_continued(line):
            line = line[:-1]
            continue
        if line and not is_comment:
            yield line
        line = ""
    if line:
        yield line


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(_meant, text)
    if _SURROGATE.search(text):
        # Java's texts are UTF-16: two escapes may be one character.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def _meant(escape: re.Match[str]) -> str:
    what = escape[1]
    if what == "u":
        raise ValueError(f"a \\u without four hexadecimal digits: `{escape.string[escape.start() :][:6]}`")
    return chr(int(what[1:], 16)) if len(what) > 1 else _BY_LETTER.get(what, what)


def _as_utf16(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
