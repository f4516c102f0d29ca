"""The documents' pictures: labels are clear of arrows and edges, with narrow and wide fonts."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.sync_api import Browser

from support.browser import ROOT
from support.console_page import ColorScheme

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

#: From narrow to wide: a browser has one of such widths.
_FONTS: Final = ["DejaVu Sans Condensed", "DejaVu Serif", "DejaVu Sans"]
_COLLISIONS: Final = """font => {
  const svg = document.documentElement;
  svg.setAttribute("font-family", font);
  const space = 2;
  const box = each => {
    const { x, y, width, height } = each.getBBox();
    return { left: x - space, right: x + width + space, top: y, bottom: y + height };
  };
  const found = [];
  const view = svg.viewBox.baseVal;
  for (const text of svg.querySelectorAll("text")) {
    const { left, right, top, bottom } = box(text);
    const isCut = left < 0 || right > view.width || top < 0 || bottom > view.height;
    if (isCut) found.push(`${text.textContent} is cut`);
    for (const line of svg.querySelectorAll("path:not(marker path)")) {
      for (let at = 0; at <= line.getTotalLength(); at += 1) {
        const { x, y } = line.getPointAtLength(at);
        if (x > left && x < right && y > top && y < bottom) {
          found.push(`${text.textContent} is on the arrow ${line.getAttribute("d")}`);
          break;
        }
      }
    }
    for (const rect of svg.querySelectorAll("rect")) {
      const edge = box(rect);
      const isOutside = right < edge.left || left > edge.right || bottom < edge.top || top > edge.bottom;
      const isInside = left > edge.left && right < edge.right && top > edge.top && bottom < edge.bottom;
      if (!isOutside && !isInside) found.push(`${text.textContent} is on the edge of ${rect.outerHTML}`);
    }
    for (const other of svg.querySelectorAll("text")) {
      const around = box(other);
      const isBeside = right < around.left || left > around.right;
      const isAbove = bottom - 3 < around.top || top > around.bottom - 3;
      if (other === text || isBeside || isAbove) continue;
      found.push(`${text.textContent} is on ${other.textContent}`);
    }
  }
  return found;
}"""


@pytest.mark.parametrize("picture", ["docs/flow.svg", "docs/world.svg"])
def test_labels_are_clear_of_arrows_and_edges(chromium: Browser, picture: str) -> None:
    grounds = []
    schemes: list[ColorScheme] = ["light", "dark"]
    for scheme in schemes:
        with chromium.new_context(color_scheme=scheme) as context:
            page = context.new_page()
            page.goto((ROOT / picture).as_uri())
            for font in _FONTS:
                assert page.evaluate(_COLLISIONS, font) == [], font
            assert "console" in (page.locator("svg").text_content() or "")
            grounds.append(page.evaluate("getComputedStyle(document.querySelector('.page')).fill"))
    assert grounds[0] != grounds[1]
