"""Page, commands and HTTP name a state by the offset of its last record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Page, expect

from authorizer.cli.main import cli
from authorizer.node.node import Node
from records.acl import AclOperation
from support.console_page import console_page
from support.node_acls import acl, on_cluster
from support.nodes import create, delete, running_node

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

#: What each record of the log does; the last three are one batch.
ADDED, REMOVED, BATCH, LAST = 1, 3, 4, 6
QUESTION = {
    "principal": "User:alice",
    "operation": "READ",
    "resourceType": "TOPIC",
    "resourceName": "orders",
    "host": "10.0.0.1",
}
ASK_VIEW = "view=ask&principal=User:alice&name=orders&host=10.0.0.1"
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    log = tmp_path_factory.mktemp("offsets") / "log"
    with running_node(log, log_mode="create", describe_principals="User:ANONYMOUS") as running:
        create(running, [on_cluster(AclOperation.DESCRIBE)])
        create(running, [acl("User:alice", AclOperation.READ, "orders")])
        create(running, [acl("User:bob", AclOperation.WRITE, "payments")])
        delete(running, "orders")
        create(running, [acl("User:alice", AclOperation.READ, name) for name in ("a", "orders", "z")])
        assert running.status().end_offset == LAST + 1
        yield running


def checked(node: Node, offset: int) -> dict[str, Any]:
    arguments = ["check", "--log", node.log.url, "--principal", "User:alice", "--operation", "Read"]
    arguments += ["--topic", "orders", "--host", "10.0.0.1", "--at-offset", str(offset), "--json"]
    shown: dict[str, Any] = json.loads(CliRunner().invoke(cli, arguments).stdout)
    return shown


@pytest.mark.long
def test_page_command_and_http_give_an_offset_the_same_meaning(
    page: Page, url: str, client: httpx.Client, node: Node
) -> None:
    expected = {0: "DENIED", ADDED: "ALLOWED", 2: "ALLOWED", REMOVED: "DENIED", LAST: "ALLOWED"}
    for offset, result in expected.items():
        of_command = checked(node, offset)
        assert (of_command["result"], of_command["endOffset"]) == (result, offset + 1)
        for path in ("/v1/explain", "/console/v1/ask"):
            answer = client.get(path, params={**QUESTION, "at_offset": offset}).json()
            assert (answer["result"], answer["endOffset"]) == (result, offset + 1), (path, offset)
        page.goto(f"{url}/#{ASK_VIEW}&at={offset}")
        expect(page.locator(".result")).to_contain_text(result)
        expect(page.locator(".verdict")).to_contain_text(re.compile(rf"as of offset {offset}, {TIME}"))
        if offset != LAST:
            expect(page.locator(".shown-state")).to_contain_text(f"Shown: offset {offset}, ")


@pytest.mark.long
def test_every_decision_change_links_to_its_offset(page: Page, url: str) -> None:
    page.goto(f"{url}/#{ASK_VIEW}")
    turns = page.locator(".history li")
    expect(turns).to_have_count(4)
    assert turns.get_by_role("button").all_inner_texts() == [
        f"offset {LAST}",
        f"offset {REMOVED}",
        f"offset {ADDED}",
    ]
    # The offset is the record's, also if its batch has several.
    expect(turns.first).to_contain_text(f"added at offset {BATCH + 1}")
    turns.nth(2).get_by_role("button").click()
    expect(page).to_have_url(re.compile(f"at={ADDED}$"))
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")


@pytest.mark.long
def test_the_state_before_the_first_record_is_named_start(page: Page, url: str) -> None:
    page.goto(f"{url}/#{ASK_VIEW}&at=0")
    expect(page.locator(".shown-state")).to_contain_text("Shown: offset 0, ")
    page.locator("h1").click()
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile("at=start$"))
    expect(page.locator(".shown-state")).to_contain_text("Shown: the start, before the first record, 0 ACLs")
    expect(page.locator(".result")).to_have_text("✗ DENIED")


@pytest.mark.long
def test_there_is_no_state_inside_a_batch(chromium: Browser, url: str, client: httpx.Client) -> None:
    """A batch becomes visible atomically (I2), so there are no decisions inside it."""
    for offset in (BATCH, BATCH + 1):
        for path in ("/v1/explain", "/console/v1/ask"):
            refused = client.get(path, params={**QUESTION, "at_offset": offset})
            assert (refused.status_code, refused.json()["code"]) == (410, "OFFSET_NOT_HELD"), path
    with console_page(chromium, url, unavailable=True) as page:
        page.goto(f"{url}/#{ASK_VIEW}&at={BATCH + 1}")
        expect(page.locator("main .error")).to_contain_text(
            f"There was no state at offset {BATCH + 1}: the records {BATCH} to {LAST} became visible "
            f"together. Use offset {REMOVED} or {LAST}"
        )
        expect(page.locator(".result")).to_have_count(0)
        expect(page.locator(".shown-state")).to_contain_text(
            f"inside a batch with the offsets {BATCH} to {LAST}"
        )


@pytest.mark.long
def test_a_removal_has_the_offset_of_its_record(page: Page, url: str) -> None:
    page.goto(f"{url}/#since=0&at={REMOVED}")
    removed = page.locator(".changes li.removed")
    expect(removed).to_have_count(1)
    expect(removed).to_contain_text(f"removed at offset {REMOVED},")
    expect(page.locator(".changes li.added").last).to_contain_text(f"added at offset {ADDED},")


def test_each_removal_of_a_batch_has_its_own_offset(client: httpx.Client, node: Node) -> None:
    create(
        node, [acl("User:dora", operation, "many") for operation in (AclOperation.READ, AclOperation.WRITE)]
    )
    end = node.status().end_offset
    delete(node, "many")
    lines = client.get("/console/v1/changes", params={"after": end - 1}).json()["changes"]
    assert sorted((each["kind"], each["offset"], each["end_offset"]) for each in lines) == [
        ("removed", end, end + 2),
        ("removed", end + 1, end + 2),
    ]
    report = CliRunner().invoke(
        cli, ["report", "--log", node.log.url, "--since", str(end - 1), "--format", "json", "--output", "-"]
    )
    changes = [json.loads(line) for line in report.stdout.splitlines() if line.startswith('{"change"')]
    assert sorted((each["offset"], each["endOffset"]) for each in changes) == [
        (end, end + 2),
        (end + 1, end + 2),
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("at=abc", "at=abc in the URL is not an offset"),
        ("at=-1", "at=-1 in the URL is not an offset"),
        ("at=1e3", "at=1e3 in the URL is not an offset"),
        ("at=999999", "at=999999 in the URL is beyond the end of the log: the last record here has offset"),
        ("at=99999999999999999999", "is not an offset"),
        ("since=abc", "since=abc in the URL is not an offset"),
        ("type=SHOE", "type=SHOE in the URL is not one of TOPIC, GROUP"),
        ("operation=FLY", "operation=FLY in the URL is not one of READ, WRITE"),
    ],
)
def test_invalid_url_parameters_are_reported_and_the_current_state_is_shown(
    page: Page, url: str, node: Node, given: str, says: str
) -> None:
    name = given.partition("=")[0]
    views = [("matrix", "table.matrix"), (ASK_VIEW[5:], ".result")]
    # The ACLs view has neither a type nor an operation.
    if name in ("at", "since"):
        views.append(("acls", "table.list"))
    for view, ready in views:
        page.goto("about:blank")
        page.goto(f"{url}/#view={view}&{given}")
        expect(page.locator("main .error")).to_have_count(1)
        expect(page.locator("main .error")).to_contain_text(says)
        expect(page.locator(ready)).to_be_visible()
        expect(page.locator(".shown-state")).to_contain_text(f"Now: offset {node.status().end_offset - 1}, ")
        whole = page.locator("body").inner_text()
        assert not re.search(r"NaN|undefined|Expected `|null", whole), whole
    page.get_by_role("button", name=f"Remove {name} from the URL").click()
    expect(page.locator(".error")).to_have_count(0)


@pytest.mark.long
def test_other_numbers_of_the_url_fall_back_to_the_first(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=acls&first=abc")
    expect(page.locator("table.list tbody tr").first).to_be_visible()
    page.goto(f"{url}/#column=abc")
    expect(page.locator("table.matrix")).to_be_visible()
    assert "NaN" not in page.locator("body").inner_text()
