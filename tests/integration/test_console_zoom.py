"""The console during a log scan, and navigation from teams to one topic and back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from authorizer.console.history import history_scan
from authorizer.console.routes.matrix_window import MEMBERS_MAXIMUM
from authorizer.node.node import Node
from records.acl import (
    AclOperation,
)
from support.console_page import LOOKS, ColorScheme, assert_accessible, console_page
from support.node_acls import acl, on_cluster
from support.nodes import SOON_S, create, running_node, sidecar_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

READ, WRITE = AclOperation.READ, AclOperation.WRITE
TEAMS, MEMBERS = 30, 4


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Teams that read below a prefix; the first member of each writes one topic."""
    log = tmp_path_factory.mktemp("console") / "log"
    with running_node(log, log_mode="create") as running:
        create(running, [on_cluster(AclOperation.DESCRIBE)])
        bindings = []
        for team in range(TEAMS):
            bindings.append(acl(f"User:team{team}.0", WRITE, f"orders.eu.t{team}"))
            bindings += [
                acl(f"User:team{team}.{member}", READ, f"orders.eu.t{team}", prefixed=True)
                for member in range(MEMBERS)
            ]
        bindings += [acl(f"User:many.{number}", READ, "many") for number in range(MEMBERS_MAXIMUM + 1)]
        create(running, bindings)
        for number in range(12):
            create(running, [acl("User:team0.0", READ, f"later.{number}")])
    # A node that was started later holds no earlier states.
    with running_node(log) as running:
        yield running


@pytest.mark.long
def test_the_matrix_is_shown_during_the_log_scan(
    chromium: Browser, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, extend = threading.Event(), history_scan.HistoryScan.extend

    def wait_after_the_first_part(scan: history_scan.HistoryScan) -> None:
        if scan.has_begun:
            gate.wait(SOON_S)
        extend(scan)

    monkeypatch.setattr(history_scan.HistoryScan, "extend", wait_after_the_first_part)
    monkeypatch.setattr(history_scan, "FIRST_PART_OFFSETS", 4)
    monkeypatch.setattr(history_scan, "PART_OFFSETS", 4)
    end = node.status().end_offset
    # Chromium logs the 410 answers as errors, so this is not a `console_page`.
    with sidecar_of(node, console_listeners="*") as url, chromium.new_context(bypass_csp=True) as context:
        page = context.new_page()
        page.set_default_timeout(SOON_S * 1000)
        try:
            page.goto(f"{url}/#containing=later.")
            expect(page.locator("table.matrix tbody th")).to_have_count(2)
            expect(page.locator(".progress")).to_have_attribute("aria-live", "polite")
            expect(page.locator(".progress")).to_contain_text(f"of {end:,} records")
            assert_accessible(page, "progress-1280-light")
            # Known states can be shown; an unknown one gets an error.
            page.locator("h1").click()
            page.keyboard.press("ArrowLeft")
            expect(page.locator(".shown-state")).to_contain_text(f"offset {end - 2},")
            early = end - 13
            page.goto(f"{url}/#at={early}&who=team0.0&containing=later.")
            expect(page.get_by_role("alert")).to_contain_text("is not known yet")
        finally:
            gate.set()
        expect(page.locator(".progress")).to_have_count(0)
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.locator("table.matrix")).to_have_attribute("data-offset", str(early))


def test_idle_states_are_dropped_and_scanned_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    cleared, clear = threading.Event(), history_scan.HistoryScan.clear

    def clear_and_record(scan: history_scan.HistoryScan) -> None:
        clear(scan)
        cleared.set()

    monkeypatch.setattr(history_scan, "IDLE_TTL_S", 0.01)
    with sidecar_of(node, console_listeners="*") as url, httpx.Client(base_url=url, timeout=SOON_S) as client:
        first = complete_history(client)
        monkeypatch.setattr(history_scan.HistoryScan, "clear", clear_and_record)
        client.get("/console/v1/moments")
        assert cleared.wait(SOON_S)
        monkeypatch.setattr(history_scan, "IDLE_TTL_S", SOON_S)
        assert complete_history(client) == first


