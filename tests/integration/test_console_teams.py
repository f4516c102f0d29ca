"""Teams by a configured pattern, changed rows, and the operations of a cell, in the page and in a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Page, expect

from authorizer.cli.main import cli
from authorizer.node.node import Node
from records.acl import AclOperation
from records.entries import MetadataRecord
from support.console_page import assert_accessible
from support.dated_logs import added, date_ms, removed, write_dated_log
from support.node_acls import acl, on_cluster
from support.nodes import running_node

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

READ, WRITE = AclOperation.READ, AclOperation.WRITE
#: The team is not the start of the name.
PATTERN = "User:(?:svc-|job-)?([a-z]+)[.-].*"
NAME_PATTERN = "(?:raw-)?([a-z]+).*"
OLD_WRITE = acl("User:job-pay.batch", WRITE, "orders.v1")
SINCE = 8


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("teams") / "log"
    first = [
        on_cluster(AclOperation.DESCRIBE),
        acl("User:pay.api", READ, "orders.v1"),
        acl("User:job-pay.batch", READ, "orders.v1"),
        OLD_WRITE,
        acl("User:svc-ops.one", READ, "logs.v1"),
        acl("User:svc-ops.one", WRITE, "logs.v1"),
        acl("Group:x.1", READ, "logs.v1"),
        acl("Group:x.2", READ, "logs.v1"),
        acl("User:svc-ops.one", READ, "raw-logs", prefixed=True),
    ]
    steps: list[tuple[int, Sequence[MetadataRecord]]] = [
        (date_ms(2026, 1, 1), [added(each) for each in first]),
        (
            date_ms(2026, 2, 1),
            [
                removed(OLD_WRITE),
                added(acl("User:pay.api", AclOperation.DELETE, "orders.v1")),
                added(acl("User:svc-ops.two", READ, "metrics.v1", deny=True)),
            ],
        ),
    ]
    write_dated_log(directory, steps)
    return directory


@pytest.fixture(scope="module")
def node(log: Path) -> Iterator[Node]:
    with running_node(log, console_teams=PATTERN, console_name_teams=NAME_PATTERN) as running:
        yield running


@pytest.fixture(scope="module")
def report(log: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("teams-report")
    (directory / "aclog.properties").write_text(
        "aclog.console.teams=" + PATTERN.replace("\\", "\\\\"), encoding="utf-8"
    )
    arguments = ["--log", log, "--since", SINCE, "--config", directory / "aclog.properties"]
    result = CliRunner().invoke(
        cli, ["report", *map(str, arguments), "--output", str(directory / "report.html")]
    )
    assert result.exit_code == 0, result.output
    return (directory / "report.html").as_uri()


def heads(page: Page) -> list[str]:
    return [each.strip() for each in page.locator("table.matrix thead th bdi").all_inner_texts()]


def check_groups_of_the_matrix(page: Page) -> None:
    page.get_by_label("by team").check()
    expect(page.locator("table.matrix thead th")).to_have_count(5)
    # Teams by name, then principals without one, by their common start.
    assert heads(page) == ["everyone else", "ops", "pay", "Group:x.*"]
    orders = page.locator("table.matrix tbody tr", has_text="orders.v1").locator("td .hidden")
    expect(orders.nth(2)).to_have_text("all of them Read, Describe; partly Delete")
    page.get_by_role("button", name="pay 2").click()
    expect(page.locator("table.matrix thead th")).to_have_count(3)
    assert heads(page) == ["User:job-pay.batch", "User:pay.api"]
    page.get_by_role("button", name="all principals").click()
    expect(page.get_by_role("button", name="pay 2")).to_be_visible()


def test_the_matrix_is_grouped_by_the_pattern(page: Page, url: str) -> None:
    page.goto(url)
    check_groups_of_the_matrix(page)


def test_a_report_has_the_same_teams(chromium: Browser, report: str) -> None:
    with chromium.new_context(offline=True) as context:
        page = context.new_page()
        page.goto(f"{report}#since=")
        check_groups_of_the_matrix(page)
        page.goto(f"{report}#view=changes&since={SINCE}&team=pay")
        expect(page.locator(".total")).to_have_text("2 changes")
        page.goto(f"{report}#since={SINCE}&changed=yes")
        check_changed_rows(page)
        page.keyboard.press("/")
        page.keyboard.type("op")
        expect(page.get_by_role("option", name="ops team:")).to_be_visible()


def check_changed_rows(page: Page) -> None:
    expect(page.locator("table.matrix tbody tr:not(.spacer) th")).to_have_count(2)
    assert heads(page) == ["User:job-pay.batch", "User:pay.api"]
    expect(page.locator(".counts").first).to_contain_text("1 changed row, 2 principals")
    row = page.locator("table.matrix tbody tr:not(.spacer)").nth(1)
    expect(row.locator("td .chip")).to_have_text(["\N{MINUS SIGN}W", "+X"])


def test_only_what_changed_is_shown(page: Page, url: str) -> None:
    page.goto(f"{url}/#since={SINCE}")
    # A DENY of what nothing allowed changes no answer.
    expect(page.locator("table.matrix tbody tr:not(.spacer) th")).to_have_count(5)
    page.get_by_label("only changed").check()
    check_changed_rows(page)
    assert_accessible(page, "matrix-changed")
    page.reload()
    check_changed_rows(page)
    # By team the members without a change count, too.
    page.get_by_label("by team").check()
    expect(page.locator("table.matrix thead th")).to_have_count(2)
    assert heads(page) == ["pay"]
    # Without a comparison there is nothing that changed.
    page.goto(f"{url}/#changed=yes")
    expect(page.locator("table.matrix thead th")).to_have_count(8)
    expect(page.get_by_label("only changed")).to_have_count(0)


def test_lists_are_filtered_by_team(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=changes")
    page.get_by_label("Team").fill("ops")
    expect(page.locator(".total")).to_have_text("4 changes")
    page.get_by_label("Team").fill("Group:x.")
    expect(page.locator(".total")).to_have_text("2 changes")
    # Suggestions are the teams that contain the text.
    page.get_by_label("Team").fill("a")
    expect(page.locator("datalist option")).to_have_attribute("value", "pay")
    page.goto(f"{url}/#view=compare&since={SINCE}&team=pay")
    expect(page.locator(".flips > li")).to_have_count(2)
    page.get_by_label("Team").fill("ops")
    expect(page.locator(".flipped-classes")).to_contain_text("No class")


def test_who_may_is_filtered_by_team(page: Page, url: str, client: httpx.Client) -> None:
    page.goto(f"{url}/#view=ask&anyone=yes&name=logs.v1")
    classes = page.locator(".classes > tr")
    expect(classes).to_have_count(3)
    page.get_by_label("Team").fill("ops")
    expect(classes).to_have_count(1)
    expect(classes).to_contain_text("User:svc-ops.one")
    query = {"operation": "DESCRIBE", "type": "CLUSTER", "name": "kafka-cluster", "team": "ops"}
    assert client.get("/console/v1/allowed", params=query).json()["total"] == 0


def test_the_palette_finds_teams(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("table.matrix")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("op")
    page.get_by_role("option", name="ops team:").click()
    expect(page.locator("table.matrix thead th")).to_have_count(3)
    assert heads(page) == ["User:svc-ops.one", "User:svc-ops.two"]


def test_a_cell_opens_every_operation_that_it_shows(page: Page, url: str) -> None:
    page.goto(f"{url}/#since={SINCE}&who=pay.")
    page.locator("table.matrix tbody tr", has_text="orders.v1").locator("td button").first.click()
    operations = page.get_by_role("group", name="Operations of the cell").get_by_role("button")
    expect(operations).to_have_text(["✓ Read allowed", "✓ Describe allowed", "✗ Write denied"])
    expect(operations.nth(0)).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")
    assert_accessible(page, "ask-operations")
    operations.nth(2).click()
    expect(page.locator(".result")).to_have_text("✗ DENIED")
    expect(operations.nth(2)).to_have_attribute("aria-pressed", "true")
    # A cell with one operation opens that one only.
    page.goto(f"{url}/#who=svc-ops.two")
    page.locator("table.matrix tbody tr", has_text="metrics.v1").locator("td button").click()
    expect(page.locator(".result")).to_have_text("✗ DENIED")
    expect(operations).to_have_count(0)


def test_names_are_grouped_by_their_pattern(page: Page, url: str, client: httpx.Client) -> None:
    page.goto(url)
    page.get_by_label("teams of names").check()
    names = page.locator("table.matrix tbody tr:not(.spacer) th bdi")
    expect(names).to_have_text(["every name", "logs", "metrics", "orders"])
    logs = page.locator("table.matrix tbody tr", has=page.get_by_role("button", name="logs 2"))
    # The prefix raw-logs also covers raw-logsa.
    expect(logs.locator("th .outside")).to_have_attribute(
        "title", "covers names outside the team, such as raw-logsa"
    )
    expect(page.locator(".legend")).to_contain_text("a prefix of the team covers names outside the team")
    query = {"name_teams": "true", "who": "svc-ops.one"}
    answer = client.get("/console/v1/matrix", params=query).json()
    (at,) = [at for at, row in enumerate(answer["rows"]["items"]) if row.get("team") == "logs"]
    assert answer["rows"]["items"][at]["outside"] == "raw-logsa"
    read, write = (1 << answer["operations"].index(each) for each in ("READ", "WRITE"))
    always, sometimes, _ = answer["cells"][at][0]
    # READ on all of it; WRITE on logs.v1 only.
    assert (always & read, always & write, sometimes & write) == (read, 0, write)
    assert_accessible(page, "matrix-name-teams")
    page.get_by_label("Principals with").fill("svc-ops.one")
    expect(page.locator("table.matrix thead th")).to_have_count(2)
    expect(logs.locator("td .hidden")).to_have_text("Read, Describe; partly Write")
    logs.locator("td button").click()
    expect(names).to_have_text(["logs", "logs.v1", "raw-logs*"])
    page.reload()
    expect(names).to_have_text(["logs", "logs.v1", "raw-logs*"])
    page.get_by_role("navigation", name="Open team of names").get_by_role("button", name="all names").click()
    expect(names).to_have_count(4)
