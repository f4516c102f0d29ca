"""The console by date: periods, time zones, and the dates of offsets."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from authorizer.node.node import Node
from records.acl import AclOperation
from records.entries import MetadataRecord
from support.console_page import console_page
from support.dated_logs import added, date_ms, removed, write_dated_log
from support.node_acls import acl, on_cluster
from support.nodes import SOON_S, running_node

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
#: Ages of the records in days, one record each from offset 1 on; all are about half past an hour.
AGES = (400, 200, 100, 50, 29, 8, 6, 3, 0)


def _steps() -> list[tuple[int, int]]:
    """The offset and time of each record."""
    now = int(time.time() * 1000)
    return [(offset, now - age * DAY_MS - 1000) for offset, age in enumerate(AGES, 1)]


@pytest.fixture(scope="module")
def steps() -> list[tuple[int, int]]:
    return _steps()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]]) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("dates") / "log"
    first = (steps[0][1] - 1, [added(on_cluster(AclOperation.DESCRIBE))])
    acls = [acl(f"User:u{offset}", AclOperation.READ, "payments.", prefixed=True) for offset, _ in steps]
    records: list[tuple[int, list[MetadataRecord]]] = [
        (at_ms, [added(each)]) for (_, at_ms), each in zip(steps, acls, strict=True)
    ]
    records[-1] = (steps[-1][1], [removed(acls[0])])
    write_dated_log(directory, [first, *records])
    with running_node(directory) as running:
        yield running


def _offset_at(steps: list[tuple[int, int]], ms: int) -> int:
    """Offset of the last record up to a time."""
    return max(offset for offset, at_ms in steps if at_ms <= ms)


@pytest.mark.parametrize(("label", "days"), [("7 days", 7), ("30 days", 30)])
def test_a_period_is_counted_from_the_nodes_clock(
    page: Page, url: str, steps: list[tuple[int, int]], label: str, days: int
) -> None:
    # The browser's clock is wrong by years.
    page.add_init_script("Date.now = () => 1e12;")
    page.goto(url)
    page.get_by_label("Period").select_option(label=label)
    offset = _offset_at(steps, int(time.time() * 1000) - days * DAY_MS)
    expect(page).to_have_url(re.compile(f"since={offset}$"))
    expect(page.locator(".period")).to_contain_text(f"offset {offset} (2")


def test_calendar_periods_begin_at_midnight(page: Page, url: str, steps: list[tuple[int, int]]) -> None:
    page.goto(url)
    now = time.gmtime()
    today_ms = date_ms(now.tm_year, now.tm_mon, now.tm_mday)
    begin_month = now.tm_mon - (now.tm_mon - 1) % 3
    quarter_ms = date_ms(now.tm_year, begin_month, 1)
    years, month = divmod(begin_month - 1 - 3, 12)
    last_quarter_ms = date_ms(now.tm_year + years, month + 1, 1)
    period = page.get_by_label("Period")
    for label, from_ms in (
        ("today", today_ms),
        ("since yesterday", today_ms - DAY_MS),
        ("this quarter", quarter_ms),
    ):
        period.select_option(label=label)
        expect(page).to_have_url(re.compile(f"since={_offset_at(steps, from_ms)}$"))
    period.select_option(label="the last quarter")
    since, at = (_offset_at(steps, each) for each in (last_quarter_ms, quarter_ms - 1))
    expect(page.locator(".period")).to_contain_text(f"offset {since} (")
    expect(page).to_have_url(re.compile(f"since={since}&at={at}$"))


def test_dates_are_chosen_and_shown_in_the_browsers_zone(
    chromium: Browser, url: str, steps: list[tuple[int, int]]
) -> None:
    with console_page(chromium, url, timezone="Asia/Tokyo") as page:
        page.goto(url)
        page.get_by_label("Times in").select_option(label="Asia/Tokyo (browser)")
        offset, at_ms = steps[3]
        # The record's minute in Tokyo, nine hours ahead, and the minute after it.
        minutes = [
            time.strftime("%Y-%m-%dT%H:%M", time.gmtime((at_ms + 9 * HOUR_MS) / 1000 + 60 * each))
            for each in (0, 1)
        ]
        for entered, found in zip(minutes, (offset - 1, offset), strict=True):
            page.get_by_label("from", exact=True).fill(entered)
            page.get_by_label("from", exact=True).blur()
            expect(page).to_have_url(re.compile(f"since={found}$"))
        shown = time.strftime("%Y-%m-%d %H:%M:%S GMT+9", time.gmtime(at_ms / 1000 + 9 * 3600))
        expect(page.locator(".period")).to_contain_text(f"offset {offset} ({shown})")
        page.get_by_label("to", exact=True).fill(minutes[1])
        page.get_by_label("to", exact=True).blur()
        expect(page.locator(".shown-state")).to_contain_text(f"Shown: offset {offset}, {shown}")
        expect(page.locator(".status")).to_contain_text(f"showing offset {offset} ({shown})")
        page.get_by_label("Times in").select_option("utc")
        expect(page.locator(".period")).to_contain_text(" UTC)")


def test_the_axis_shows_days_without_a_cut(chromium: Browser, url: str, steps: list[tuple[int, int]]) -> None:
    for width in (1280, 380):
        with console_page(chromium, url, width=width) as page:
            page.goto(url)
            if width == 380:
                page.get_by_role("button", name="more", exact=True).click()
            ticks = page.locator(".axis li:visible")
            expect(ticks.last).to_have_text(time.strftime("%Y-%m-%d", time.gmtime(steps[-1][1] / 1000)))
            boxes = [box for tick in ticks.all() if (box := tick.bounding_box()) is not None]
            assert len(boxes) >= 2
            assert all(a["x"] + a["width"] <= b["x"] for a, b in itertools.pairwise(boxes))


def test_the_node_finds_the_state_at_a_time(url: str, steps: list[tuple[int, int]]) -> None:
    """Also if the state is too old to be listed."""
    with httpx.Client(base_url=url, timeout=SOON_S) as client:
        for offset, at_ms in steps:
            found = client.get("/console/v1/moments", params={"time": at_ms}).json()["at_time"]
            assert (found["end_offset"], found["timestamp"]) == (offset + 1, at_ms)
        answer = client.get("/console/v1/moments", params={"time": 0}).json()
        assert answer["at_time"]["end_offset"] == 0
        assert abs(answer["now"] - time.time() * 1000) < SOON_S * 1000
        assert client.get("/console/v1/moments", params={"time": -1}).status_code == httpx.codes.BAD_REQUEST
