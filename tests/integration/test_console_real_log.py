"""The console on logs of real brokers, compared with the library at several states."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from authorizer.api.ip_address import host_address
from authorizer.configuration.load import load_config
from authorizer.engine.decisions.state import AuthorizerState
from authorizer.engine.index.acl_index import AclIndex
from authorizer.node.node import Node
from records.acl import AclOperation, ResourceType
from records.log.open import open_log
from replay.load_image import load_image
from replay.snapshot_source import CheckpointFiles
from snapshot.digest import digest_to_string
from support.console_page import shown_cells
from support.data import real_log
from support.node_acls import ELSEWHERE, is_allowed
from support.nodes import SOON_S

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

OPERATIONS = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)


@pytest.fixture(scope="module", params=["kraft-small", "kraft-trimmed"])
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    flags = {
        "aclog.log.url": f"file:{real_log(request.param)}",
        "aclog.log.mode": "read",
        "super.users": "User:ANONYMOUS",
    }
    with Node.open(load_config(environ={}, flags=flags)) as running:
        running.start()
        assert running.wait_until_ready(SOON_S)
        yield running


def state_at(node: Node, end_offset: int) -> AuthorizerState:
    """The state at an offset, loaded as for ``--at-offset``."""
    with closing(open_log(node.log.url)) as log:
        image = load_image(log, [CheckpointFiles(log)], at_offset=end_offset - 1).image
    now = node.authorizer.state
    networks = now.settings.version_for(image).networks
    return AuthorizerState(AclIndex.of(image, networks=networks), now.settings, True, "")


def may_be_a_clients(host: str) -> bool:
    """Whether a host is an address in the brokers' notation."""
    try:
        return host_address(host) == host
    except ValueError:
        return False


@pytest.mark.long
def test_cells_and_decisions_equal_the_librarys_at_every_sampled_state(
    page: Page, url: str, node: Node
) -> None:
    moments = page.request.get(f"{url}/console/v1/moments").json()["moments"]
    ends = [each["end_offset"] for each in moments]
    compared = 0
    for end in {ends[len(ends) // 3], ends[2 * len(ends) // 3], ends[-2], ends[-1]}:
        state = state_at(node, end)
        acls = [acl.record for acl in state.index.image]
        hosts = {ELSEWHERE, *(acl.host for acl in acls if may_be_a_clients(acl.host))}
        names = {acl.resource_name for acl in acls if acl.resource_type == ResourceType.TOPIC}
        who = {acl.principal for acl in acls if acl.principal != "User:*"}
        page.goto(f"{url}/#at={end - 1}")
        expect(page.locator(".shown-state")).to_contain_text(f"offset {end - 1},")
        expect(page.locator("table.matrix tbody tr").nth(1)).to_be_visible()
        view = {}
        for (name, principal), cell_text in shown_cells(page).items():
            if name not in names or principal not in who:
                continue
            shown = [each for each in cell_text.split("; ") if not each.startswith("DENY for ")]
            partly_so, wholly = set[str](), set[str]()
            for each in shown:
                part = re.sub("^(partly|from some hosts) ", "", each)
                (wholly if part == each else partly_so).update(part.split(", "))
            for operation in OPERATIONS:
                found = {is_allowed(node, principal, operation, name, host, state) for host in hosts}
                either = {operation.title, "All"}
                answers = {True} if either & wholly else {True, False} if either & partly_so else {False}
                assert found == answers, (end, name, principal, operation, cell_text)
                view[principal, operation, name] = is_allowed(node, principal, operation, name, state=state)
        compared += len(view)
        for allowed in (True, False):
            for (principal, operation, name), answer in view.items():
                if answer is allowed:
                    page.goto(
                        f"{url}/#view=ask&at={end - 1}&principal={quote(principal)}"
                        f"&operation={operation.name}&name={quote(name)}&host={ELSEWHERE}"
                    )
                    expect(page.locator(".result")).to_have_text("✓ ALLOWED" if allowed else "✗ DENIED")
                    break
    assert compared > len(OPERATIONS)


@pytest.mark.long
def test_the_acls_and_the_digest_equal_the_brokers(page: Page, url: str, node: Node) -> None:
    state = state_at(node, node.status().end_offset)
    page.goto(f"{url}/#view=acls")
    expect(page.locator(".counts")).to_contain_text(f"{len(state.index.image)} ACLs")
    page.goto(f"{url}/#view=node")
    expect(page.locator(".facts")).to_contain_text(digest_to_string(state.index.image.digest))


@pytest.mark.long
def test_a_trimmed_beginning_is_hatched_and_explained(page: Page, url: str, node: Node) -> None:
    page.goto(url)
    expect(page.locator(".shown-state")).to_be_visible()
    is_whole = node.log.start_offset() == 0
    expect(page.locator(".unknown")).to_have_count(0 if is_whole else 1)
    expect(page.get_by_text("no state is known before")).to_have_count(0 if is_whole else 1)
