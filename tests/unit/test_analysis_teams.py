"""Teams: principals grouped by a configured pattern, and by their common start where it does not match."""

from __future__ import annotations

import pytest

from authorizer.analysis.matrix.matrix import Cell, Matrix
from authorizer.analysis.matrix.teams import PrincipalGroup, Teams
from authorizer.analysis.request_space.host_answers import OPERATION_BITS
from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.names import CONSOLE_NAME_TEAMS, CONSOLE_TEAMS
from authorizer.configuration.load import load_config
from authorizer.console.routes.matrix_window import window
from authorizer.console.routes.queries import MatrixQuery
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import AclOperation, ResourceType
from records.columns.acl_table import AppliedAcl
from records.java_pattern import JavaPattern
from snapshot.delta import AclsDelta
from snapshot.image import NOWHERE, AclsImage
from support.dated_logs import added
from support.node_acls import acl

READ = AclOperation.READ
READ_AND_DESCRIBE = OPERATION_BITS[READ] | OPERATION_BITS[AclOperation.DESCRIBE]
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


@pytest.mark.parametrize(("wildcards", "is_aggregated"), [(1, True), (150, False)])
def test_a_window_aggregates_many_principals_if_their_acls_are_few(
    wildcards: int, is_aggregated: bool
) -> None:
    delta = AclsDelta(AclsImage.EMPTY)
    acls = [acl(f"User:pay.{number}", READ, "orders") for number in range(400)]
    acls += [acl("User:*", READ, f"public.{number}") for number in range(wildcards)]
    acls += [acl(f"User:ops.{number}", READ, "orders") for number in range(200)]
    for each in acls:
        delta.put(AppliedAcl(added(each), None, 0))
    settings = AuthorizerSettings()
    matrix = Matrix.of(settings.index(delta.apply(NOWHERE)), settings, ResourceType.TOPIC)
    answer = window(MatrixQuery(teams=True), matrix, None, None, TEAMS, Teams())
    heads = [each["principal"] for each in answer["columns"]["items"]]
    (row,) = [at for at, each in enumerate(answer["rows"]["items"]) if each["text"] == "orders"]
    cells = dict(zip(heads, answer["cells"][row], strict=True))
    allowed = Cell(READ_AND_DESCRIBE, READ_AND_DESCRIBE)
    assert cells == {
        None: Cell(0, 0),
        # 200 are aggregated in any case.
        "ops": allowed,
        "pay": allowed if is_aggregated else None,
    }