def test_the_scan_ends_with_the_sidecar(node: Node) -> None:
    before = set(threading.enumerate())
    with sidecar_of(node, console_listeners="*") as url, httpx.Client(base_url=url, timeout=SOON_S) as client:
        complete_history(client)
        (scan_thread,) = (
            each for each in set(threading.enumerate()) - before if each.name == "aclog-console-scan"
        )
    scan_thread.join(SOON_S)
    assert not scan_thread.is_alive()


def complete_history(client: httpx.Client) -> list[int]:
    while True:
        found = client.get("/console/v1/moments").json()
        if found["is_whole"]:
            return [each["end_offset"] for each in found["moments"]]


@pytest.mark.long
def test_rows_open_down_to_one_topic_with_breadcrumbs(page: Page, url: str) -> None:
    page.goto(url)
    page.get_by_role("button", name="orders.*").press("Enter")
    page.locator("table.matrix tbody th", has_text="orders.eu.*").dblclick()
    expect(page.locator("table.matrix tbody th", has_text="orders.eu.t10").first).to_be_visible()
    way = page.get_by_label("Open rows").get_by_role("button")
    expect(way).to_have_text(["all names", "orders.", "orders.eu."])
    way.nth(1).click()
    expect(way).to_have_text(["all names", "orders."])
    way.nth(0).click()
    expect(page.get_by_role("button", name="many")).to_have_count(0)
    expect(page.get_by_label("Open rows")).to_have_count(0)


@pytest.mark.long
def test_columns_are_grouped_by_team(page: Page, url: str) -> None:
    page.goto(f"{url}/#under=orders.eu.")
    page.get_by_label("by team").check()
    head = page.locator("table.matrix thead")
    expect(head).to_contain_text("User:team0.*")
    expect(page.locator(".counts")).to_contain_text(f"{TEAMS + 2} columns")
    heads = head.locator("th").all_inner_texts()
    cell = (
        page.locator("tr", has_text="orders.eu.t0")
        .first.locator("td:not(.pad)")
        .nth(next(at for at, each in enumerate(heads) if each.startswith("User:team0.*")) - 1)
    )
    expect(cell.locator(".hidden")).to_have_text("all of them Read, Describe; partly Write")
    # A cell with too many principals says so.
    many = next(at for at, each in enumerate(heads) if each.startswith("User:many.*"))
    too_many = page.locator("tr", has_text="orders.eu.*").first.locator("td:not(.pad)").nth(many - 1)
    expect(too_many.locator(".hidden")).to_contain_text("too many to aggregate")
    cell.get_by_role("button").click()
    expect(head.locator("th")).to_have_count(1 + MEMBERS)
    expect(page.get_by_label("Open columns").get_by_role("button")).to_have_text(
        ["all principals", "User:team0."]
    )
    page.get_by_label("Open columns").get_by_role("button").first.click()
    expect(head).to_contain_text("User:team1.*")


@pytest.mark.long
def test_columns_are_loaded_when_scrolled_to(page: Page, url: str) -> None:
    page.goto(url)
    head = page.locator("table.matrix thead")
    expect(head).to_contain_text("User:many.1")
    expect(head).not_to_contain_text("User:team9.3")
    page.get_by_role("region", name="Rows").evaluate("each => each.scrollTo({ left: each.scrollWidth })")
    expect(head).to_contain_text("User:team9.3")
    assert head.locator("th").count() < 60
    expect(page.locator("td .hidden").first).to_be_attached()
    # The URL has the scroll position, too.
    page.wait_for_url("**column=**")
    pasted = page.url
    page.goto("about:blank")
    page.goto(pasted)
    expect(head).to_contain_text("User:team9.3")
    for _ in range(3):
        page.get_by_label("Previous principals").click()
    expect(head).to_contain_text("User:team5.")


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_teams_are_accessible(chromium: Browser, url: str, width: int, scheme: ColorScheme) -> None:
    with console_page(chromium, url, width=width, color_scheme=scheme) as page:
        page.goto(f"{url}/#under=orders.eu.&teams=yes&team=User:team1.")
        expect(page.locator("table.matrix thead")).to_contain_text("User:team1.0")
        expect(page.locator(".shown-state")).to_be_visible()
        assert_accessible(page, f"teams-{width}-{scheme}")
