"""How the console fits: phones, 200 % zoom and paper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from authorizer.node.node import Node
from records.acl import AclOperation
from support.console_page import assert_accessible, console_page
from support.node_acls import acl, on_cluster
from support.nodes import create, running_node

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

READ = AclOperation.READ
TOPICS: Final = 40
#: A view, and what it shows.
VIEWS: Final = {
    "view=matrix&under=orders.&since=0": "table.matrix tbody th",
    "view=ask&principal=User:reader-application&name=orders.v1": ".result",
    "view=ask&anyone=yes&name=orders.&prefix=yes": ".classes",
    "view=compare&since=0": ".flips li",
    "view=changes": ".groups li",
    "view=acls&lint=yes": "table.list tbody td",
    "view=findings": "table.list tbody td",
    "view=node": ".facts",
}
#: Width of A4 in landscape without its margins.
_PAPER_PX: Final = 1030
_LABELS: Final = """row => [...row.querySelectorAll("[data-label]")]
  .map(cell => getComputedStyle(cell, "::before").content)"""
#: Number of elements of which a part may not be printed.
_CUT: Final = """all => all.map((each) => getComputedStyle(each))
  .filter(({ maxHeight, overflow }) => maxHeight !== "none" || overflow !== "visible").length"""
#: Words that begin on one line and end on another.
_BROKEN_WORDS: Final = r"""() => {
  const broken = [];
  const walker = document.createTreeWalker(document.querySelector("#console"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode;
    if (!parentElement.checkVisibility() || parentElement.closest("option, .hidden, pre")) continue;
    for (const { 0: word, index } of data.matchAll(/[A-Za-z0-9]{1,30}/g)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, index);
      range.setEnd(walker.currentNode, index + word.length);
      const tops = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
      if (tops.size > 1) broken.push(word);
    }
  }
  return broken;
}"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_node(tmp_path_factory.mktemp("layout") / "log", log_mode="create") as running:
        create(running, [on_cluster(AclOperation.ALTER)])
        names = [f"orders.transactions.authorized-internationally.v{number}" for number in range(TOPICS)]
        reader = "User:reader-application.stream-processor.eu-west-1"
        create(running, [acl(reader, READ, name, host="10.101.102.103") for name in names])
        create(running, [acl(reader, READ, "orders.", prefixed=True)])
        create(running, [acl(f"User:team.service{number}", READ, "orders.v1") for number in range(30)])
        yield running


def opened(page: Page, url: str, view: str) -> None:
    page.goto("about:blank")
    page.goto(f"{url}/#{view}")
    expect(page.locator(VIEWS[view]).first).to_be_visible()
    expect(page.locator(".shown-state")).to_be_visible()


@pytest.mark.parametrize("width", [380, pytest.param(1280, marks=pytest.mark.long)])
def test_no_word_breaks_inside(chromium: Browser, url: str, width: int) -> None:
    with console_page(chromium, url, width=width) as page:
        for view in VIEWS:
            opened(page, url, view)
            assert page.evaluate(_BROKEN_WORDS) == [], view


def test_on_a_phone_cells_have_labels(chromium: Browser, url: str) -> None:
    with console_page(chromium, url, width=380) as page:
        for view, labels in (
            (
                "view=acls&lint=yes",
                ["Principal", "May", "Operation", "Resource", "Host", "Written", "Findings"],
            ),
            ("view=findings", ["Rule", "ACL", "Proof", "Impact"]),
            (
                "view=ask&anyone=yes&name=orders.&prefix=yes",
                ["Answer", "Principal", "Names", "Hosts", "Since when", "By"],
            ),
        ):
            opened(page, url, view)
            contents = page.locator("table.list tbody tr").first.evaluate(_LABELS)
            assert [re.findall(r'"(.*?)(?:: )?"', each)[0] for each in contents] == labels


def test_at_200_percent_the_matrix_keeps_six_rows(chromium: Browser, url: str) -> None:
    """At 1280 x 800; a browser's zoom halves the window's pixels."""
    with console_page(chromium, url, width=640) as page:
        page.set_viewport_size({"width": 640, "height": 400})
        opened(page, url, "view=matrix&under=orders.&since=0")
        page.goto(f"{url}/#under=orders.transactions.authorized-internationally.")
        rows = page.locator("table.matrix tbody tr:not(.spacer)")
        expect(rows.nth(8)).to_be_attached()
        page.locator("table.matrix thead").evaluate("each => each.closest('.scroll').scrollIntoView()")
        box, footer = (page.locator(each).bounding_box() for each in (".scroll", "footer"))
        assert box
        assert footer
        fully_shown = [
            each
            for each in (row.bounding_box() for row in rows.all()[:12])
            if each and each["y"] + each["height"] <= min(footer["y"], box["y"] + box["height"])
        ]
        assert len(fully_shown) >= 6
        # The time bar is one line, which opens.
        assert footer["height"] < 60
        expect(page.get_by_role("slider", name="State")).to_have_count(0)
        page.get_by_role("button", name="Previous change").click()
        expect(page.locator(".shown-state")).to_contain_text("Shown: ")
        page.get_by_role("button", name="more", exact=True).click()
        expect(page.get_by_role("slider", name="State")).to_be_visible()
        page.get_by_label("Period").select_option(label="today")
        expect(page.get_by_role("button", name="stop comparing")).to_be_visible()
        assert_accessible(page, "zoomed-640")
        page.get_by_role("button", name="less", exact=True).click()
        expect(page.get_by_role("slider", name="State")).to_have_count(0)


@pytest.mark.long
def test_every_view_is_printed_without_controls_and_cuts(chromium: Browser, url: str) -> None:
    with console_page(chromium, url, width=_PAPER_PX, color_scheme="dark") as page:
        for view in VIEWS:
            page.emulate_media(media="screen")
            opened(page, url, view)
            page.emulate_media(media="print")
            expect(page.get_by_role("navigation", name="Views")).to_be_hidden()
            expect(page.get_by_role("button", name="Copy")).to_have_count(0)
            # The first line says what it is.
            expect(page.locator("main > .printed")).to_contain_text(view)
            expect(page.locator("main > .printed")).to_contain_text("offset")
            assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
            assert page.evaluate("document.documentElement.scrollWidth") <= _PAPER_PX, view
            assert page.locator(".scroll, footer").evaluate_all(_CUT) == 0, view
            expect(page.locator(VIEWS[view]).first).to_be_visible()
