"""While the node does not answer, the page keeps its content and the user's input."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from authorizer.node.node import Node
from records.acl import AclOperation
from support.console_page import assert_accessible, console_page
from support.node_acls import acl, on_cluster
from support.nodes import create, running_node

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

UNREACHABLE = re.compile(r"The node is not reachable \(since \d\d:\d\d:\d\d UTC\), retrying")
EVERY_QUESTION = "**/console/v1/**"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    log = tmp_path_factory.mktemp("unreachable") / "log"
    with running_node(log, log_mode="create", describe_principals="User:ANONYMOUS") as running:
        create(running, [on_cluster(AclOperation.DESCRIBE), on_cluster(AclOperation.ALTER)])
        create(running, [acl("User:alice", AclOperation.READ, "orders")])
        yield running


@pytest.fixture
def page(chromium: Browser, url: str) -> Iterator[Page]:
    with console_page(chromium, url, unavailable=True) as opened:
        yield opened


def cut_off(page: Page) -> None:
    page.route(EVERY_QUESTION, lambda route: route.abort("connectionrefused"))


@pytest.mark.long
def test_a_failed_poll_leaves_the_view_and_a_half_filled_form(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=acls")
    page.locator("details.change summary").click()
    form = page.get_by_role("form", name="Add an ACL")
    form.get_by_label("Principal").fill("User:half")
    form.get_by_label("Operation").select_option("ALTER_CONFIGS")
    cut_off(page)
    expect(page.get_by_role("alert")).to_have_text(UNREACHABLE)
    expect(page.locator("table.list")).to_contain_text("User:alice")
    expect(form.get_by_label("Principal")).to_have_value("User:half")
    expect(form.get_by_label("Operation")).to_have_value("ALTER_CONFIGS")
    expect(page.locator(".shown-state")).to_contain_text("Now: offset ")
    assert "Failed to fetch" not in page.locator("body").inner_text()
    assert_accessible(page, "unreachable")
    since = page.get_by_role("alert").inner_text()
    # The alert has the time of the first failure, and disappears after a success.
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/now")):
        pass
    assert page.get_by_role("alert").inner_text() == since
    page.unroute(EVERY_QUESTION)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(form.get_by_label("Principal")).to_have_value("User:half")


@pytest.mark.long
def test_an_answer_is_shown_only_with_its_own_request(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=ask&principal=User:alice&name=orders")
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")
    cut_off(page)
    expect(page.get_by_role("alert")).to_have_text(UNREACHABLE)
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")
    # The answer for alice is not shown for bob.
    page.get_by_label("Principal").fill("User:bob")
    expect(page.locator(".result")).to_have_count(0)
    page.unroute(EVERY_QUESTION)
    expect(page.locator(".result")).to_have_text("✗ DENIED")
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.long
def test_a_temporary_error_is_shown_with_the_last_answer(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=ask&principal=User:alice&name=orders")
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")

    def refuse(route: Route) -> None:
        route.fulfill(status=503, json={"detail": "the log is not loaded"})

    page.route(EVERY_QUESTION, refuse)
    expect(page.get_by_role("alert").first).to_contain_text("the log is not loaded (since ")
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")
    page.unroute(EVERY_QUESTION)
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.long
def test_an_expired_token_is_requested_above_the_current_view(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=ask&principal=User:alice&name=orders")
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")

    def refuse(route: Route) -> None:
        """Answer like a listener that requires tokens."""
        headers = dict(route.request.headers)
        if headers.pop("authorization", None) == "Bearer new":
            route.continue_(headers=headers)
        else:
            route.fulfill(status=401, json={"detail": "the token has expired"})

    page.route(EVERY_QUESTION, refuse)
    expect(page.locator("form.sign-in")).to_contain_text("the token has expired")
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")
    # Rejected requests are sent again with the new token.
    page.get_by_label("Principal").fill("User:bob")
    expect(page.locator(".result")).to_have_count(0)
    page.get_by_label("Token").fill("new")
    page.get_by_role("button", name="Use token").click()
    expect(page.locator(".result")).to_have_text("✗ DENIED")
    expect(page.locator("form.sign-in")).to_have_count(0)


def test_the_answer_to_the_previous_request_is_marked(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=ask&principal=User:alice&name=orders")
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")
    page.route("**/console/v1/ask*", lambda _: None)
    page.get_by_label("Principal", exact=True).fill("User:bob")
    verdict = page.locator(".verdict.busy")
    expect(verdict).to_be_visible()
    mark = verdict.evaluate("each => getComputedStyle(each, '::before').content")
    assert mark == '"Loading… This is the answer to the previous request."'
    page.unroute("**/console/v1/ask*")
    expect(page.locator(".result")).to_have_text("✗ DENIED")
    expect(page.locator(".busy")).to_have_count(0)


@pytest.mark.long
def test_a_node_that_hangs_counts_as_away(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=ask&principal=User:alice&name=orders")
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")
    page.route("**/console/v1/now", lambda _: None)
    expect(page.get_by_role("alert")).to_have_text(UNREACHABLE)
    expect(page.locator("main.stale .result")).to_have_text("✓ ALLOWED")
    page.unroute("**/console/v1/now")
    expect(page.get_by_role("alert")).to_have_count(0)
