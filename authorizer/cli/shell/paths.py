r"""Syntax of paths, in which any name can be typed and printed.

    /acl/principal/User:al\ ice       a backslash escapes the next character: a space, \/, \\
    /acl/resource/TOPIC/\*            the name *; \n \r \t \x1b \u202e \U0001f680 are characters by code
    /acl/resource/TOPIC/""            the empty name
    /acl/resource/TOPIC/pay*          * matches any characters, ? one, {a,b} one of several
    ../id                             .. is the parent, . the working directory

Unprintable characters are printed by code, so that names cannot end a line, reverse the text or begin an
escape sequence. Special characters are printed with a backslash. Printed paths can be pasted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import re2

from authorizer.cli.shell.tree import Leaf, Node

_BACKSLASHED: Final = frozenset(' /\\*?{}"')
_EMPTY: Final = '""'
_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t"}
_BY_LETTER: Final = {ord(character): f"\\{letter}" for letter, character in _LETTERS.items()}
_NUMBERED: Final = {"x": 2, "u": 4, "U": 8}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_WORD: Final = re.compile(r"(?:\\.|[^\s\\]|\\$)+")
_COMPONENT: Final = re.compile(r"(?:\\.|[^/\\]|\\$)+", re.DOTALL)
# An escaped, special or plain character of a component.
_TOKEN: Final = re.compile(rf"(?P<escape>{_ESCAPE.pattern})|(?P<special>[*?{{}},])|(?P<plain>.)", re.DOTALL)


class BadPathError(ValueError):
    """A path that is not valid; the text states why."""


class Component(NamedTuple):
    """One name of a path, or a pattern of names.

    ``pattern``: of RE2, which is linear in the length of a name; None for one name.
    """

    name: str
    pattern: Any


class Place(NamedTuple):
    """A node with its path from the root."""

    names: tuple[str, ...]
    node: Node


def printable(text: str) -> str:
    """The text with unprintable characters by code; for values, which users do not type."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _numbered(each) for each in text)


def shown_name(name: str) -> str:
    """A name in the syntax of paths."""
    if not name:
        return _EMPTY
    if name in {".", ".."}:
        return "".join(f"\\{each}" for each in name)
    if name.isprintable() and _BACKSLASHED.isdisjoint(name):
        return name
    return "".join(f"\\{each}" if each in _BACKSLASHED else printable(each) for each in name)


def shown_path(names: Sequence[str]) -> str:
    """An absolute path."""
    return "/" + "/".join(map(shown_name, names))


def split_words(line: str) -> list[str]:
    r"""Split a line at spaces that are not escaped."""
    return _WORD.findall(line)


def unfinished_word(line: str) -> str:
    """The word at the end of a line; empty after a space."""
    words = list(_WORD.finditer(line))
    return words[-1][0] if words and words[-1].end() == len(line) else ""


def parse_path(text: str, here: Sequence[str] = ()) -> list[Component]:
    """The components of a typed path, from the root on. Raises BadPathError."""
    components = [] if text.startswith("/") else [Component(name, None) for name in here]
    for typed in _COMPONENT.findall(text):
        if typed == "..":
            del components[-1:]
        elif typed != ".":
            components.append(_component(typed))
    return components


def found(root: Node, components: Sequence[Component]) -> Iterator[Place]:
    """The existing places of a path, in order."""
    yield from _found(Place((), root), components)


def _found(place: Place, components: Sequence[Component]) -> Iterator[Place]:
    if not components:
        yield place
        return
    if isinstance(place.node, Leaf):
        return
    first, *remaining = components
    if first.pattern is None:
        names: Sequence[str] = (first.name,)
    else:
        names = [name for name in place.node.names if first.pattern.fullmatch(name)]
    for name in names:
        node = place.node.child(name)
        if node is not None:
            yield from _found(Place((*place.names, name), node), remaining)


def _component(typed: str) -> Component:
    if typed == _EMPTY:
        return Component("", None)
    name: list[str] = []
    pattern: list[str] = []
    is_pattern = in_group = False
    for token in _TOKEN.finditer(typed):
        special = token["special"]
        if special is None or (special == "," and not in_group) or (special == "}" and not in_group):
            character = token[0] if token["escape"] is None else _unescaped(token["escape"])
            name.append(character)
            pattern.append(re2.escape(character))
            continue
        is_pattern = True
        match special:
            case "*":
                pattern.append(".*")
            case "?":
                pattern.append(".")
            case ",":
                pattern.append("|")
            case "{":
                if in_group:
                    raise BadPathError(f"{typed}: a {{group}} cannot be in another one")
                in_group = True
                pattern.append("(?:")
            case "}":
                in_group = False
                pattern.append(")")
    if in_group:
        raise BadPathError(f"{typed}: the {{group}} has no end; write \\{{ for the character")
    return Component("" if is_pattern else "".join(name), _compiled(pattern) if is_pattern else None)


def _compiled(pattern: Sequence[str]) -> Any:
    options = re2.Options()
    options.dot_nl = True
    options.log_errors = False
    try:
        return re2.compile("".join(pattern), options)
    except re2.error as error:
        raise BadPathError("the pattern is too large") from error


def _unescaped(escape: str) -> str:
    letter, digits = escape[1], escape[2:]
    if digits and int(digits, 16) <= 0x10FFFF:
        return chr(int(digits, 16))
    return _LETTERS.get(letter, letter) + digits


def _numbered(character: str) -> str:
    code = ord(character)
    if code in _BY_LETTER:
        return _BY_LETTER[code]
    for letter, digits in _NUMBERED.items():
        if code < 16**digits:
            return f"\\{letter}{code:0{digits}x}"
    raise ValueError(code)
