"""The console keeps input that is not sent: over a reload, and while its node is killed and started again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from authorizer.node.node import Node
from records.acl import AclOperation
from support.console_page import console_page
from support.node_acls import acl, on_cluster
from support.nodes import SOON_S, create, running_node, sidecar_of
from support.serving_process import serving_process
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

READ = AclOperation.READ
BINDINGS: Final = [
    on_cluster(AclOperation.ALTER),
    acl("User:alice", READ, "orders"),
    acl("User:team", READ, "pay.", prefixed=True),
    acl("User:team", READ, "pay.v1"),
]
AWAY: Final = re.compile(r"not reachable \(since \d\d:\d\d:\d\d UTC\), retrying… The last answer is shown\.")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(tmp_path / "log", log_mode="create") as running:
        create(running, BINDINGS)
        yield running


@pytest.fixture
def url(node: Node) -> Iterator[str]:
    with sidecar_of(node, console_listeners="*") as address:
        yield address


def pending(page: Page) -> Locator:
    return page.get_by_role("list", name="Pending change").get_by_role("listitem")


def test_edits_and_half_filled_forms_survive_a_reload(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=acls")
    page.get_by_label("Remove ALLOW User:alice Read on TOPIC orders from any host").check()
    form = page.get_by_role("form", name="Add an ACL")
    form.get_by_label("Principal").fill("User:a\u202eb")
    form.get_by_label("Operation").select_option("WRITE")
    form.get_by_label("Type").select_option("GROUP")
    form.get_by_label("Name").fill("half")
    page.reload()
    expect(pending(page)).to_have_count(1)
    expect(page.get_by_label("Remove ALLOW User:alice Read on TOPIC orders from any host")).to_be_checked()
    for label, value in (
        ("Principal", "User:a\u202eb"),
        ("Operation", "WRITE"),
        ("Type", "GROUP"),
        ("Name", "half"),
    ):
        expect(form.get_by_label(label)).to_have_value(value)
    # Pasted changes that were not previewed.
    page.goto(f"{url}/#view=compare&with=changes")
    page.get_by_label("Changes in a format of aclog plan").fill("--remove --topic orders")
    page.reload()
    expect(page.get_by_label("Changes in a format of aclog plan")).to_have_value("--remove --topic orders")
    # A link's text comes before the draft of another one.
    page.goto(f"{url}/#view=compare&with=changes&changes=--remove+--topic+other")
    page.reload()
    expect(page.get_by_label("Changes in a format of aclog plan")).to_have_value("--remove --topic other")
    # So does what was applied, with its opposite.
    page.goto(f"{url}/#view=acls")
    page.get_by_role("button", name="Preview", exact=True).click()
    page.get_by_role("button", name="Apply…").click()
    page.get_by_role("dialog").get_by_role("button", name="Apply").click()
    expect(page.locator(".done")).to_contain_text("1 ACL removed")
    page.reload()
    expect(pending(page)).to_have_count(0)
    page.get_by_role("button", name="Undo as a plan").click()
    expect(pending(page)).to_have_text(re.compile(r"\+.*User:alice Read on TOPIC orders"))


# A visible text box of megabytes takes the browser seconds to lay out.
HIDE_TEXT_BOXES: Final = """addEventListener("DOMContentLoaded", () => {
    const style = document.createElement("style");
    style.textContent = "textarea { display: none; }";
    document.head.append(style);
});"""
TYPE_TEXT: Final = """(box, text) => {
    box.value = text;
    box.dispatchEvent(new Event("input", { bubbles: true }));
}"""
HAS_LENGTH: Final = "length => document.querySelector('textarea')?.value.length === length"
HAS_LARGE_TEXT: Final = "Object.keys(sessionStorage).some((each) => each.startsWith('aclog-large '))"
HAS_NO_STORED_TEXT: Final = """async () => {
    const completed = (request) => new Promise((resolve) => {
        request.onsuccess = () => resolve(request.result);
    });
    const database = await completed(indexedDB.open("aclog-drafts"));
    const count = await completed(database.transaction("texts").objectStore("texts").count());
    database.close();
    return count === 0;
}"""


def test_a_text_beyond_session_storage_survives_a_reload(page: Page, url: str) -> None:
    text = "--add --allow-principal User:alice --operation Read --topic orders\n" * 90_000
    page.add_init_script(HIDE_TEXT_BOXES)
    page.goto(f"{url}/#view=compare&with=changes")
    box = page.locator("textarea")
    box.evaluate(TYPE_TEXT, text)
    page.wait_for_function(HAS_LARGE_TEXT)
    for _ in range(2):
        page.reload()
        page.wait_for_function(HAS_LENGTH, arg=len(text))
    # Another view, and back.
    page.get_by_role("button", name="Node", exact=True).click()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_function(HAS_LENGTH, arg=len(text))
    # Another tab has its own input.
    other = page.context.new_page()
    other.goto(f"{url}/#view=compare&with=changes")
    expect(other.locator("textarea")).to_have_value("")
    other.close()
    # A short text replaces it, and no other is left.
    box.evaluate(TYPE_TEXT, "--remove --topic orders")
    page.wait_for_function(f"!{HAS_LARGE_TEXT}")
    page.reload()
    expect(box).to_have_value("--remove --topic orders")
    page.wait_for_function(HAS_NO_STORED_TEXT)


@pytest.mark.long
def test_another_tab_and_another_view_have_no_part_of_the_input(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=acls")
    page.get_by_label("Remove ALLOW User:alice Read on TOPIC orders from any host").check()
    page.get_by_role("button", name="Findings", exact=True).click()
    expect(pending(page)).to_have_count(1)
    other = page.context.new_page()
    other.goto(f"{url}/#view=acls")
    expect(other.locator("table.list")).to_be_visible()
    expect(pending(other)).to_have_count(0)
    page.get_by_role("button", name="Discard").click()
    page.reload()
    expect(page.locator("table.list")).to_be_visible()
    expect(pending(page)).to_have_count(0)


@contextmanager
def served(tmp_path: Path, url: str | None = None) -> Iterator[str]:
    """A process that serves the log, at ``url`` again; it is killed at the end."""
    tmp_path.mkdir(exist_ok=True)
    listener = f"PLAINTEXT://{url.removeprefix('http://') if url else '127.0.0.1:0'}"
    log = str(tmp_path.parent / "log")
    with serving_process(tmp_path, "--console", log=log, ACLOG_LISTENERS=listener) as (_, urls):
        yield urls[0]
    wait_until(lambda: not _is_listening(urls[0]))


def _is_listening(url: str) -> bool:
    """The workers outlive the process that started them for a moment."""
    try:
        httpx.get(f"{url}/livez", timeout=SOON_S)
    except httpx.TransportError:
        return False
    return True


@pytest.mark.long
def test_a_node_killed_in_the_middle_of_each_task_loses_no_input(chromium: Browser, tmp_path: Path) -> None:
    with running_node(tmp_path / "log", log_mode="create") as running:
        create(running, BINDINGS)
    with served(tmp_path / "first") as url:
        pass
    with console_page(chromium, url, unavailable=True) as page:
        # On call: the palette.
        with served(tmp_path / "second", url):
            page.goto(url)
            expect(page.locator("table.matrix")).to_be_visible()
            page.keyboard.press("/")
            page.keyboard.type("alice")
            expect(page.locator(".palette li").first).to_contain_text("User:alice")
        page.keyboard.type(" orders")
        expect(page.locator("main").get_by_text(AWAY)).to_be_visible()
        expect(page.locator("main.stale table.matrix")).to_be_visible()
        with served(tmp_path / "third", url):
            expect(page.locator(".palette li").first).to_contain_text("May User:alice Read Topic orders?")
            page.keyboard.press("Enter")
            expect(page.locator(".result")).to_have_text("✓ ALLOWED")
            # An auditor: who may.
            page.get_by_label("Principal", exact=True).fill("")
            page.get_by_label("Which names").select_option("yes")
            page.get_by_label("Resource name").fill("pay.")
            expect(page.locator(".classes > tr", has_text="User:team").first).to_be_visible()
        expect(page.get_by_role("alert")).to_have_text(AWAY)
        expect(page.locator(".classes > tr", has_text="User:team").first).to_be_visible()
        with served(tmp_path / "fourth", url):
            expect(page.get_by_role("alert")).to_have_count(0)
            with page.expect_download():
                page.get_by_role("button", name="CSV", exact=True).click()
            # An owner: the change is confirmed after the node was killed.
            page.get_by_role("button", name="Findings", exact=True).click()
            page.get_by_role("button", name="Select all removable and preview").click()
            page.get_by_role("button", name="Apply…").click()
        page.get_by_role("dialog").get_by_role("button", name="Apply").click()
        expect(page.locator("details.change").get_by_role("alert")).to_contain_text(
            "it is unknown whether the change was applied"
        )
        expect(pending(page)).to_have_count(1)
        with served(tmp_path / "fifth", url):
            page.reload()
            expect(pending(page)).to_have_count(1)
            page.get_by_role("button", name="Preview", exact=True).click()
            page.get_by_role("button", name="Apply…").click()
            page.get_by_role("dialog").get_by_role("button", name="Apply").click()
            expect(page.locator(".done")).to_contain_text("0 ACLs added, 1 ACL removed")
        with served(tmp_path / "sixth", url):
            page.reload()
            page.get_by_role("button", name="Undo as a plan").click()
            page.get_by_role("button", name="Apply…").click()
            page.get_by_role("dialog").get_by_role("button", name="Apply").click()
            expect(page.locator(".done")).to_contain_text("1 ACL added, 0 ACLs removed")
