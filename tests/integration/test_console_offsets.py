"""Offsets have one meaning: a state is named by its last record, on the page, in commands and over HTTP."""

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
from support.nodes import SOON_S, create, delete, running_node, sidecar_of

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
ASKED = "view=ask&principal=User:alice&name=orders&host=10.0.0.1"
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


@pytest.fixture(scope="module")
def url(node: Node) -> Iterator[str]:
    with sidecar_of(node, console_listeners="*") as address:
        yield address


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=SOON_S) as asking:
        yield asking


def checked(node: Node, offset: int) -> dict[str, Any]:
    arguments = ["check", "--log", node.log.url, "--principal", "User:alice", "--operation", "Read"]
    arguments += ["--topic", "orders", "--host", "10.0.0.1", "--at-offset", str(offset), "--json"]
    shown: dict[str, Any] = json.loads(CliRunner().invoke(cli, arguments).stdout)
    return shown


@pytest.mark.long
def test_an_offset_means_the_same_to_the_page_the_command_and_over_http(
    page: Page, url: str, client: httpx.Client, node: Node
) -> None:
    expected = {0: "DENIED", ADDED: "ALLOWED", 2: "ALLOWED", REMOVED: "DENIED", LAST: "ALLOWED"}
    for offset, result in expected.items():
        of_command = checked(node, offset)
        assert (of_command["result"], of_command["endOffset"]) == (result, offset + 1)
        for path in ("/v1/explain", "/console/v1/ask"):
            answer = client.get(path, params={**QUESTION, "at_offset": offset}).json()
            assert (answer["result"], answer["endOffset"]) == (result, offset + 1), (path, offset)
        page.goto(f"{url}/#{ASKED}&at={offset}")
        expect(page.locator(".result")).to_contain_text(result)
        expect(page.locator(".verdict")).to_contain_text(re.compile(rf"as of offset {offset}, {TIME}"))
        if offset != LAST:
            expect(page.locator(".moment")).to_contain_text(f"Then: offset {offset}, ")


@pytest.mark.long
def test_every_change_of_an_answer_is_reached_by_its_offset(page: Page, url: str) -> None:
    page.goto(f"{url}/#{ASKED}")
    turns = page.locator(".turns li")
    expect(turns).to_have_count(4)
    assert turns.get_by_role("button").all_inner_texts() == [
        f"offset {LAST}",
        f"offset {REMOVED}",
        f"offset {ADDED}",
    ]
    # The record itself, where its batch has others.
    expect(turns.first).to_contain_text(f"added at offset {BATCH + 1}")
    turns.nth(2).get_by_role("button").click()
    expect(page).to_have_url(re.compile(f"at={ADDED}$"))
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")


@pytest.mark.long
def test_the_state_before_the_first_record_is_named_start(page: Page, url: str) -> None:
    page.goto(f"{url}/#{ASKED}&at=0")
    expect(page.locator(".moment")).to_contain_text("Then: offset 0, ")
    page.locator("h1").click()
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile("at=start$"))
    expect(page.locator(".moment")).to_contain_text("Then: the start, before the first record, 0 ACLs")
    expect(page.locator(".result")).to_have_text("✗ DENIED")


@pytest.mark.long
def test_within_a_batch_there_was_no_state(chromium: Browser, url: str, client: httpx.Client) -> None:
    """A batch becomes visible whole (I2), so no answer is given that no node ever gave."""
    for offset in (BATCH, BATCH + 1):
        for path in ("/v1/explain", "/console/v1/ask"):
            refused = client.get(path, params={**QUESTION, "at_offset": offset})
            assert (refused.status_code, refused.json()["code"]) == (410, "OFFSET_NOT_HELD"), path
    with console_page(chromium, url, unavailable=True) as page:
        page.goto(f"{url}/#{ASKED}&at={BATCH + 1}")
        expect(page.locator("main .error")).to_contain_text(
            f"There was no state at offset {BATCH + 1}: the records {BATCH} to {LAST} became visible "
            f"together. Use offset {REMOVED} or {LAST}"
        )
        expect(page.locator(".result")).to_have_count(0)
        expect(page.locator(".moment")).to_contain_text(f"inside a batch, of the offsets {BATCH} to {LAST}")


@pytest.mark.long
def test_a_removal_has_the_offset_of_the_record_that_removed(page: Page, url: str) -> None:
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
        ("at=abc", "at=abc in the URL is no offset"),
        ("at=-1", "at=-1 in the URL is no offset"),
        ("at=1e3", "at=1e3 in the URL is no offset"),
        ("at=999999", "at=999999 in the URL is beyond the end of the log: the last record here has offset"),
        ("at=99999999999999999999", "is no offset"),
        ("since=abc", "since=abc in the URL is no offset"),
        ("type=SHOE", "type=SHOE in the URL is none of TOPIC, GROUP"),
        ("operation=FLY", "operation=FLY in the URL is none of READ, WRITE"),
    ],
)
def test_what_the_url_says_wrong_is_named_and_now_is_shown(
    page: Page, url: str, node: Node, given: str, says: str
) -> None:
    name = given.partition("=")[0]
    for view, ready in (("matrix", "table.matrix"), ("acls", "table.list"), (ASKED[5:], ".result")):
        page.goto("about:blank")
        page.goto(f"{url}/#view={view}&{given}")
        expect(page.locator("main .error")).to_have_count(1)
        expect(page.locator("main .error")).to_contain_text(says)
        expect(page.locator(ready)).to_be_visible()
        expect(page.locator(".moment")).to_contain_text(f"Now: offset {node.status().end_offset - 1}, ")
        whole = page.locator("body").inner_text()
        assert not re.search(r"NaN|undefined|Expected `|null", whole), whole
    page.get_by_role("button", name=f"take {name} out of the URL").click()
    expect(page.locator(".error")).to_have_count(0)


@pytest.mark.long
def test_other_numbers_of_the_url_fall_back_to_the_first(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=acls&first=abc")
    expect(page.locator("table.list tbody tr").first).to_be_visible()
    page.goto(f"{url}/#column=abc")
    expect(page.locator("table.matrix")).to_be_visible()
    assert "NaN" not in page.locator("body").inner_text()
