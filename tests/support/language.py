"""Searches identifiers, comments, texts and pages for the words that docs/glossary.md replaces.

`python tests/support/language.py PATH...` prints what it finds below the paths.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Words of an identifier (`_words_of`), in lower case: bare verbs, adjectives and private terms.
IDENTIFIER_WORDS = frozenset(
    {
        "amiss", "asked", "asker", "doubt", "everybody", "goes", "gone", "heard", "losses",
        "mine", "needless", "patience", "patiently", "said", "somebody", "standing", "stays",
        "told", "torn", "trouble", "turned", "went", "whoever",
    }
)  # fmt: skip
# Identifiers as a whole, without leading underscores.
IDENTIFIERS = frozenset(
    {
        "ahead", "at_once", "AtOnce", "as_stated", "families", "giving_way", "held_columns",
        "kept", "LetIn", "look", "meeting_place", "near", "others", "own", "passed_on",
        "private_app", "walking", "within",
    }
)  # fmt: skip
# Names of other libraries: ``HTTPStatus.GONE``.
STANDARD_NAMES = frozenset({"GONE"})
# Phrases of comments, docstrings, texts and pages; regular expressions, without case.
PHRASES = (
    r"amiss",
    r"asked? for about",
    r"asker",
    r"at once",
    r"(?:are|be|been|is|was|were) (?:said|told)",
    r"(?:are|be|been|is|was|were) looked at",
    r"a (?:look|walk) (?:at|through)",
    r"can go(?= by|\b[,.;:])",
    r"clusters? own log",
    r"dead ACLs?",
    r"(?<!deny-)everybody(?:'s)?",
    r"giving way",
    r"held columns",
    r"made ahead",
    r"meeting place",
    r"needless",
    r"(?:log|logs) of (?:its|one's|their) own",
    r"own logs?",
    r"passed on",
    r"private app",
    r"(?<!-)(?<!max\.)questions?",  # `--only first-question` and aclog.sidecar.max.questions are public
    r"short way",
    r"(?<!User:)somebody(?:'s)?",
    r"torn",
    r"what (?:goes|stays)",
    r"who(?:ever)? asks",
    r"whoever",
    r"(?<!the )whole(?! (?:buffer|number|second|millisecond|minute)s?\b)",
    r"work(?:s|ed) out",
)
_PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b", re.IGNORECASE)
# Keys and values that users type keep their names.
_CODE = re.compile(r"`[^`\n]+`|^```.*?^```", re.MULTILINE | re.DOTALL)
# The same in Python: names in backticks, and keys of JSON.
_NAME_IN_TEXT = re.compile(r"`+[^`\n]+`+")
_KEY = re.compile(r"""'\w+'|"\w+\"""")
_CAMEL = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
PAGES = frozenset({".md", ".js", ".html", ".css", ".svg", ".toml", ".yaml", ".yml"})


@dataclass(frozen=True, slots=True)
class Finding:
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def findings(paths: list[Path]) -> list[Finding]:
    """The findings in the files, and in the Python files and pages below the folders."""
    found: list[Finding] = []
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.name in ("language.py", "test_language.py", "glossary.md"):
                continue  # their patterns, samples and tables contain the words
            if file.suffix == ".py":
                found.extend(_of_python(file))
            elif file.suffix in PAGES:
                text = file.read_text(encoding="utf-8")
                found.extend(
                    _of_text(
                        file,
                        _CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
                        if file.suffix == ".md"
                        else text,
                        1,
                    )
                )
    return found


def _of_python(path: Path) -> Iterator[Finding]:
    text = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            name = token.string.strip("_")
            words = {word.lower() for part in name.split("_") for word in _CAMEL.findall(part)}
            if token.string in STANDARD_NAMES:
                continue
            if name in IDENTIFIERS or words & IDENTIFIER_WORDS:
                yield Finding(path, token.start[0], f"identifier {token.string}")
        elif token.type in {tokenize.COMMENT, tokenize.STRING, _FSTRING_MIDDLE} and not _KEY.fullmatch(
            token.string
        ):
            yield from _of_text(path, _NAME_IN_TEXT.sub("", token.string), token.start[0])


# Texts of f-strings are tokens of their own since Python 3.12.
_FSTRING_MIDDLE = getattr(tokenize, "FSTRING_MIDDLE", -1)


def _of_text(path: Path, text: str, first: int) -> Iterator[Finding]:
    for match in _PHRASE.finditer(text):
        yield Finding(path, first + text.count("\n", 0, match.start()), match[0])


if __name__ == "__main__":
    wrong = findings([Path(argument) for argument in sys.argv[1:]])
    for each in wrong:
        print(each)
    sys.exit(1 if wrong else 0)
