"""Teams: groups of principals, by a configured pattern, else by the common start of their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from authorizer.analysis.matrix.matrix import group_principals
from records.java_pattern import JavaPattern

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
