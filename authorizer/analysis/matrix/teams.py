"""Teams: groups of principals and of names, by a configured pattern, else by their common start.

A row of a team is every name that an ACL of the team names, and every possible name with a prefix that an ACL
of the team names. So its cells are as exact as those of the other rows. A prefix is of the team that the
pattern finds for the prefix itself, and may cover names of others: those are marked, with an example.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from authorizer.analysis.matrix.matrix import NameTeam, Row, group_principals, key_range, keys_with, outline
from authorizer.analysis.request_space.name_space import Key, NameSpace
from records.java_pattern import JavaPattern

# The next characters of example names in a name space without a list of characters.
_CHARACTERS: Final = "".join(map(chr, range(0x20, 0x7F)))
#: Maximum number of cached teams.
_CACHED_MAXIMUM: Final = 200_000


class PrincipalGroup(NamedTuple):
    """Principals that are shown together.

    Attributes:
        name: of the team; else the common start of the principals; of a single one the principal.
        is_team: whether the pattern names it.
    """

    name: str
    members: Sequence[str]
    is_team: bool = False
    is_one: bool = False

    @classmethod
    def of(cls, principal: str) -> PrincipalGroup:
        return cls(principal, [principal], is_one=True)


@dataclass(frozen=True, slots=True)
class Teams:
    """See the module.

    ``pattern``: matches an entire principal (``Type:name``), and its group is the team; None: no pattern.
    """

    pattern: JavaPattern | None = None
    _teams: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)

    def team_of(self, principal: str) -> str | None:
        """Return the team that the pattern names; None if it does not match, or its group is empty."""
        if self.pattern is None:
            return None
        if principal in self._teams:
            return self._teams[principal]
        if len(self._teams) >= _CACHED_MAXIMUM:
            self._teams.clear()
        # The engine's answer for a name with a line terminator may differ from Java's: it has no team.
        found = self.pattern.fullmatch(principal) if self.pattern.covers(principal) else None
        team = self._teams[principal] = (found.group(1) or None) if found else None
        return team

    def has_member(self, team: str, principal: str) -> bool:
        """Return whether a principal is of a team, or has no team and begins with this text."""
        found = self.team_of(principal)
        return principal.startswith(team) if found is None else found == team

    def groups(self, principals: Sequence[str], under: str = "") -> list[PrincipalGroup]:
        """Return the groups of sorted principals: first teams by name, then those without one.

        ``under``: the open team, whose principals are listed one by one, or the open common start;
        ``principals`` are its members.
        """
        teams: dict[str, list[str]] = {}
        ungrouped: list[str] = []
        found: list[PrincipalGroup] = []
        for principal in principals:
            team = self.team_of(principal)
            if team is None:
                ungrouped.append(principal)
            elif under:
                found.append(PrincipalGroup.of(principal))
            else:
                teams.setdefault(team, []).append(principal)
        found += [PrincipalGroup(team, teams[team], is_team=True) for team in sorted(teams)]
        # Alone on the page, the only common start would be opened. Beside teams it stays one group.
        at = 0
        for row in group_principals(ungrouped, under, opens_single=not found):
            count = row.inside or 1
            is_one = row.key[1]
            found.append(PrincipalGroup(row.key[0], ungrouped[at : at + count], is_one=is_one))
            at += count
        return found


def rows_by_team(
    keys: Sequence[Key],
    teams: Teams,
    space: NameSpace,
    *,
    team: str = "",
    under: str = "",
    containing: str = "",
) -> list[Row]:
    """Return the rows of names: first one for all of them, then teams by name, then names without a team.

    ``keys`` are sorted; only those with ``containing``, ignoring case, count. An open ``team`` has first a
    row for all of it, then its names and prefixes one by one; an open prefix, ``under``, has names without a
    team only.
    """
    by_team: defaultdict[str, list[Key]] = defaultdict(list)
    without: list[Key] = []
    for key in keys_with(keys, containing):
        found = teams.team_of(key[0])
        (without if found is None else by_team[found]).append(key)
    if team:
        outside = {key: _outside(key, keys, teams, space) for key in by_team[team]}
        all_of_team = NameTeam(team, _outermost(by_team[team]))
        rows = [Row(key, 0, outside=outside[key]) for key in by_team[team]]
        first = Row(("", False), 0, all_of_team, next(filter(None, outside.values()), None))
        return [first, *rows] if rows else [Row(("", False), 0)]
    rest = outline(without, under)
    if under:
        return rest
    return [
        rest[0],
        *(_team_row(each, by_team[each], keys, teams, space) for each in sorted(by_team)),
        *rest[1:],
    ]


def _team_row(name: str, of_team: Sequence[Key], keys: Sequence[Key], teams: Teams, space: NameSpace) -> Row:
    outermost = _outermost(of_team)
    outside = next(filter(None, (_outside(key, keys, teams, space) for key in outermost)), None)
    return Row(("", False), len(of_team), NameTeam(name, outermost), outside)


def _outermost(keys: Sequence[Key]) -> list[Key]:
    """The sorted keys without those that a prefix among them covers."""
    found: list[Key] = []
    for text, is_name in keys:
        if not found or found[-1][1] or not text.startswith(found[-1][0]):
            found.append((text, is_name))
    return found


def _outside(key: Key, keys: Sequence[Key], teams: Teams, space: NameSpace) -> str | None:
    """A name outside the team of a prefix that it covers; None if none is known."""
    prefix, is_name = key
    if is_name:
        return None
    team = teams.team_of(prefix)
    names = (name for name in _names_with(prefix, keys, space) if teams.team_of(name) != team)
    return next(names, None)


def _names_with(prefix: str, keys: Sequence[Key], space: NameSpace) -> Iterator[str]:
    first, end = key_range(keys, prefix)
    yield from (text for text, _ in keys[first:end])
    yield from (prefix + each for each in space.characters or _CHARACTERS if space.has(prefix + each))
