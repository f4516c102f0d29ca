"""The console as users run it: a real Chromium, and decisions while people view.

``aclog serve --console`` at its defaults, the process that decides and the console's, on a log with the ACLs
and a past of small changes. By the clock, as a person waits: Chromium and the node share the machine's cores,
so this wants a machine with little else to do. What is shown is looked for in the page itself, at each of its
changes, so the browser's driver is not in it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from benchmarks.anchor import ROOT
from benchmarks.arena import Arena
from benchmarks.console_people import Action, people
from benchmarks.figures import Goal, Row, Spread, alternate
from benchmarks.http_load import Order
from benchmarks.http_servers import ONE, Server, evaluation, running_sidecar
from benchmarks.load_client import bodies_file, running_client
from benchmarks.requests import AUDITED
from benchmarks.settings import progress
from benchmarks.stored import log_with_past, writable_log

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

#: Changes of a few ACLs, at the end of the log.
_MOMENTS = 200
_STEPS = 12
_PEOPLE = 5
_CONNECTIONS = 32
#: Of the load generator beside people who look, in rounds of the settings: some actions of each of them.
_LOAD_ROUNDS = 6
_SOON_S = 120.0

_VIEW = Goal("at most", 1e9, of="ours")
_WEIGHT = Goal("at most", 300, of="ours")
_P99 = Goal("at most", 1.5)
_MANY_ACLS = 200_000
#: Of a step: with up to so many ACLs, and with more.
_STEP, _STEP_OF_MANY = Goal("at most", 100e6, of="ours"), Goal("at most", 300e6, of="ours")

# Notes when the cells of an offset were first there, in milliseconds since the page's time began.
_WATCH: Final = """
window.shown = {};
new MutationObserver(() => {
  const table = document.querySelector("table.matrix");
  if (table?.querySelector("td button.cell")) {
    window.shown[table.dataset.offset] ??= performance.now();
  }
}).observe(document, { subtree: true, childList: true, attributes: true });
addEventListener("keydown", (event) => { window.pressed = event.timeStamp; window.shown = {}; }, true);
"""


def measure(arena: Arena) -> Iterator[Row]:
    sys.path.insert(0, str(ROOT / "tests"))  # what starts a browser is the tests'
    from support.console_page import launched  # noqa: PLC0415

    progress(f"{arena.workload}: a log with a past")
    past = log_with_past(arena.directory, moments=_MOMENTS)
    with _console(arena, past) as server:
        with launched() as browser:
            first = _first_looks(arena, past, browser)
            yield _row(arena, "first view, the first since the node started", "ns", first, _VIEW)
            yield from _views(arena, server, browser)
            yield from _steps(arena, server, browser)
            actions = _recorded(server, browser)
        yield from _with_people(arena, past, server, actions)


@contextmanager
def _console(arena: Arena, past: Path) -> Iterator[Server]:
    with writable_log(arena.directory, past) as log, running_sidecar(log, 1, "--console") as server:
        yield server


def _row(
    arena: Arena,
    what: str,
    unit: str,
    values: Sequence[float],
    goal: Goal | None,
    note: str = "",
) -> Row:
    return Row(
        what=what, workload=arena.workload, unit=unit, ours=Spread(tuple(values)), goal=goal, note=note
    )


# --- in the browser ----------------------------------------------------------------------------------------


@contextmanager
def _page(browser: Browser, server: Server) -> Iterator[tuple[Page, list[Request]]]:
    """The page, when its cells are there; and what it has asked."""
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(_SOON_S * 1000)
        page.add_init_script(_WATCH)
        requests: list[Request] = []
        page.on("requestfinished", lambda each: requests.append(each))  # noqa: PLW0108 - a bound method does not work here
        page.goto(f"http://127.0.0.1:{server.port}/", wait_until="commit")
        page.locator("td button.cell").first.wait_for()
        yield page, requests


def _shown_ns(page: Page) -> float:
    """When the cells were first there."""
    return min(page.evaluate("Object.values(window.shown)")) * 1e6


def _first_looks(arena: Arena, past: Path, browser: Browser) -> list[float]:
    looks = []
    for _ in range(min(3, arena.settings.rounds)):
        progress(f"{arena.workload}: the first look at a console")
        with _console(arena, past) as server, _page(browser, server) as (page, _):
            looks.append(_shown_ns(page))
    return looks


def _views(arena: Arena, server: Server, browser: Browser) -> Iterator[Row]:
    progress(f"{arena.workload}: views of the console")
    looks, weights = [], []
    for _ in range(arena.settings.rounds):
        with _page(browser, server) as (page, requests):
            looks.append(_shown_ns(page))
            page.locator(".shown-state").wait_for()
            sizes = [each.sizes() for each in requests]
        weights.append(sum(each["responseBodySize"] + each["responseHeadersSize"] for each in sizes) / 1e3)
    yield _row(arena, "first view", "ns", looks, _VIEW)
    yield _row(
        arena,
        "page weight as sent",
        "kB",
        weights,
        _WEIGHT,
        "with the first answers, and all heads; not packed",
    )


def _steps(arena: Arena, server: Server, browser: Browser) -> Iterator[Row]:
    progress(f"{arena.workload}: steps through time")
    goal = _STEP if _moments(server)[-1]["acls"] <= _MANY_ACLS else _STEP_OF_MANY
    with _page(browser, server) as (page, _):
        page.locator(".shown-state").wait_for()
        for what, key in (("to a moment not seen before", "ArrowLeft"), ("to one seen before", "ArrowRight")):
            before_ns = server.cpu_ns()
            steps = [_step_ns(page, key) for _ in range(_STEPS)]
            cpu_ms = (server.cpu_ns() - before_ns) / 1e6 / _STEPS
            note = f"{cpu_ms:.0f} ms of the node's CPU for each"
            yield _row(arena, f"a step in time, {what}", "ns", steps, goal, note)


def _step_ns(page: Page, key: str) -> float:
    """From the key to the cells of another moment."""
    was = page.locator("table.matrix").get_attribute("data-offset")
    page.keyboard.press(key)
    came = "was => Object.entries(window.shown).find(([offset]) => offset !== was)?.[1]"
    page.wait_for_function(came, arg=was)
    return float(page.evaluate(f"({came})({was!r}) - window.pressed")) * 1e6


def _moments(server: Server) -> list[dict[str, int]]:
    """Those that are held, when all of the past is known."""
    deadline_s = time.monotonic() + _SOON_S
    while time.monotonic() < deadline_s:
        with closing(server.connection(_SOON_S)) as connection:
            connection.request("GET", "/console/v1/moments")
            found = msgspec.json.decode(connection.getresponse().read())
        if not found.get("progress"):
            return found["moments"]
        time.sleep(0.1)
    raise TimeoutError("the past is not walked")


# --- beside people -----------------------------------------------------------------------------------------


def _recorded(server: Server, browser: Browser) -> list[Action]:
    """The requests of a real page while a person views, steps, filters, opens a row and sends a query."""
    moments = [each["end_offset"] - 1 for each in _moments(server)]
    requested: list[tuple[int, str]] = []
    number = 0
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(_SOON_S * 1000)

        def note(url: str) -> None:
            parts = urlsplit(url)
            requested.append((number, f"{parts.path}?{parts.query}".rstrip("?")))

        page.on("request", lambda request: note(request.url))
        doings: list[Callable[[], object]] = [
            lambda: page.goto(f"http://127.0.0.1:{server.port}/"),
            *[lambda: page.keyboard.press("ArrowLeft")] * _STEPS,
            lambda: page.get_by_role("button", name="the last change").click(),
            lambda: page.get_by_role("button", name="stop comparing").click(),
            lambda: page.get_by_label("Names with").fill("a"),
            lambda: page.get_by_label("Names with").fill(""),
            page.locator("button.open").first.click,
            page.locator("td button.cell").first.click,
        ]
        for number, doing in enumerate(doings):  # noqa: B007 - read by note
            doing()
            page.locator(".shown-state").wait_for()
            page.wait_for_load_state("networkidle")
    actions = [[path for _, path in paths] for _, paths in groupby(requested, key=lambda each: each[0])]
    # The same steps at other moments, too: a person does not go over the same ones for ever.
    more = [
        [path.replace(f"at_offset={one}", f"at_offset={other}") for path in action]
        for one, other in zip(moments[-_STEPS - 1 : -1], moments[-5 * _STEPS :], strict=False)
        for action in actions[1:_STEPS]
        if any(f"at_offset={one}" in path for path in action)
    ]
    return [*actions, *more]


def _with_people(arena: Arena, past: Path, server: Server, actions: Sequence[Action]) -> Iterator[Row]:
    """p99 of decisions by the load generator, alone and while people use the console."""
    audited = [evaluation(request) for request in arena.requests(AUDITED)]
    seconds = _LOAD_ROUNDS * arena.settings.round_s
    note = f"each causes an action every second; {_CONNECTIONS} connections, the node on one core"
    with running_client() as client, bodies_file(audited) as file:

        def alone(server: Server) -> float:
            return client.load(Order(server.port, ONE, str(file), _CONNECTIONS, seconds)).p99_ns

        def p99_with_people(server: Server) -> float:
            with people(server.port, actions, _PEOPLE):
                return alone(server)

        progress(f"{arena.workload}: decisions while people view")
        server.keep_to(0)
        with_people, without = alternate(
            arena.settings.rounds, partial(p99_with_people, server), partial(alone, server)
        )
        before, scanning = [], []
        for _ in range(min(3, arena.settings.rounds)):
            progress(f"{arena.workload}: decisions while the past is scanned")
            with _console(arena, past) as started:
                started.keep_to(0)
                before.append(alone(started))
                scanning.append(p99_with_people(started))
    people_row = f"p99 of a decision while {_PEOPLE} people use the console"
    for what, ours, other in (
        (people_row, with_people, without),
        (f"{people_row}, from their first poll on", Spread(tuple(scanning)), Spread(tuple(before))),
    ):
        yield Row(
            what=what,
            workload=arena.workload,
            unit="ns",
            ours=ours,
            other=other,
            against="without people",
            ratio=ours.over(other),
            goal=_P99,
            note=note,
        )
