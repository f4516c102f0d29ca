"""The console in a browser: checks for other origins, logged errors and accessibility."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, expect, sync_playwright

from support.browser import ROOT, axe, browser
from support.nodes import SOON_S

ColorScheme: TypeAlias = Literal["dark", "light"]

#: Widths and color schemes in which every view is checked.
LOOKS: Final[list[tuple[int, ColorScheme]]] = [
    (1280, "light"),
    (1280, "dark"),
    (380, "light"),
    (380, "dark"),
]
_SCREENSHOTS: Final = ROOT / ".cache" / "console-screenshots"
_HEIGHT: Final = 800
_UNLOADED: Final = "Failed to load resource"
_WAIT_MS: Final = SOON_S * 1000


@contextmanager
def launched() -> Iterator[Browser]:
    """A real Chromium."""
    chosen = browser()
    expect.set_options(timeout=_WAIT_MS)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=chosen.path, env=chosen.environment(), args=["--no-sandbox"], timeout=_WAIT_MS
        )
        yield running
        running.close()


@contextmanager
def console_page(
    chromium: Browser,
    url: str,
    *,
    width: int = 1280,
    color_scheme: ColorScheme = "light",
    timezone: str = "UTC",
    unavailable: bool = False,
) -> Iterator[Page]:
    """An empty page for ``url``; at the end it has requested no other origin and logged no error.

    ``unavailable``: ignore failed requests.
    """
    size = {"width": width, "height": _HEIGHT}
    # The page's policy does not allow axe, so it is bypassed here; other tests check the policy.
    with chromium.new_context(
        viewport=size,  # type: ignore[arg-type]
        color_scheme=color_scheme,
        timezone_id=timezone,
        bypass_csp=True,
    ) as context:
        opened = context.new_page()
        opened.set_default_timeout(_WAIT_MS)
        hosts: list[str] = []
        errors: list[str] = []
        opened.on("request", lambda request: hosts.append(urlsplit(request.url).netloc))
        opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        opened.on("pageerror", lambda error: errors.append(str(error)))
        yield opened
        assert set(hosts) <= {urlsplit(url).netloc}
        assert not [each for each in errors if not (unavailable and _UNLOADED in each)]


def shown_cells(page: Page) -> dict[tuple[str, str], str]:
    """The texts of the visible cells, by row and principal."""
    heads = page.locator("table.matrix thead th").all_inner_texts()[1:]
    cells = {}
    for row in page.locator("table.matrix tbody tr:not(.spacer)").all():
        name = row.locator("th bdi").inner_text()
        for principal, cell in zip(heads, row.locator("td .hidden").all_text_contents(), strict=True):
            cells[name, principal.replace(" ★", "")] = cell
    return cells


def printed_text(page: Page, *, keys: str | None = None) -> str:
    """The text that the page has when it prints itself, by its button or by keys."""
    page.evaluate("window.print = () => { window.printed = true; }; window.printed = false;")
    if keys is None:
        page.get_by_role("button", name="Print", exact=True).click()
    else:
        page.keyboard.press(keys)
    page.wait_for_function("window.printed")
    page.emulate_media(media="print")
    text = page.locator("main").inner_text()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    return text


def assert_accessible(page: Page, name: str) -> None:
    """axe finds nothing serious, and nothing is wider than the window; saves a screenshot."""
    _SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=_SCREENSHOTS / f"{name}.png")
    page.evaluate(axe())
    found = page.evaluate("axe.run()")["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert not serious, json.dumps(serious, indent=1)
    assert page.viewport_size is not None
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
