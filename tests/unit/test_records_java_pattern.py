"""Java's patterns: accepted and refused ones, and the linear time of a match.

test_connection_peer.py compares them with Java.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from records.java_pattern import TEXT_MAX, JavaPattern


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        # What no linear engine has.
        (r"(a)\1", "a backreference, at character 5"),
        (r"(?<n>a)\k<n>", "a backreference"),
        ("a(?=b)", "a lookahead, at character 3"),
        ("(?!a)b", "a lookahead"),
        ("(?<=a)b", "a lookbehind"),
        ("(?<!a)b", "a lookbehind"),
        ("(?>a+)b", "an atomic group"),
        ("a*+b", "a possessive quantifier"),
        ("a{1,2}+b", "a possessive quantifier"),
        # What engines disagree about.
        ("(a*)*", "a repetition of what can match nothing"),
        ("(a|b*){2}", "a repetition of what can match nothing"),
        ("^*a", "a quantifier of an assertion"),
        # What RE2 would read as something else.
        ("[a-z&&[^b]]", "a class within a class"),
        ("[a[bc]]", "a class within a class"),
        ("[[:alpha:]]", "a class within a class"),
        ("[]a]", "a `]` at the beginning of a class"),
        ("[a-c-e]", "a `-` that is neither first nor last"),
        (r"[\d-z]", "a range whose ends"),
        ("[z-a]", "a range whose ends"),
        ("(?U)a", "the flag `U`"),
        ("(?u:a)", "the flag `u`"),
        ("(?x) a", "the flag `x`"),
        ("(?m)^a", "the flag `m`"),
        ("(?P<n>a)", "a group of a kind that Java does not have"),
        (r"\C", r"the escape \C"),
        (r"\h", r"the escape \h"),
        (r"\R", r"the escape \R"),
        (r"\p{IsGreek}", r"\p{IsGreek}"),
        (r"\pAlpha", r"\pA"),
        (r"(?i)\p{Lu}", r"\p{Lu} under the flag `i`"),
        (r"\b{g}", "a boundary of graphemes"),
        # What Java does not take.
        ("a{", "a `{` that is no quantifier"),
        ("a{,3}", "a `{` that is no quantifier"),
        ("{1}", "a `{` that is no quantifier"),
        ("*a", "a `*` after nothing"),
        ("a|*b", "a `*` after nothing"),
        ("a**", "two quantifiers one after the other"),
        ("(a", "a `(` that is not closed"),
        ("a)", "a `)` that closes nothing"),
        ("[a", "a `[` that is not closed"),
        ("[a-", "a `[` that is not closed"),
        ("a\\", "a `\\` with nothing behind it"),
        (r"\x{110000}", "a character that there is not"),
        # What would take too much.
        ("a{1001}", "a repetition of more than 1000 times"),
        ("(a{1000}){1000}", "too large or cannot be"),
        (r"\Qab\E+", "a quantifier after \\E"),
    ],
)
def test_unsupported_constructs_are_refused_by_name(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        JavaPattern.compile(pattern)
    assert why in str(refused.value)
    assert pattern in str(refused.value)


MATCHED = """
import sys
from records.java_pattern import TEXT_MAX, JavaPattern
text = "a" * (TEXT_MAX - 1) + "!"
for pattern in sys.argv[1:]:
    compiled = JavaPattern.compile(pattern)
    compiled.fullmatch(text)
    compiled.replace_all(text, lambda found: "x")
"""


def test_no_text_slows_down_a_match() -> None:
    """Of patterns that Java and Python would never be done with; the time limit ends a run that hangs."""
    patterns = [
        "(a+)+b",
        "(a|a)+b",
        "(a|aa)+$",
        "(.+)+,(.+)+,(.+)+b",
        "a*a*a*a*a*a*a*a*b",
        "(x+x+)+y",
        "((a|b)(a|b))+c",
        # It finds nothing from each character on, and reads to the end for it.
        "a*b|!",
    ]
    done = subprocess.run(
        [sys.executable, "-c", MATCHED, *patterns],
        timeout=300,
        check=False,
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("pattern", "text", "is_covered"),
    [
        ("a", "a", True),
        ("a", "é", True),
        ("a", "a" * TEXT_MAX, True),
        ("a", "a" * (TEXT_MAX + 1), False),
        *(("a", f"a{end}b", False) for end in "\n\r\x85\u2028\u2029"),
        (r"\ba", "a", True),
        (r"\ba", "é", False),
        (r"a\B", "é", False),
    ],
)
def test_texts_with_an_unknown_answer_of_java_are_refused(pattern: str, text: str, is_covered: bool) -> None:
    compiled = JavaPattern.compile(pattern)
    assert compiled.covers(text) is is_covered
    if not is_covered:
        for ask in (compiled.fullmatch, lambda text: compiled.replace_all(text, str)):
            with pytest.raises(ValueError, match="not known"):
                ask(text)


@pytest.mark.parametrize(
    ("pattern", "backtracks"),
    [
        ("acls-(.+)", False),
        ("acls-([a-z0-9-]+)-(?:eu|us)", False),
        ("(a+)?b", False),
        ("(a+)+", True),
        ("(?:a|b)*", True),
        ("(?:a{2}b){3,}", True),
        ("((a|b)c)+", True),
    ],
)
def test_patterns_with_catastrophic_backtracking_in_java_are_detected(pattern: str, backtracks: bool) -> None:
    assert JavaPattern.compile(pattern).backtracks is backtracks


def test_groups_have_numbers_and_names() -> None:
    pattern = JavaPattern.compile(r"(?<host>[^.]+)\.(?:[^.]+)\.([a-z]+)")
    assert pattern.groups == 2
    assert pattern.group_numbers == {"host": 1}
    assert pattern.fullmatch("broker1.example.org").group(1, 2) == ("broker1", "org")
    assert pattern.fullmatch("broker1.example.org.") is None


def test_all_matches_are_replaced_empty_ones_too() -> None:
    def counted(pattern: str, text: str) -> str:
        return JavaPattern.compile(pattern).replace_all(text, lambda found: f"<{found.group(0)}>")

    assert counted(".*", "ab") == "<ab><>"
    assert counted("a*", "baac") == "<>b<aa><>c<>"
    assert counted("^a", "aa") == "<a>a"
    assert counted("é|😀", "aé😀b") == "a<é><😀>b"
