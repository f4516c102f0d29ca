"""Teams: principals grouped by a configured pattern, and by their common start where it does not match."""

from __future__ import annotations

import pytest

from authorizer.analysis.matrix.teams import PrincipalGroup, Teams
from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.names import CONSOLE_NAME_TEAMS, CONSOLE_TEAMS
from authorizer.configuration.load import load_config
from records.java_pattern import JavaPattern

TEAMS = Teams(JavaPattern.compile("User:(?:svc-)?([a-z]*)[.-].*"))
PRINCIPALS = sorted(
    [
        "User:pay.api",
        "User:svc-pay.batch",
        "User:pay-web",
        "User:ops.one",
        "User:.empty",
        "Group:a.1",
        "Group:a.2",
        "User:Alice",
    ]
)


def test_the_group_of_the_pattern_is_the_team() -> None:
    assert TEAMS.team_of("User:pay.api") == TEAMS.team_of("User:svc-pay.batch") == "pay"
    # No match, an empty group, and a line terminator, where engines differ.
    for principal in ("Group:a.1", "User:.empty", "User:pay.x\n"):
        assert TEAMS.team_of(principal) is None
    assert Teams().team_of("User:pay.api") is None


def test_a_member_has_the_team_or_has_none_and_begins_with_the_text() -> None:
    assert TEAMS.has_member("pay", "User:svc-pay.batch")
    assert not TEAMS.has_member("User:", "User:pay.api")
    assert TEAMS.has_member("Group:a.", "Group:a.1")
    assert not TEAMS.has_member("pay", "Group:a.1")
    assert Teams().has_member("User:pay", "User:pay.api")


def test_teams_come_first_and_other_principals_are_grouped_by_their_start() -> None:
    assert TEAMS.groups(PRINCIPALS) == [
        PrincipalGroup("ops", ["User:ops.one"], is_team=True),
        PrincipalGroup("pay", ["User:pay-web", "User:pay.api", "User:svc-pay.batch"], is_team=True),
        PrincipalGroup("Group:a.", ["Group:a.1", "Group:a.2"]),
        PrincipalGroup.of("User:.empty"),
        PrincipalGroup.of("User:Alice"),
    ]


def test_an_open_group_has_its_principals() -> None:
    pay = [each for each in PRINCIPALS if TEAMS.has_member("pay", each)]
    assert TEAMS.groups(pay, "pay") == [PrincipalGroup.of(each) for each in pay]
    of_a = [each for each in PRINCIPALS if TEAMS.has_member("Group:a.", each)]
    assert TEAMS.groups(of_a, "Group:a.") == [PrincipalGroup.of(each) for each in of_a]


def test_without_a_match_a_single_group_is_opened() -> None:
    assert TEAMS.groups(["Group:a.1", "Group:a.2"]) == [
        PrincipalGroup.of("Group:a.1"),
        PrincipalGroup.of("Group:a.2"),
    ]
    # Beside a team it stays one.
    assert TEAMS.groups(["Group:a.1", "Group:a.2", "User:pay.x"])[1] == PrincipalGroup(
        "Group:a.", ["Group:a.1", "Group:a.2"]
    )


def test_the_key_sets_the_pattern() -> None:
    config = load_config(environ={}, flags={CONSOLE_TEAMS: " User:([a-z]+)-.* "})
    assert Teams(config.console_teams).team_of("User:pay-1") == "pay"
    assert load_config(environ={}).console_teams is None
    config = load_config(environ={}, flags={CONSOLE_NAME_TEAMS: "([a-z]+)-.*"})
    assert Teams(config.console_name_teams).team_of("pay-1") == "pay"
    with pytest.raises(ConfigError, match="entire names, with one group"):
        load_config(environ={}, flags={CONSOLE_NAME_TEAMS: "[a-z]+"})


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("User:[a-z]+", "it has 0 groups"),
        ("(User|Group):([a-z]+)", "it has 2 groups"),
        ("User:(?=a)(.*)", "a lookahead"),
        ("User:([a-z]+", "not closed"),
        (" ", "one group"),
    ],
)
def test_other_patterns_are_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        load_config(environ={}, flags={CONSOLE_TEAMS: pattern})
    assert caught.value.key == CONSOLE_TEAMS
