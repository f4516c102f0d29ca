"""The console's findings: the same as ``aclog lint``, filtered, and turned into a plan that can be undone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Locator, Page, expect

from authorizer.cli.main import cli
from authorizer.node.node import Node
from records.acl import AclOperation
from support.console_page import assert_accessible, console_page
from support.node_acls import acl, is_allowed, on_cluster
from support.nodes import SOON_S, create, running_node, sidecar_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

READ, WRITE = AclOperation.READ, AclOperation.WRITE
HOSTILE = "<script>document.title='taken'</script>"
MANY = 150


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(tmp_path / "log", log_mode="create") as running:
        create(
            running,
            [
                on_cluster(AclOperation.ALTER),
                acl("User:team", READ, "orders.", prefixed=True),
                *(acl("User:team", READ, f"orders.v{number}") for number in range(MANY)),
                acl(f"User:{HOSTILE}", READ, "pay"),
                acl(f"User:{HOSTILE}", READ, "pay", host="10.0.0.1"),
                acl("User:idle", WRITE, "pay", deny=True),
                acl("Group:staff", READ, "pay"),
            ],
        )
        yield running


@pytest.fixture
def url(node: Node) -> Iterator[str]:
    with sidecar_of(node, console_listeners="*") as address:
        yield address


def test_the_findings_are_those_of_aclog_lint(page: Page, url: str, node: Node) -> None:
    result = CliRunner().invoke(cli, ["lint", "--log", node.status().log_url, "--json"])
    *findings, summary = map(json.loads, result.stdout.splitlines())
    with httpx.Client(base_url=f"{url}/console/v1/", timeout=SOON_S) as client:
        first, second = (
            client.get("lint", params={"first": start, "count": 100}).json() for start in (0, 100)
        )
        wrong = client.get("lint", params={"rule": "unknown"})
    assert wrong.status_code == httpx.codes.BAD_REQUEST
    assert first["rules"] == summary["findings"]
    assert (first["acls"], first["acls"] - first["can_go"]) == (summary["acls"], summary["needed"])
    assert first["total"] == len(findings) > MANY
    assert [
        (each["rule"], each["severity"], each["because"], each["acl"], each["by"], each["can_go"])
        for each in first["findings"] + second["findings"]
    ] == [
        (each["finding"], each["severity"], each["reason"], each["acl"], each["by"], each["canGo"])
        for each in findings
    ]

    page.goto(f"{url}/#view=findings")
    expect(page.locator(".total")).to_have_text(f"{len(findings)} findings")
    for rule, number in Counter(each["finding"] for each in findings).items():
        expect(page.get_by_role("button", name=f"{rule} {number}", exact=True)).to_be_visible()
    page.get_by_role("button", name="Next page").click()
    expect(page.locator(".pager")).to_contain_text(f"{len(findings)} of {len(findings)}")
    expect(page.locator("table.list tbody tr")).to_have_count(len(findings) - 100)


def rows(page: Page) -> Locator:
    return page.locator("table.list tbody tr")


def test_findings_are_filtered_and_lead_to_the_acl(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=findings")
    page.get_by_label("Severity").select_option("info")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("DENY User:idle Write on TOPIC pay")
    page.get_by_label("Severity").select_option("")
    page.get_by_label("Principals with").fill("SCRIPT")
    expect(rows(page)).to_have_count(1)
    # The proof, and what happens without the ACL.
    expect(rows(page).locator("li")).to_have_text(f"ALLOW User:{HOSTILE} Read on TOPIC pay from any host")
    expect(rows(page)).to_contain_text("Every request has the same answer without it")
    assert_accessible(page, "findings-1280")
    page.get_by_role("button", name="Show ALLOW").click()
    expect(page.locator("table.list tbody tr", has_text="10.0.0.1")).to_contain_text("broader-twin")
    assert page.title().endswith("aclog")
    page.goto(f"{url}/#view=findings&rule=principal-type")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("Not removable by this finding")


def test_all_removable_acls_are_planned_applied_and_restored_in_8_actions(
    page: Page, url: str, node: Node
) -> None:
    before = node.status().acl_count
    page.goto(url)
    actions = [
        page.get_by_role("button", name="Findings", exact=True),
        page.get_by_role("button", name="Select all removable and preview"),
        page.get_by_role("button", name="Apply…"),
        page.get_by_role("dialog").get_by_role("button", name="Remove"),
    ]
    for action in actions:
        action.click()
    change = page.locator("details.change")
    expect(change.locator(".done")).to_contain_text(f"0 ACLs added, {MANY + 1} ACLs removed")
    assert node.status().acl_count == before - MANY - 1
    assert is_allowed(node, "User:team", READ, "orders.v1")
    expect(page.locator(".counts")).to_contain_text(f"0 of {before - MANY - 1} ACLs can be removed together")
    undo = [
        page.get_by_role("button", name="Undo as a plan"),
        page.get_by_role("button", name="Apply…"),
        page.get_by_role("dialog").get_by_role("button", name="Apply"),
    ]
    for action in undo:
        action.click()
    expect(change.locator(".done")).to_contain_text(f"{MANY + 1} ACLs added, 0 ACLs removed")
    assert len(actions) + len(undo) <= 8
    assert node.status().acl_count == before
    expect(page.locator(".counts")).to_contain_text(f"{MANY + 1} of {before} ACLs can be removed together")


def test_only_the_filtered_acls_are_selected(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=findings&rule=broader-twin&who=script")
    expect(rows(page)).to_have_count(1)
    page.get_by_role("button", name="Select all broader-twin and preview").click()
    pending = page.get_by_role("list", name="Pending change").get_by_role("listitem")
    expect(pending).to_have_count(1)
    expect(page.locator("details.change")).to_contain_text("No class of requests changed")
    expect(rows(page).get_by_role("checkbox")).to_be_checked()
    # The change is held, and the ACLs view shows it.
    page.get_by_role("button", name="ACLs", exact=True).click()
    expect(pending).to_have_count(1)


RULES = """
off = ["principal-type"]
[[accept]]
rules = ["broader-twin", "redundant"]
principal = "User:team"
resource_name = "orders.v1*"
reason = "ticket 1234"
"""


def test_accepted_findings_are_apart_and_the_numbers_are_those_of_aclog_lint(
    chromium: Browser, tmp_path: Path
) -> None:
    rules, log = tmp_path / "lint.toml", tmp_path / "log"
    rules.write_text(RULES, encoding="utf-8")
    with running_node(log, log_mode="create", console_lint_rules=rules) as running:
        create(running, [on_cluster(AclOperation.DESCRIBE)])
        create(
            running,
            [
                acl("User:team", READ, "orders.", prefixed=True),
                *(acl("User:team", READ, f"orders.v{number}") for number in range(30)),
                acl("Group:staff", READ, "pay"),
            ],
        )
        result = CliRunner().invoke(cli, ["lint", "--log", str(log), "--rules", str(rules), "--json"])
        *findings, summary = map(json.loads, result.stdout.splitlines())
        with (
            sidecar_of(running, console_listeners="*") as url,
            console_page(chromium, url, unavailable=True) as page,
        ):
            with httpx.Client(base_url=f"{url}/console/v1/", timeout=SOON_S) as client:
                shown, accepted = (
                    client.get("lint", params=params).json() for params in ({}, {"accepted": True})
                )
                by_acl = client.get("findings").json()
            assert shown["rules"] == summary["findings"]
            assert (shown["total"], shown["accepted"]) == (len(findings), summary["accepted"]) == (19, 12)
            assert (shown["acls"], shown["acls"] - shown["can_go"]) == (summary["acls"], summary["needed"])
            assert accepted["total"] == 12
            assert {each["accepted"] for each in accepted["findings"]} == {"ticket 1234", "the rule is off"}
            assert not any(each["can_go"] for each in accepted["findings"])
            assert len(by_acl) == 19
            page.goto(f"{url}/#view=findings")
            expect(page.locator(".counts")).to_contain_text("12 findings accepted by the file of rules")
            expect(rows(page)).to_have_count(19)
            page.get_by_label("only accepted ones").check()
            expect(page.locator(".total")).to_have_text("12 accepted findings")
            expect(rows(page).first).to_contain_text("Accepted: the rule is off")
            expect(rows(page).last).to_contain_text("Accepted: ticket 1234")
            # The file is read again; an invalid one is named.
            rules.write_text("off = []", encoding="utf-8")
            page.reload()
            expect(page.locator(".total")).to_have_text("0 accepted findings")
            rules.write_text("of = []", encoding="utf-8")
            page.reload()
            expect(page.locator("main .error")).to_contain_text(f"aclog.console.lint.rules: {rules}")


def test_a_report_omits_accepted_findings_and_says_so(tmp_path: Path, node: Node) -> None:
    (tmp_path / "lint.toml").write_text(RULES, encoding="utf-8")
    properties = tmp_path / "aclog.properties"
    properties.write_text(f"aclog.console.lint.rules={tmp_path / 'lint.toml'}", encoding="utf-8")
    arguments = ["report", "--log", node.status().log_url, "--format", "json", "--output", "-"]
    results = [CliRunner().invoke(cli, [*arguments, *more]) for more in ([], ["--config", str(properties)])]
    whole, narrowed = ([json.loads(line) for line in each.stdout.splitlines()] for each in results)
    assert narrowed[0]["report"]["leftOut"] == ["62 findings that the rules of lint accept"]
    assert narrowed[-1]["summary"]["findings"] == whole[-1]["summary"]["findings"] - 62
    (tmp_path / "lint.toml").write_text("of = []", encoding="utf-8")
    wrong = CliRunner().invoke(cli, [*arguments, "--config", str(properties)])
    assert wrong.exit_code == 2
    assert "lint.toml" in wrong.output
