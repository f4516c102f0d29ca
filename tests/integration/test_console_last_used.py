"""The console's column "Last used": from a file of request lines, which is read again when it changes."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from authorizer.node.node import Node
from records.acl import AclOperation
from support.aclog_command import aclog
from support.console_page import assert_accessible
from support.dated_logs import date_ms
from support.node_acls import acl, on_cluster
from support.nodes import create, running_node, sidecar_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

READ = AclOperation.READ
QUERY = {"operation": "READ", "name": "payments.", "prefix": "true"}


def line(principal: str, name: str, date: str, *, host: str = "10.0.0.1") -> str:
    return (
        f"[{date} 00:00:00,000] DEBUG Principal = {principal} is Allowed operation = READ from host = {host} "
        f"on resource = Topic:LITERAL:{name} for request = Fetch with resourceRefCount = 1 "
        "based on rule MatchingAcl (kafka.authorizer.logger)\n"
    )


LINES = [
    line("User:cards", "payments.cards", "2026-08-01"),
    line("User:cards", "payments.cards", "2026-11-20"),
    line("User:cards", "other", "2026-11-21"),
    line("User:hosts", "payments.v1", "2026-11-22", host="10.0.0.7"),
    line("User:gone", "payments.v1", "2026-11-23"),
]


@pytest.fixture(scope="module")
def requests_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As ``aclog review --distinct`` writes it, in two reviews."""
    directory = tmp_path_factory.mktemp("requests")
    acls, old, new = (directory / name for name in ("acls.json", "old.jsonl", "requests.jsonl"))
    acls.write_text("[]", encoding="utf-8")
    for lines, requests, distinct in ((LINES[:1], ["-"], old), (LINES[1:], [old, "-"], new)):
        result = aclog(
            *("review", "--requests", *requests, "--acls", acls, "--distinct", distinct), stdin="".join(lines)
        )
        assert result.exit_code == 0, result.output
        assert f"wrote {distinct}" in result.stderr
    return new


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, requests_file: Path) -> Iterator[Node]:
    log = tmp_path_factory.mktemp("last-used") / "log"
    with running_node(log, log_mode="create", console_requests=requests_file) as running:
        create(running, [on_cluster(AclOperation.DESCRIBE)])
        create(
            running,
            [
                acl("User:cards", READ, "payments.", prefixed=True),
                acl("User:hosts", READ, "payments.v1", host="10.0.0.1"),
                acl("User:*", READ, "payments.v1", host="10.0.0.1"),
                acl("User:unused", READ, "payments.", prefixed=True),
            ],
        )
        yield running


ANYONE = "every principal but User:cards, User:unused"


def test_each_right_has_the_time_of_its_last_allowed_request(client: httpx.Client) -> None:
    found = client.get("/console/v1/allowed", params=QUERY).json()
    assert found["last_used"] == {
        "requests": 5,
        "sampled": 0,
        "not_understood": 0,
        "first": date_ms(2026, 8, 1),
        "last": date_ms(2026, 11, 23),
    }
    times = {(each["who"], each["hosts"]): each["last_used"] for each in found["classes"]}
    assert times == {
        ("User:cards", "any host"): date_ms(2026, 11, 20),
        ("User:unused", "any host"): None,
        (ANYONE, "10.0.0.1"): date_ms(2026, 11, 23),
    }
    # A denied class was not used, whatever the file says of its requests.
    query = QUERY | {"principal": "User:hosts"}
    times = {
        (each["allowed"], each["hosts"]): each["last_used"]
        for each in client.get("/console/v1/allowed", params=query).json()["classes"]
    }
    assert times.pop((True, "10.0.0.1")) is None
    assert times
    assert set(times.values()) == {None}


def test_the_page_shows_sorts_and_exports_the_last_use(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=ask&operation=READ&name=payments.&prefix=yes&anyone=yes")
    rows = page.locator(".classes > tr")
    expect(rows).to_have_count(3)
    expect(page.locator(".notice", has_text="Last used:")).to_have_text(
        "Last used: in 5 requests from 2026-08-01 00:00:00 UTC to 2026-11-23 00:00:00 UTC."
    )
    page.get_by_role("button", name="Last used").click()
    expect(rows.nth(0)).to_contain_text("2026-11-23 00:00:00 UTC")
    expect(rows.nth(1)).to_contain_text("2026-11-20 00:00:00 UTC")
    expect(rows.nth(2)).to_contain_text("not in these requests")
    assert_accessible(page, "last-used")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).click()
    written = csv.DictReader(Path(download.value.path()).read_text(encoding="utf-8").splitlines())
    assert {row["who"]: row["lastUsed"] for row in written} == {
        ANYONE: "2026-11-23T00:00:00.000Z",
        "User:cards": "2026-11-20T00:00:00.000Z",
        "User:unused": "",
    }


def test_a_changed_file_is_read_again_and_an_invalid_one_is_named(
    client: httpx.Client, requests_file: Path, page: Page, url: str
) -> None:
    before = requests_file.read_bytes()
    try:
        newer = line("User:unused", "payments.new", "2026-11-24").encode()
        requests_file.write_bytes(gzip.compress(before + newer))
        found = client.get("/console/v1/allowed", params=QUERY).json()
        assert (found["last_used"]["requests"], found["last_used"]["last"]) == (6, date_ms(2026, 11, 24))
        requests_file.write_bytes(gzip.compress(before)[:-20])
        found = client.get("/console/v1/allowed", params=QUERY).json()
        assert found["total"] == 3
        assert found["last_used"]["error"].startswith(f"aclog.console.requests: {requests_file}: ")
        assert not any("last_used" in each for each in found["classes"])
        page.goto(f"{url}/#view=ask&operation=READ&name=payments.&prefix=yes&anyone=yes")
        expect(page.locator(".notice.error")).to_contain_text("No last use is shown. aclog.console.requests:")
    finally:
        requests_file.write_bytes(before)


def test_a_caller_without_describe_learns_of_no_requests(tmp_path: Path, requests_file: Path) -> None:
    log = tmp_path / "log"
    with running_node(log, log_mode="create", console_requests=requests_file) as running:
        create(running, [acl("User:*", READ, "payments.v1")])
        with sidecar_of(running, console_listeners="*") as url:
            found = httpx.get(f"{url}/console/v1/allowed", params=QUERY).json()
    assert found["total"] > 0
    assert "last_used" not in found
    assert not any("last_used" in each for each in found["classes"])
