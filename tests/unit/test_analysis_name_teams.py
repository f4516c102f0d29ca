"""Rows of names by team: which names a team has, what is outside it, and the cells of its row."""

from __future__ import annotations

import random

from authorizer.analysis.matrix.matrix import Matrix, Row, combine_cells
from authorizer.analysis.matrix.matrix_changes import MatrixChanges
from authorizer.analysis.matrix.teams import Teams, rows_by_team
from authorizer.analysis.permissions.access_queries import answers_for
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.analysis.request_space.host_answers import masks_by_host
from authorizer.analysis.request_space.name_space import NAME_SPACES, Key
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import ResourceType
from records.columns.acl_table import AppliedAcl
from records.java_pattern import JavaPattern
from snapshot.delta import AclsDelta
from snapshot.image import NOWHERE, AclsImage
from support.brute_force import PRINCIPALS, random_pair

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
TEAMS = Teams(JavaPattern.compile("(?:raw-)?([a-z]+)[.].*"))
KEYS: list[Key] = sorted(
    [
        ("pay.", False),
        ("pay.in", True),
        ("pay.out.", False),
        ("raw-pay.x", True),
        ("ops.log", True),
        ("pa", False),
        ("zone-1", True),
        ("zone-2", True),
    ]
)


def rows(keys: list[Key] = KEYS, teams: Teams = TEAMS, **options: str) -> list[Row]:
    return rows_by_team(keys, teams, NAME_SPACES[TOPIC], **options)


def described(found: list[Row]) -> list[tuple[str, int]]:
    return [(each.team.name if each.team else each.key[0], each.inside) for each in found]


def test_teams_come_first_and_the_others_by_their_start() -> None:
    found = rows()
    assert described(found) == [("", 0), ("ops", 1), ("pay", 4), ("pa", 0), ("zone-", 2)]
    # What the prefix covers is not listed twice.
    assert list(found[2].keys) == [("pay.", False), ("raw-pay.x", True)]
    assert described(rows(under="zone-")) == [("zone-", 0), ("zone-1", 0), ("zone-2", 0)]
    assert described(rows(containing="OUT")) == [("", 0), ("pay", 1)]


def test_an_open_team_lists_its_names() -> None:
    found = rows(team="pay")
    assert described(found[:1]) == [("pay", 0)]
    assert [row.key for row in found[1:]] == [
        ("pay.", False),
        ("pay.in", True),
        ("pay.out.", False),
        ("raw-pay.x", True),
    ]
    assert described(rows(team="unknown")) == [("", 0)]


def test_a_prefix_that_covers_names_of_others_is_marked_with_an_example() -> None:
    teams = Teams(JavaPattern.compile("([a-z]+).*"))
    assert [row.outside for row in rows([("pay", False)], teams, team="pay")] == ["paya", "paya"]
    # A name of an ACL is the better example.
    known: list[Key] = [("pay", False), ("payx.1", True)]
    assert rows(known, teams)[1].outside == "payx.1"
    assert {row.outside for row in rows()} == {None}
    # Neither is a single name outside its team, nor a prefix whose names are all of it.
    assert rows([("pay", True)], teams)[1].outside is None


def test_cells_of_a_team_equal_the_library_name_by_name() -> None:
    """A cell of a team combines the answers of `EffectivePermissions` on every name and prefix of it."""
    rng = random.Random(30)
    teams = Teams(JavaPattern.compile("([ab]).*"))
    space = NAME_SPACES[GROUP]
    found_some = 0
    for number in range(100):
        matrices = []
        for records in random_pair(rng):
            delta = AclsDelta(AclsImage.EMPTY)
            for record in records:
                delta.put(AppliedAcl(record, None, 0))
            settings = AuthorizerSettings(allow_everyone=number % 5 == 0)
            matrices.append(Matrix.of(settings.index(delta.apply(NOWHERE)), settings, GROUP))
        before, matrix = matrices
        keys = sorted({*before.keys, *matrix.keys})
        found = rows_by_team(keys, teams, space)
        table = matrix.index.image.merged().columns
        permissions = EffectivePermissions.of(table, matrix.settings)
        for principal, column in zip(PRINCIPALS, matrix.columns(list(PRINCIPALS)), strict=True):
            answers = answers_for(permissions, principal, GROUP)
            for row in found:
                if row.team is None:
                    continue
                team = row.team
                members = [key for key in keys if teams.team_of(key[0]) == team.name]
                every, some = ~0, 0
                for text, is_name in members:
                    values = [answers.value_of((text, is_name))]
                    if not is_name:
                        values += [each for name, _, each in answers.entries if name.startswith(text)]
                    for value in values:
                        masks = [value] if isinstance(value, int) else [m for _, (m,) in masks_by_host(value)]
                        for mask in masks:
                            every &= mask
                            some |= mask
                cell = column.cell_of(row)
                assert (cell.always, cell.sometimes) == (every, some), (principal, team.name)
                found_some += cell.always != cell.sometimes
        # Rows with a change are those with a changed name.
        changes = MatrixChanges(before, matrix, PRINCIPALS)
        pairs = matrix.changes_since(before, PRINCIPALS)
        changed = [
            row
            for row in found
            if row.team
            and any(
                combine_cells(each.cell(key) for key in row.keys).sometimes for pair in pairs for each in pair
            )
        ]
        assert [row for row in changes.rows(found)[1:] if row.team] == changed
        for row in changed:
            assert changes.principals(row) == {
                principal
                for principal, pair in zip(PRINCIPALS, pairs, strict=True)
                if any(each.cell_of(row).sometimes for each in pair)
            }
    assert found_some > 20
