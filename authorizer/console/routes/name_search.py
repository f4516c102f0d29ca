"""Principals, teams and resource names that contain a text, for the page's command palette."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from authorizer.analysis.matrix.matrix import Matrix
    from authorizer.analysis.matrix.teams import Teams
    from authorizer.analysis.request_space.name_space import Key

#: Maximum number of words of a text that are searched; each is searched in all names.
WORDS_MAXIMUM: Final = 3


def found_names(text: str, matrices: Iterable[Matrix], count: int, teams: Teams) -> list[dict[str, Any]]:
    """Return for each word of a text the best principals, teams and names, at most ``count`` of each.

    A name that equals the word is better than one that begins with it, and that than one that contains it;
    then the shorter one is better. The word may omit the principal's type. Case is ignored.
    """
    matrices = list(matrices)
    principals = frozenset[str]().union(*(each.principals for each in matrices))
    team_names = {team for each in principals if (team := teams.team_of(each)) is not None}
    return [
        {
            "word": word,
            "teams": _best(word, ((each, each, each) for each in team_names), count),
            "principals": _best(word, ((each, each.partition(":")[2], each) for each in principals), count),
            "names": _best(word, _names(matrices), count),
        }
        for word in text.split()[:WORDS_MAXIMUM]
    ]


def _names(matrices: Iterable[Matrix]) -> Iterable[tuple[str, str, dict[str, Any]]]:
    for matrix in matrices:
        resource_type = matrix.resource_type.name
        for key in matrix.keys:
            yield key[0], key[0], _name_json(resource_type, key)


def _name_json(resource_type: str, key: Key) -> dict[str, Any]:
    return {"type": resource_type, "text": key[0], "is_name": key[1]}


def _best(word: str, items: Iterable[tuple[str, str, Any]], count: int) -> list[Any]:
    """The values of the best of items: a text, the part of it that is typed, and the value."""
    wanted = word.casefold()
    ranked = (
        (_rank(wanted, text.casefold(), part.casefold()), len(text), text, number, value)
        for number, (text, part, value) in enumerate(items)
        if text and wanted in text.casefold()
    )
    return [each[-1] for each in nsmallest(count, ranked)]


def _rank(wanted: str, text: str, part: str) -> int:
    if wanted in (text, part):
        return 0
    return 1 if part.startswith(wanted) or text.startswith(wanted) else 2
