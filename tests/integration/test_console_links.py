"""The console's links, titles and copies: each names what is shown, and nothing of other views."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from authorizer.node.node import Node
from records.acl import AclOperation
from support.console_page import console_page
from support.node_acls import acl, on_cluster
from support.nodes import create, running_node

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

READ = AclOperation.READ
HOSTILE = "a\u202egnp"
#: Text that a page copies without the browser's clipboard.
_RECORD_COPIES = """Object.defineProperty(Navigator.prototype, "clipboard", { value: undefined });
document.addEventListener("copy", () => { window.copied = document.activeElement.value; });"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_node(tmp_path_factory.mktemp("links") / "log", log_mode="create") as running:
        create(running, [on_cluster(AclOperation.DESCRIBE)])
        create(running, [acl("User:alice", READ, "orders."), acl(f"User:{HOSTILE}", READ, "orders.v1")])
        yield running


def parameters(page: Page) -> dict[str, str]:
    """Those of the page's link."""
    return dict(parse_qsl(urlsplit(page.url).fragment))


def show(page: Page, view: str) -> None:
    page.get_by_role("button", name=view, exact=True).click()


def test_a_link_has_only_the_parameters_of_its_view(page: Page, url: str) -> None:
    page.goto(f"{url}/#under=orders.&who=alice&since=0&zone=local")
    expect(page.locator("table.matrix thead")).to_contain_text("User:alice")
    show(page, "Ask")
    page.get_by_label("Resource name").fill("orders.v1")
    shared = {"since": "0", "zone": "local"}
    assert parameters(page) == {"view": "ask", "name": "orders.v1", **shared}
    show(page, "Changes")
    page.get_by_label("Principals with").fill("gnp")
    assert parameters(page) == {"view": "changes", "who": "gnp", **shared}
    # A view is as it was when it was left.
    show(page, "Matrix")
    expect(page.get_by_label("Principals with")).to_have_value("alice")
    assert parameters(page) == {"under": "orders.", "who": "alice", **shared}
    show(page, "Ask")
    expect(page.get_by_label("Resource name")).to_have_value("orders.v1")
    # A link that has others: they have no effect and do not come back.
    page.goto(f"{url}/#view=acls&who=nobody&under=x&text=alice")
    expect(page.locator("table.list tbody tr")).to_have_count(1)
    page.get_by_label("findings").check()
    assert parameters(page) == {"view": "acls", "text": "alice", "lint": "yes"}


def test_titles_and_the_way_back_name_each_view(page: Page, url: str) -> None:
    page.goto(url)
    expect(page).to_have_title("Matrix · aclog")
    for view in ("Compare", "Changes", "ACLs", "Findings", "Node"):
        show(page, view)
        expect(page).to_have_title(f"{view} · aclog")
    page.goto(f"{url}/#view=ask&principal=User:{HOSTILE}&name=orders.&prefix=yes&at=0")
    expect(page).to_have_title("User:a\\u{202e}gnp Read orders.* · Ask · at 0 · aclog")
    page.go_back()
    expect(page).to_have_title("Node · aclog")
    expect(page.locator(".facts")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("button", name="Findings", exact=True)).to_have_attribute("aria-current", "page")
    page.go_forward()
    expect(page).to_have_title("Node · aclog")


def test_links_acls_and_commands_are_copied(page: Page, url: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{url}/#view=ask&principal=User:bob&name=orders.v1")

    def copied(name: str) -> str:
        button = page.get_by_role("button", name=f"Copy {name}", exact=True)
        button.click()
        expect(button).to_have_text("copied")
        text: str = page.evaluate("navigator.clipboard.readText()")
        return text

    expect(page.locator(".result")).to_have_text("✗ DENIED")
    assert copied("the command") == page.locator("pre").first.inner_text()
    assert copied("link to this view") == page.url
    page.goto(f"{url}/#view=acls")
    expect(page.locator("table.list")).to_be_visible()
    # As it is shown, without characters that change the direction.
    text = "ALLOW User:a\\u{202e}gnp Read on TOPIC orders.v1 from any host"
    assert copied(text) == text


def test_without_the_browsers_clipboard_texts_are_copied_too(chromium: Browser, url: str) -> None:
    """Browsers have it over TLS and for this machine only."""
    with console_page(chromium, url) as page:
        page.add_init_script(_RECORD_COPIES)
        page.goto(f"{url}/#view=ask&principal=User:bob&name=orders.v1")
        button = page.get_by_role("button", name="Copy the command")
        button.click()
        expect(button).to_have_text("copied")
        expect(button).to_be_focused()
        assert page.evaluate("copied") == page.locator("pre").first.inner_text()


def test_a_command_with_invisible_characters_is_not_copied(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=ask&principal=User:{HOSTILE}&name=orders.v2")
    expect(page.locator("pre").first).to_contain_text("a\\u{202e}gnp")
    expect(page.locator("main")).to_contain_text("not copied: it has invisible characters")
    expect(page.get_by_role("button", name=re.compile("Copy the command"))).to_have_count(0)
