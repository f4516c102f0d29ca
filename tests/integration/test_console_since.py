"""Since when each principal may: the console's table, compared with the decisions at every offset."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from authorizer.configuration.load import load_config
from authorizer.console.routes import allowed
from authorizer.node.node import Node
from records.acl import AclOperation
from records.entries import MetadataRecord
from support.console_page import LOOKS, ColorScheme, assert_accessible, console_page
from support.dated_logs import added, date_ms, removed, write_dated_log
from support.node_acls import acl, on_cluster
from support.nodes import SOON_S, running_node, sidecar_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

READ = AclOperation.READ
DAY_MS = 86_400_000
HOSTILE = 'User:<i>"a",\u202eb'
DENIAL = acl("User:*", READ, "payments.cards", deny=True)
LEFT = acl("User:left", READ, "payments.", prefixed=True)
BACK = acl("User:back", READ, "payments.", prefixed=True)


def _quarters() -> tuple[int, int]:
    """The begin and the end of the last quarter."""
    now = time.gmtime()
    month = now.tm_mon - (now.tm_mon - 1) % 3
    years, last_month = divmod(month - 1 - 3, 12)
    return date_ms(now.tm_year + years, last_month + 1, 1), date_ms(now.tm_year, month, 1)


def _steps() -> list[tuple[int, Sequence[MetadataRecord]]]:
    begin_ms, end_ms = _quarters()
    return [
        (begin_ms - 90 * DAY_MS, [added(on_cluster(AclOperation.DESCRIBE)), added(DENIAL)]),
        (begin_ms - 80 * DAY_MS, [added(acl("User:old", READ, "payments.", prefixed=True)), added(BACK)]),
        (begin_ms - 70 * DAY_MS, [added(LEFT), added(acl("User:exact", READ, "payments.cards"))]),
        (begin_ms - 60 * DAY_MS, [added(acl("User:host", READ, "payments.v1", host="10.0.0.1"))]),
        (begin_ms + 10 * DAY_MS, [removed(BACK)]),
        (begin_ms + 20 * DAY_MS, [removed(DENIAL), added(acl(HOSTILE, AclOperation.ALL, "*"))]),
        (begin_ms + 30 * DAY_MS, [added(BACK), removed(LEFT)]),
        (begin_ms + 40 * DAY_MS, [added(acl("User:old", READ, "payments.v1"))]),
        (end_ms + 1000, [added(acl("User:new", READ, "payments.", prefixed=True))]),
    ]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("since") / "log"
    write_dated_log(directory, _steps())
    with running_node(directory) as running:
        yield running


def _first_end_offset(client: httpx.Client, witness: dict[str, str], ends: list[int], answer: str) -> int:
    """The first of the states, to the last one, in all of which the request has this answer."""
    found = ends[-1]
    for end in reversed(ends):
        query: dict[str, str | int] = {
            "principal": witness["principal"],
            "host": witness["host"],
            "operation": "READ",
            "resourceType": "TOPIC",
            "resourceName": witness["name"],
            "at_offset": end - 1,
        }
        if client.get("/console/v1/ask", params=query).json()["result"] != answer:
            return found
        found = end
    return found


@pytest.mark.parametrize("query", [{"prefix": True}, {"prefix": True, "principal": "User:back"}])
@pytest.mark.parametrize("at", [None, 9])
def test_since_equals_the_decisions_at_every_offset(
    client: httpx.Client, query: dict[str, str | bool], at: int | None
) -> None:
    access: dict[str, str | bool | int] = {"operation": "READ", "name": "payments.", **query}
    if at is not None:
        access["at_offset"] = at
    ends = [each["end_offset"] for each in client.get("/console/v1/moments").json()["moments"]]
    ends = [end for end in ends if at is None or end <= at + 1]
    found = client.get("/console/v1/allowed", params=access).json()["classes"]
    assert found
    for each in found:
        answer = "ALLOWED" if each["allowed"] else "DENIED"
        first = _first_end_offset(client, each["witness"], ends, answer)
        assert each["since"]["end_offset"] == first, each
        assert each["since"]["known"] is (first != ends[0])


def test_with_allow_everyone_the_acls_of_others_count(tmp_path: Path) -> None:
    """Without ACLs everyone is allowed; the first ACL of another principal ends that."""
    other = acl("User:other", READ, "payments.v1")
    write_dated_log(
        tmp_path / "log",
        [
            (date_ms(2026, 1, 1), [added(on_cluster(AclOperation.DESCRIBE))]),
            (date_ms(2026, 2, 1), [added(other)]),
            (date_ms(2026, 3, 1), [removed(other)]),
        ],
    )
    properties = tmp_path / "aclog.properties"
    properties.write_text("allow.everyone.if.no.acl.found=true\n", encoding="utf-8")
    config = load_config(properties, environ={}, flags={"aclog.log.url": str(tmp_path / "log")})
    with (
        Node.open(config) as node,
        sidecar_of(node, console_listeners="*") as url,
        httpx.Client(base_url=url, timeout=SOON_S) as client,
    ):
        node.start()
        assert node.wait_until_ready(SOON_S)
        query = {"operation": "READ", "name": "payments.v1", "principal": "User:me"}
        (found,) = client.get("/console/v1/allowed", params=query).json()["classes"]
        assert found["since"] == {"known": True, "end_offset": 3, "timestamp": date_ms(2026, 3, 1)}


def test_an_auditor_needs_six_actions(page: Page, url: str, client: httpx.Client) -> None:
    """Who could read payments.* in the last quarter, and since when; as a file."""
    page.goto(url)
    expect(page.locator("table.matrix")).to_be_visible()
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_label("Principal", exact=True).fill("")
    page.get_by_label("Which names").select_option("yes")
    page.get_by_label("Resource name").fill("payments.")
    page.get_by_label("Period").select_option(label="the last quarter")
    expect(page.locator(".shown-state")).to_contain_text("Shown: offset 12,")
    expect(page.locator(".classes > tr", has_text="User:new")).to_have_count(0)
    expect(page.locator(".classes > tr", has_text="in this period").first).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).click()
    rows = list(csv.DictReader(Path(download.value.path()).read_text(encoding="utf-8").splitlines()))
    answer = client.get(
        "/console/v1/allowed",
        params={"operation": "READ", "name": "payments.", "prefix": True, "at_offset": 12},
    ).json()
    assert [row["who"] for row in rows] == [each["who"] for each in answer["classes"]]
    assert {row["who"] for row in rows} >= {"User:old", "User:back", "User:exact", "User:host", HOSTILE}
    begin_ms, _ = _quarters()
    days = {"User:old": -80, "User:back": 30, "User:exact": 20, "User:host": -60, HOSTILE: 20}
    for row in rows:
        since = time.strftime(
            "%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(begin_ms / 1000 + days[row["who"]] * 86400)
        )
        assert row["since"] in (since, since.replace(".000", "")) or row["who"] == "User:old", row
        assert row["principal"] == row["who"]
    # Who could at the begin of the quarter and not at its end.
    page.get_by_role("button", name="what was revoked in the period").click()
    expect(page.locator(".flips li")).to_have_count(1)
    expect(page.locator(".flips li")).to_contain_text("User:left")


def test_what_was_undone_in_the_period_is_listed(page: Page, url: str, client: httpx.Client) -> None:
    """User:back was removed and added again; nothing else came back or went again."""
    page.goto(f"{url}/#view=changes&since=6")
    page.get_by_label("only what was undone in the period").check()
    expect(page.locator(".total")).to_have_text("2 changes")
    expect(page.locator(".changes li", has_text="ALLOW User:back")).to_have_count(2)
    expect(page).to_have_url(re.compile("temporary=yes"))
    # After its removal it was added once. Of all records User:left and the DENY came and went.
    for after, total in ((7, 0), (-1, 4)):
        query: dict[str, str | int] = {"after": after, "temporary": "true"}
        found = client.get("/console/v1/changes", params=query).json()
        assert found["total"] == total, found


def test_the_table_is_sorted_and_filtered(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=ask&anyone=yes&name=payments.&prefix=yes")
    page.get_by_role("button", name="Since when").click()
    rows = page.locator(".classes > tr")
    expect(rows.first).to_contain_text("User:new")
    page.get_by_role("button", name="Principal").click()
    expect(rows.first).to_contain_text('User:<i>"a",\\u{202e}b')
    page.get_by_label("Principals with").fill("BACK")
    expect(rows).to_have_count(1)
    # The date shows the state.
    rows.first.locator(".since-when button").click()
    expect(page).to_have_url(re.compile("at=1[0-9]"))


def test_without_time_left_the_request_is_to_be_checked(
    page: Page, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allowed, "SINCE_LIMIT_S", -1.0)
    page.goto(f"{url}/#view=ask&anyone=yes&name=payments.&prefix=yes")
    expect(page.locator(".since-when").first).to_contain_text("check the request")


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_pages_are_accessible(chromium: Browser, url: str, width: int, scheme: ColorScheme) -> None:
    with console_page(chromium, url, width=width, color_scheme=scheme) as page:
        page.goto(f"{url}/#view=ask&anyone=yes&name=payments.&prefix=yes&since=5&sort=since")
        expect(page.locator(".since-when").first).to_be_visible()
        expect(page.locator(".shown-state")).to_be_visible()
        assert_accessible(page, f"since-{width}-{scheme}")
