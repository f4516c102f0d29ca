r"""Paths as they are typed and shown: any name can be, whatever is in it.

    /acl/principal/User:al\ ice       a space, \/ a slash, \\ a backslash: one of these before any character
    /acl/resource/TOPIC/\*            takes its meaning away, as does \n \r \t \x1b \u202e \U0001f680
    /acl/resource/TOPIC/""            the name without a character
    /acl/resource/TOPIC/pay*          * any characters, ? one, {a,b} one of several
    ../id                             .. above, . here

What is not printable is shown by its number, and so cannot end a line, turn the text around or begin an
escape sequence; what would be read otherwise is shown with a backslash. What is shown can be pasted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import re2

from authorizer.cli.shell.nodes import Leaf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from authorizer.cli.shell.nodes import Node

_BACKSLASHED: Final = frozenset(' /\\*?{}"')
_EMPTY: Final = '""'
_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t"}
_BY_LETTER: Final = {ord(character): f"\\{letter}" for letter, character in _LETTERS.items()}
_NUMBERED: Final = {"x": 2, "u": 4, "U": 8}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_WORD: Final = re.compile(r"(?:\\.|[^\s\\]|\\$)+")
_COMPONENT: Final = re.compile(r"(?:\\.|[^/\\]|\\$)+", re.DOTALL)
# Of a component: what is escaped, what is special, what is neither.
_TOKEN: Final = re.compile(rf"(?P<escape>{_ESCAPE.pattern})|(?P<special>[*?{{}},])|(?P<plain>.)", re.DOTALL)


class BadPathError(ValueError):
    """A path that means nothing; the text says why."""


class Component(NamedTuple):
    """One name of a path, or a pattern of names.

    Attributes:
        name: the name; of a pattern nothing.
        pattern: RE2's, which the names match; None for one name. Names are anybody's, and a*a*a*b takes
            Python's own engine a while.
    """

    name: str
    pattern: Any


class Place(NamedTuple):
    """Where in the tree: the names from the root on, and what is there."""

    names: tuple[str, ...]
    node: Node


def printable(text: str) -> str:
    """The text with what is not printable by its number: for contents, which nobody types."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _numbered(each) for each in text)


def shown_name(name: str) -> str:
    """One name as it can be typed."""
    if not name:
        return _EMPTY
    if name in {".", ".."}:
        return "".join(f"\\{each}" for each in name)
    if name.isprintable() and _BACKSLASHED.isdisjoint(name):
        return name
    return "".join(f"\\{each}" if each in _BACKSLASHED else printable(each) for each in name)


def shown_path(names: Sequence[str]) -> str:
    """A path from the root on."""
    return "/" + "/".join(map(shown_name, names))


def split_words(line: str) -> list[str]:
    r"""A typed line by its spaces, but for escaped ones."""
    return _WORD.findall(line)


def unfinished_word(line: str) -> str:
    """The word at the line's end; none if that is a space between words."""
    words = list(_WORD.finditer(line))
    return words[-1][0] if words and words[-1].end() == len(line) else ""


def parse_path(text: str, here: Sequence[str] = ()) -> list[Component]:
    """What a typed path consists of, from the root on.

    Args:
        text: absolute, or relative to ``here``.
        here: the working directory.

    Raises:
        BadPathError: a group of alternatives without an end, or in another one.
    """
    components = [] if text.startswith("/") else [Component(name, None) for name in here]
    for typed in _COMPONENT.findall(text):
        if typed == "..":
            del components[-1:]
        elif typed != ".":
            components.append(_component(typed))
    return components


def found(root: Node, components: Sequence[Component]) -> Iterator[Place]:
    """The places that a path leads to, in order; nothing if there are none."""
    yield from _found(Place((), root), components)


def _found(place: Place, components: Sequence[Component]) -> Iterator[Place]:
    if not components:
        yield place
        return
    if isinstance(place.node, Leaf):
        return
    first, *others = components
    if first.pattern is None:
        names: Sequence[str] = (first.name,)
    else:
        names = [name for name in place.node.names if first.pattern.fullmatch(name)]
    for name in names:
        node = place.node.child(name)
        if node is not None:
            yield from _found(Place((*place.names, name), node), others)


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
