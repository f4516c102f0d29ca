"""The console's lists of changes: filters, pages and exports, compared with the log."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from authorizer.analysis.history.temporary_access import temporary_changes
from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.permissions.decision_changes import decision_changes_of_states
from authorizer.analysis.permissions.request_class import describe_class
from authorizer.engine.decisions.state import AuthorizerSettings
from authorizer.node.node import Node
from records.acl import AclOperation, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import MetadataRecord
from support.console_page import LOOKS, ColorScheme, assert_accessible, console_page, printed_text
from support.dated_logs import added, date_ms, removed, write_dated_log
from support.node_acls import acl, on_cluster
from support.nodes import running_node

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

HOSTILE = '<i>"a",\u202e\n=1'
#: One batch of so many ACLs: more than a page of either list.
MANY = 250
PAYMENTS = [
    acl(f"User:payments.svc{number}", AclOperation.READ, f"payments.t{number}") for number in range(MANY)
]
OTHER = [
    acl("User:*", AclOperation.DESCRIBE, "orders.", prefixed=True),
    acl(f"User:{HOSTILE}", AclOperation.WRITE, "orders.v1"),
    acl("User:batch", AclOperation.READ, "group-1", kind=ResourceType.GROUP),
    acl("User:batch", AclOperation.WRITE, "orders.v1", deny=True),
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("lists") / "log"
    steps: list[tuple[int, Sequence[MetadataRecord]]] = [
        (date_ms(2026, 1, 1), [added(on_cluster(AclOperation.DESCRIBE))]),
        (date_ms(2026, 2, 1), [added(each) for each in PAYMENTS]),
        *((date_ms(2026, 3, day), [added(each)]) for day, each in enumerate(OTHER, 1)),
        (date_ms(2026, 4, 1), [removed(PAYMENTS[0]), removed(OTHER[3])]),
    ]
    write_dated_log(directory, steps)
    with running_node(directory) as running:
        yield running


def _saved(page: Page, button: str) -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name=button, exact=True).click()
    return Path(download.value.path()).read_bytes().decode()


def test_changes_are_listed_to_the_end_and_exported(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=changes")
    total = 1 + MANY + len(OTHER) + 2
    expect(page.locator(".total")).to_have_text(f"{total} changes")
    page.get_by_role("button", name="Next page").click()
    page.get_by_role("button", name="Next page").click()
    expect(page.locator(".pager")).to_contain_text(f"{total} of {total}")
    expect(page.locator(".changes li").last).to_contain_text("User:ANONYMOUS Describe on CLUSTER")
    rows = list(csv.DictReader(_saved(page, "CSV").splitlines(keepends=True)))
    assert len(rows) == total
    assert [int(row["offset"]) for row in rows] == list(reversed(range(total)))
    assert json.loads(_saved(page, "JSON")) == [row | {"offset": int(row["offset"])} for row in rows]
    # The name is in the file as it is in the log.
    hostile = next(row for row in rows if row["principal"] == f"User:{HOSTILE}")
    assert (hostile["change"], hostile["date"]) == ("added", "2026-03-02T00:00:00.000Z")
    page.get_by_label("Order").select_option("oldest")
    expect(page.locator(".changes li").first).to_contain_text("User:ANONYMOUS Describe on CLUSTER")


def test_changes_are_filtered_and_grouped(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=changes")
    page.get_by_label("Principals with").fill("user:PAYMENTS.")
    expect(page.locator(".total")).to_have_text(f"{MANY + 1} changes")
    page.get_by_label("Effect").select_option("revoked")
    expect(page.locator(".total")).to_have_text("1 change")
    expect(page.locator(".groups b")).to_have_text("offset 256, 2026-04-01 00:00:00 UTC")
    page.get_by_label("Principals with").fill("")
    page.get_by_label("Operation").select_option("WRITE")
    # An added DENY.
    expect(page.locator(".changes li")).to_have_count(1)
    expect(page.locator(".changes li")).to_contain_text("DENY User:batch")
    page.get_by_label("Operation").select_option("")
    page.get_by_label("Effect").select_option("")
    page.get_by_label("only for every principal").check()
    expect(page.locator(".changes li")).to_have_count(1)
    expect(page.locator(".changes li")).to_contain_text("ALLOW User:* Describe on TOPIC orders.*")
    page.get_by_label("only for every principal").uncheck()
    page.get_by_label("Resource").select_option("GROUP")
    expect(page.locator(".changes li")).to_have_count(1)
    expect(page.locator(".changes li")).to_contain_text("group-1")
    # The URL holds the filters, and the link the state.
    page.get_by_role("link", name="link to this state").click()
    page.reload()
    expect(page.locator(".total")).to_have_text("1 change")


def test_every_page_of_filtered_classes_equals_the_library(
    page: Page, url: str, node: Node, client: httpx.Client
) -> None:
    state = node.authorizer.state
    table = state.index.image.merged().columns
    past = client.get("/console/v1/acls", params={"at_offset": 0, "count": 5000}).json()
    assert past["total"] == 1
    empty = table.records(slice(0))
    assert not list(empty)
    library = list(
        decision_changes_of_states(
            ChangedAcls.between(type(table).of([]), table),
            type(table).of([]),
            table,
            state.settings,
            lambda: None,
        )
    )
    wanted = sum("payments." in (change.request_class.principals.principal or "") for change in library)
    page.goto(f"{url}/#view=compare&since=0&who=payments.")
    expect(page.locator(".flipped-classes")).to_contain_text(
        f"{wanted} classes of requests changed: {wanted} granted"
    )
    page.get_by_role("button", name="Next page").click()
    expect(page.locator(".flips li")).to_have_count(min(200, wanted - 200))
    rows: list[dict[str, Any]] = json.loads(_saved(page, "JSON"))
    assert len(rows) == wanted
    assert {row["who"] for row in rows} == {f"User:payments.svc{number}" for number in range(1, MANY)}
    page.get_by_label("Principals with").fill("")
    page.get_by_label("only for every principal").check()
    expect(page.locator(".flips li")).to_have_count(
        sum(change.request_class.principals.principal is None for change in library)
    )


def test_what_was_granted_and_revoked_again_equals_the_library(
    page: Page, url: str, client: httpx.Client
) -> None:
    page.goto(f"{url}/#view=compare&since=0")
    section = page.get_by_role("region", name="Within the period")
    # A DENY of what nothing allowed gave no request another answer.
    line = section.locator("li")
    expect(line).to_have_count(1)
    expect(line).to_contain_text("granted and revoked again User:payments.svc0")
    expect(line).to_contain_text(f"since offset {MANY}, 2026-02-01")
    expect(line).to_contain_text(f"until offset {MANY + 6}, 2026-04-01")
    acls = {each: AppliedAcl(added(each), None, 0) for each in (*PAYMENTS, *OTHER)}
    steps: list[list[tuple[AppliedAcl | None, AppliedAcl | None]]] = [
        [(None, each) for each in acls.values()],
        [(acls[PAYMENTS[0]], None), (acls[OTHER[3]], None)],
    ]
    found = temporary_changes(AclTable.of([]), steps, AuthorizerSettings())
    answer = client.get("/console/v1/temporary", params={"since": 0}).json()
    assert [each["what"] for each in answer["temporary"]] == [
        describe_class(change.request_class) for change in found
    ]
    exported = json.loads(_saved(page, "JSON of what was temporary"))
    assert [(each["since"], each["until"]) for each in exported] == [
        ("2026-02-01T00:00:00.000Z", "2026-04-01T00:00:00.000Z")
    ]
    page.get_by_label("Principals with").fill("batch")
    expect(section).to_contain_text("No class of requests had another answer in between only.")
    page.get_by_label("Principals with").fill("")
    section.get_by_role("button", name="check at its begin").click()
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")
    page.go_back()
    # Within a shorter period it was only revoked.
    page.goto(f"{url}/#view=compare&since={MANY}")
    expect(section).to_contain_text("No class of requests had another answer in between only.")


def test_pasted_changes_have_pages(page: Page, url: str) -> None:
    lines = "\n".join(
        f"--add --allow-principal User:new{number} --operation Read --topic t{number}"
        for number in range(210)
    )
    page.goto(f"{url}/#view=compare&with=changes")
    page.locator("textarea").fill(lines)
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".flips li")).to_have_count(200)
    # Below the pages of the added ACLs.
    page.get_by_role("button", name="Next page").last.click()
    expect(page.locator(".flips li")).to_have_count(10)


def test_printed_lists_have_all_lines(page: Page, url: str) -> None:
    """And the page says so where it does not have them."""
    total = 1 + MANY + len(OTHER) + 2
    page.goto(f"{url}/#view=changes&first=100")
    expect(page.locator(".changes li")).to_have_count(100)
    page.emulate_media(media="print")
    expect(page.locator(".part")).to_contain_text(f"it has lines 101 to 200 of {total}. The button Print")
    expect(page.locator(".part")).to_contain_text("aclog report --log LOG --format print")
    page.emulate_media(media="screen")
    printed = printed_text(page, keys="Control+p")
    assert "not complete" not in printed
    for number in (0, MANY - 1):
        assert f"User:payments.svc{number} " in printed
    # After printing it is the page that it was.
    expect(page.locator(".changes li")).to_have_count(100)
    for view, last in (
        ("compare&since=0", "User:payments.svc249"),
        ("acls", "payments.t249"),
        ("ask&anyone=yes&prefix=yes&operation=ANY", "User:payments.svc249"),
    ):
        page.goto("about:blank")
        page.goto(f"{url}/#view={view}")
        expect(page.locator(".pager")).to_contain_text(" of ")
        printed = printed_text(page)
        assert last in printed, view
        assert "not complete" not in printed, view
    # A view without a list is printed, too.
    page.get_by_role("button", name="Node").click()
    assert "Decisions" in printed_text(page)


def test_the_printed_matrix_has_all_rows_and_columns(page: Page, url: str) -> None:
    page.goto(f"{url}/#under=payments.")
    expect(page.locator("table.matrix")).to_be_visible()
    printed = printed_text(page)
    # 249 principals are more than the columns of a page.
    assert "it has 222 of 250 rows and 90 of" in printed
    assert "payments.t1" in printed
    page.goto("about:blank")
    page.goto(f"{url}/#under=payments.&who=svc11")
    expect(page.locator("table.matrix")).to_be_visible()
    printed = printed_text(page)
    assert "not complete" not in printed
    for each in (*range(110, 120), 11, 200, 249):
        assert f"payments.t{each}" in printed
    for each in (*range(110, 120), 11):
        assert f"svc{each}" in printed


@pytest.mark.parametrize(
    "query", ["operation=FLY", "type=SHOE", "effect=both", "first=-1", "count=5001", "everyone=maybe"]
)
def test_invalid_filters_are_reported(client: httpx.Client, query: str) -> None:
    for path in ("changes?", "flips?", "temporary?since=0&"):
        response = client.get(f"/console/v1/{path}{query}")
        assert response.status_code == httpx.codes.BAD_REQUEST
        assert query.partition("=")[0] in response.json()["detail"]


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_pages_are_accessible(chromium: Browser, url: str, width: int, scheme: ColorScheme) -> None:
    with console_page(chromium, url, width=width, color_scheme=scheme) as page:
        for view, ready in (("changes", ".groups"), ("compare", ".flips li")):
            page.goto(f"{url}/#view={view}&since=0")
            expect(page.locator(ready).first).to_be_visible()
            expect(page.locator(".shown-state")).to_be_visible()
            assert_accessible(page, f"list-{view}-{width}-{scheme}")
