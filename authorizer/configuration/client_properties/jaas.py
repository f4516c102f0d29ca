"""``sasl.jaas.config``: login modules and options (org.apache.kafka.common.security.JaasConfig).

The grammar is ``CLASS FLAG (NAME=VALUE)*;``, repeated. Java's StreamTokenizer splits the text: words have
letters, digits and ``$-._`` and do not begin with a digit, ``-`` or ``.``; quoted texts have escapes; ``/``
begins a comment; any other character is a token, which is a valid one only where it is ``=`` or ``;``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

_FLAGS: Final = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
#: From here on StreamTokenizer takes every character for a letter.
_LETTERS_FROM: Final = "\xa0"
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL: Final = "01234567"


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry of a JAAS configuration.

    The options hold secrets.
    """

    name: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> tuple[LoginModule, ...]:
    """The login modules of a ``sasl.jaas.config``; a ValueError contains no values of options."""
    tokens = list(_tokens(text))
    modules: list[LoginModule] = []
    at = 0
    while at < len(tokens):
        module, at = _module(tokens, at)
        modules.append(module)
    if not modules:
        raise ValueError("it names no login module")
    return tuple(modules)


@dataclass(frozen=True, slots=True)
class _Token:
    """A word or a quoted text; or one other character."""

    text: str
    is_character: bool = False

    def is_(self, character: str) -> bool:
        return self.is_character and self.text == character


def _module(tokens: list[_Token], at: int) -> tuple[LoginModule, int]:
    name = tokens[at]
    if name.is_character or not name.text:
        raise ValueError(f"{name.text!r} is not the name of a login module")
    if at + 1 == len(tokens) or tokens[at + 1].is_character or tokens[at + 1].text.upper() not in _FLAGS:
        raise ValueError(f"{name.text!r} must be followed by one of {', '.join(_FLAGS).lower()}")
    options: dict[str, str] = {}
    at += 2
    while at < len(tokens) and not tokens[at].is_(";"):
        option = tokens[at : at + 3]
        if len(option) < 3 or not option[1].is_("=") or option[0].is_character or option[2].is_character:
            raise ValueError(f"an option of {name.text} is not NAME=VALUE; quote VALUE")
        options[option[0].text] = option[2].text
        at += 3
    if at == len(tokens):
        raise ValueError(f"the entry of {name.text} must end with a semicolon")
    return LoginModule(name.text.rpartition(".")[2], MappingProxyType(options)), at + 1


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        character = text[at]
        if character <= " ":
            at += 1
        elif character in "\"'":
            token, at = _quoted(text, at)
            yield token
        elif character == "/":
            at = _after_comment(text, at)
        elif _is_letter(character):
            start = at
            while at < len(text) and (_is_letter(text[at]) or text[at] in "0123456789.-"):
                at += 1
            yield _Token(text[start:at])
        else:
            yield _Token(character, is_character=True)
            at += 1


def _is_letter(character: str) -> bool:
    is_ascii_letter = character.isascii() and character.isalpha()
    return is_ascii_letter or character in "$_" or character >= _LETTERS_FROM


def _after_comment(text: str, at: int) -> int:
    """The end of a comment; as in Java, the character behind the slash never ends it."""
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        return len(text) if end < 0 else end + 2
    at += 2
    while at < len(text) and text[at] not in "\r\n":
        at += 1
    return at


def _quoted(text: str, at: int) -> tuple[_Token, int]:
    """A quoted text; as in Java, it also ends at the end of its line."""
    quote, at = text[at], at + 1
    characters: list[str] = []
    while at < len(text) and text[at] != quote and text[at] not in "\r\n":
        if text[at] == "\\" and at + 1 < len(text):
            character, at = _escaped(text, at + 1)
            characters.append(character)
        else:
            characters.append(text[at])
            at += 1
    ends_with_quote = at < len(text) and text[at] == quote
    return _Token("".join(characters)), at + ends_with_quote


def _escaped(text: str, at: int) -> tuple[str, int]:
    """The character of an escape, whose backslash is before ``at``; octal numbers go up to 377."""
    if text[at] not in _OCTAL:
        return _ESCAPES.get(text[at], text[at]), at + 1
    length_max = 3 if text[at] <= "3" else 2
    end = at + 1
    while end < len(text) and end - at < length_max and text[end] in _OCTAL:
        end += 1
    return chr(int(text[at:end], 8)), end
