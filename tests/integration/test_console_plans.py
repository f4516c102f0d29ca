"""ACL changes in the console: preview, application of exactly that plan, and the same-origin guard."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from authorizer.analysis.permissions.decision_changes import decision_changes_by
from authorizer.node.fleet import Fleet
from authorizer.node.node import Node
from records.acl import (
    CLUSTER_NAME,
    AclOperation,
)
from records.principal import WILDCARD_PRINCIPAL
from support.console_page import LOOKS, ColorScheme, assert_accessible, console_page
from support.fleets import fleet_config, node_of, running_fleet
from support.node_acls import acl, is_allowed, on_cluster
from support.nodes import SOON_S, create, delete, running_node, sidecar_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

READ, WRITE = AclOperation.READ, AclOperation.WRITE
HOSTILE = ("<script>document.title='taken'</script>", "a\u202egnp", "q\"'&amp;", "\U0001f600", "x" * 249)
#: What a browser says of the page's own requests, beside Origin.
OWN = {"sec-fetch-site": "same-origin", "content-type": "application/json"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(tmp_path / "log", log_mode="create") as running:
        create(running, [on_cluster(AclOperation.ALTER)])
        create(running, [acl("User:alice", READ, "orders"), acl("User:bob", READ, "orders")])
        yield running


@pytest.fixture
def url(node: Node) -> Iterator[str]:
    with sidecar_of(node, console_listeners="*") as address:
        yield address


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=SOON_S) as asking:
        yield asking


def opened_change(page: Page, url: str) -> Locator:
    """The ACL view, with the form for changes open."""
    page.goto(f"{url.rstrip('/')}/#view=acls")
    page.locator("details.change summary").click()
    return page.locator("details.change")


def add(page: Page, principal: str, operation: str, name: str, pattern: str = "LITERAL") -> None:
    form = page.get_by_role("form", name="Add an ACL")
    form.get_by_label("Principal").fill(principal)
    form.get_by_label("Operation").select_option(operation)
    form.get_by_label("Pattern").select_option(pattern)
    form.get_by_label("Name").fill(name)
    form.get_by_role("button").click()


def plan(page: Page) -> Locator:
    """The preview, class by class."""
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".flipped-classes")).to_be_visible()
    return page.locator(".flips li")


def apply(page: Page) -> None:
    page.get_by_role("button", name="Apply…").click()
    page.get_by_role("dialog").get_by_role("button", name="Apply").click()


def test_the_previewed_plan_adds_and_removes_acls(page: Page, url: str, node: Node) -> None:
    change = opened_change(page, url)
    add(page, "User:carol", "WRITE", "pay", "PREFIXED")
    add(page, "User:mallory", "ALL", "orders")
    page.get_by_label("Remove ALLOW User:bob Read on TOPIC orders from any host").check()
    expect(change.locator("summary")).to_contain_text("3 pending")
    # Each edit can be undone.
    change.get_by_role("button", name="Undo ALLOW User:mallory").click()
    expect(change.get_by_role("list", name="Pending change").get_by_role("listitem")).to_have_count(2)

    flips = plan(page)
    expect(flips).to_have_count(2)
    expect(flips.filter(has_text="granted")).to_contain_text("User:carol: Write, Describe on TOPIC pay*")
    expect(flips.filter(has_text="revoked")).to_contain_text("User:bob: Read, Describe on TOPIC orders")
    expect(flips.filter(has_text="revoked")).to_contain_text("now: ALLOWED by ALLOW User:bob Read")
    expect(flips.filter(has_text="revoked")).to_contain_text("after: DENIED by default deny")
    expect(change.get_by_role("list", name="Warnings")).to_contain_text("User:bob loses its last ALLOW")
    before = (is_allowed(node, "User:carol", WRITE, "payments"), is_allowed(node, "User:bob", READ, "orders"))
    assert before == (False, True)

    page.get_by_role("button", name="Apply…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 class of requests is denied now and will be allowed")
    expect(dialog).to_contain_text("1 class of requests is allowed now and will be denied")
    # What a click would do: the ACLs, the warnings and the class with the widest effect.
    expect(dialog.locator(".changes li")).to_have_text(
        [
            "+ ALLOW User:carol Write on TOPIC pay* from any host",
            "\N{MINUS SIGN} ALLOW User:bob Read on TOPIC orders from any host",
        ]
    )
    expect(dialog.get_by_role("list", name="Warnings")).to_contain_text("User:bob loses its last ALLOW")
    expect(dialog.locator(".flips li")).to_have_count(1)
    expect(dialog.locator(".flips li")).to_contain_text("granted User:carol: Write, Describe on TOPIC pay*")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    assert_accessible(page, "apply-1280")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    assert is_allowed(node, "User:bob", READ, "orders")

    apply(page)
    expect(change.locator(".done")).to_contain_text("1 ACL added, 1 ACL removed")
    offset = node.authorizer.state.end_offset
    expect(change.locator(".done")).to_contain_text(f"In force from offset {offset - 1} on")
    after = (is_allowed(node, "User:carol", WRITE, "payments"), is_allowed(node, "User:bob", READ, "orders"))
    assert after == (True, False)
    assert is_allowed(node, "User:alice", READ, "orders")
    expect(page.locator(".shown-state")).to_contain_text(f"Now: offset {offset - 1},")
    expect(page.locator("table.list")).to_contain_text("User:carol")
    expect(page.locator("table.list")).not_to_contain_text("User:bob")


@pytest.mark.long
def test_a_long_change_is_shown_to_its_end(page: Page, url: str) -> None:
    number = 210
    page.goto(f"{url}/#view=compare&with=changes")
    page.locator("textarea").fill(
        "\n".join(
            f"--add --allow-principal User:new{each} --operation Read --topic t{each}"
            for each in range(number)
        )
    )
    page.get_by_role("button", name="Preview").click()
    added = page.get_by_role("list", name="ACLs added").get_by_role("listitem")
    expect(added).to_have_count(200)
    page.get_by_role("button", name="Next page").first.click()
    expect(added).to_have_count(number - 200)
    # All of them are taken over, not the shown page.
    page.get_by_role("button", name="Edit these changes in ACLs").click()
    pending = page.get_by_role("list", name="Pending change").get_by_role("listitem")
    change = page.locator("details.change")
    expect(pending).to_have_count(200)
    change.get_by_role("button", name="Next page").click()
    expect(pending).to_have_count(number - 200)
    classes = plan(page)
    expect(classes).to_have_count(200)
    change.get_by_role("button", name="Next page").last.click()
    expect(classes).to_have_count(number - 200)
    expect(page.locator(".flipped-classes")).to_contain_text(f"{number} classes of requests changed")
    change.get_by_role("button", name="Previous page").last.click()
    expect(classes).to_have_count(200)


def test_an_outdated_plan_is_rejected_and_made_again(page: Page, url: str, node: Node) -> None:
    change = opened_change(page, url)
    page.get_by_label("Remove ALLOW User:bob Read on TOPIC orders from any host").check()
    expect(plan(page)).to_have_count(1)
    create(node, [acl("User:*", READ, "orders")])
    apply(page)
    expect(change.get_by_role("alert")).to_contain_text(
        "the effective permissions have changed since the plan was created"
    )
    assert is_allowed(node, "User:bob", READ, "orders")
    # All principals are allowed by now, so the same edit changes no decision.
    page.get_by_role("button", name="Make a new plan").click()
    expect(change).to_contain_text("No class of requests changed")
    apply(page)
    expect(change.locator(".done")).to_contain_text("0 ACLs added, 1 ACL removed")
    assert node.status().acl_count == 3


@pytest.mark.long
def test_a_view_without_changes_says_why(chromium: Browser, client: httpx.Client, tmp_path: Path) -> None:
    with running_node(tmp_path / "log", log_mode="create") as node:
        create(node, [on_cluster(AclOperation.DESCRIBE)])
        with sidecar_of(node, console_listeners="*") as url, console_page(chromium, url) as page:
            change = opened_change(page, url)
            expect(change).to_contain_text("User:ANONYMOUS needs Alter on the cluster")
            expect(page.get_by_role("checkbox", name="Remove")).to_have_count(0)
            for path, body in (("plan", {"to_apply": True}), ("apply", {})):
                refused = post(client, url, path, body)
                assert refused.status_code == httpx.codes.FORBIDDEN
                assert "needs Alter on the cluster" in refused.json()["detail"]
            # A preview requires only Describe.
            assert post(client, url, "plan", {}).json()["total"] == 0
        create(node, [on_cluster(AclOperation.ALTER)])
        with sidecar_of(node, console_listeners="*") as url, console_page(chromium, url) as page:
            page.goto(f"{url}/#view=acls&at=1")
            page.locator("details.change summary").click()
            expect(page.locator("details.change")).to_contain_text("This is a past state")
            page.get_by_role("button", name="Show current ACLs").click()
            expect(page.get_by_role("form", name="Add an ACL")).to_be_visible()
            assert post(client, url, "plan", {"to_apply": True, "at_offset": 1}).status_code == 400
    with (
        running_node(tmp_path / "log", log_mode="read") as reader,
        sidecar_of(reader, console_listeners="*") as url,
        console_page(chromium, url) as page,
    ):
        expect(opened_change(page, url)).to_contain_text("is open for reading")
        expect(page.get_by_role("checkbox", name="Remove")).to_have_count(0)
        assert "is open for reading" in post(client, url, "plan", {"to_apply": True}).json()["detail"]


def post(
    client: httpx.Client, url: str, path: str, body: Mapping[str, Any], **headers: str
) -> httpx.Response:
    """Send a request like the page; ``headers`` override its own, an empty value removes one."""
    given = {"origin": url, **OWN, **{name.replace("_", "-"): value for name, value in headers.items()}}
    sent = {name: value for name, value in given.items() if value}
    return client.post(f"{url}/console/v1/{path}", json=body, headers=sent)


def test_no_other_page_changes_anything(client: httpx.Client, url: str, node: Node) -> None:
    new = {
        "principal": "User:mallory",
        "operation": "ALL",
        "resourceType": "TOPIC",
        "resourceName": "*",
        "permissionType": "ALLOW",
    }
    made = post(client, url, "plan", {"add": [new], "to_apply": True})
    assert made.status_code == httpx.codes.OK
    forged = made.json()["plan"]
    port = url.rpartition(":")[2]
    for headers, status in (
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),  # a program, or a browser that hides the origin
        ({"origin": "http://127.0.0.1:1"}, 403),  # another server on this machine
        ({"origin": f"https://127.0.0.1:{port}"}, 403),
        ({"origin": f"http://localhost:{port}"}, 403),  # another host name than the page's
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "none"}, 403),
        # DNS rebinding: to the browser it is the same origin.
        ({"host": f"evil.example:{port}", "origin": f"http://evil.example:{port}"}, 421),
        # Requests that a form or a link sends without a CORS preflight.
        ({"content_type": "text/plain"}, 400),
        ({"content_type": "application/x-www-form-urlencoded"}, 400),
        ({"content_type": "multipart/form-data; boundary=b"}, 400),
    ):
        for path in ("plan", "apply"):
            assert post(client, url, path, forged, **headers).status_code == status, (path, headers)
    assert post(client, url, "apply?force=1", forged).status_code == 400
    with_preflight = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    answer = client.request("OPTIONS", f"{url}/console/v1/apply", headers=with_preflight)
    assert answer.status_code == httpx.codes.METHOD_NOT_ALLOWED
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert client.get(f"{url}/console/v1/apply").status_code == httpx.codes.METHOD_NOT_ALLOWED
    # The API for programs accepts no request of a page, not even of the console.
    for method, path, body in (("POST", "acls", {"acls": [new]}), ("POST", "plans", forged)):
        answer = client.request(method, f"{url}/v1/{path}", json=body, headers={"origin": url, **OWN})
        assert answer.status_code == httpx.codes.FORBIDDEN
    changed = {**forged, "add": [*forged["add"], {**forged["add"][0], "resourceName": "others"}]}
    assert "checksum mismatch" in post(client, url, "apply", changed).json()["detail"]
    assert not is_allowed(node, "User:mallory", READ, "orders")
    assert post(client, url, "apply", forged).status_code == httpx.codes.OK
    assert is_allowed(node, "User:mallory", READ, "orders")


@pytest.mark.long
def test_a_mass_removal_shows_its_share_before_it_is_applied(
    page: Page, client: httpx.Client, url: str, node: Node
) -> None:
    change = opened_change(page, url)
    for principal in ("User:alice", "User:bob"):
        page.get_by_label(f"Remove ALLOW {principal} Read on TOPIC orders from any host").check()
    expect(plan(page)).to_have_count(2)
    expect(change).to_contain_text("(66.6 % of 3 ACLs)")
    page.get_by_role("button", name="Apply…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_contain_text("This removes 66.6 % of all ACLs: 2 of 3")
    dialog.get_by_role("button", name="Remove 66.6 % of all ACLs").click()
    expect(change.locator(".done")).to_contain_text("0 ACLs added, 2 ACLs removed")
    assert node.status().acl_count == 1
    # Requests without the consent are rejected, by the console and by the API.
    create(node, [acl("User:alice", READ, "orders"), acl("User:bob", READ, "orders")])
    made = post(client, url, "plan", {"text": "--remove --topic orders", "to_apply": True}).json()
    assert made["counts"] == {
        "acls": 3,
        "toRemove": 2,
        "toAdd": 0,
        "removedPercent": 66.6,
        "isMassRemoval": True,
    }
    for body in (made["plan"], made["plan"] | {"maxRemovedPercent": 66}):
        for answer in (post(client, url, "apply", body), client.post(f"{url}/v1/plans", json=body)):
            (result,) = answer.json()["results"]
            assert result["error"]["name"] == "MassRemovalException"
            assert "removes 2 of 3 ACLs (66.6 %)" in result["error"]["message"]
    assert client.post(f"{url}/v1/plans", json=made["plan"] | {"maxRemovedPercent": 101}).status_code == 400
    done = client.post(f"{url}/v1/plans", json=made["plan"] | {"maxRemovedPercent": 67}).json()
    assert (done["results"][0]["acl_count"], len(done["results"][0]["removed"])) == (3, 2)
    assert node.status().acl_count == 1


def test_a_small_plan_never_waits_for_a_large_one_which_ends_with_its_client(
    client: httpx.Client, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over real HTTP: the node notices the closed connection during the computation."""
    begun, ended = threading.Event(), threading.Event()

    def endless(changed: Any, *args: Any) -> Any:
        if WILDCARD_PRINCIPAL not in changed.principals:
            return decision_changes_by(changed, *args)
        check_cancelled = args[-1]
        begun.set()
        try:
            while True:
                check_cancelled()
        finally:
            ended.set()

    monkeypatch.setattr("authorizer.console.routes.plans.decision_changes_by", endless)
    large = {"text": "--add --allow-principal User:* --topic a"}
    small = {"text": "--add --allow-principal User:carol --topic a"}
    leaving = HTTPConnection(urlsplit(url).netloc, timeout=SOON_S)
    leaving.request("POST", "/console/v1/plan", json.dumps(large), {"origin": url, **OWN})
    assert begun.wait(SOON_S)
    # The small plan is answered while the large one runs.
    assert post(client, url, "plan", small).json()["counts"]["toAdd"] == 1
    assert not ended.is_set()
    leaving.close()
    assert ended.wait(SOON_S)


@pytest.mark.long
def test_hostile_names_are_text_in_a_change(page: Page, url: str, node: Node) -> None:
    change = opened_change(page, url)
    for name in HOSTILE:
        add(page, f"User:{name}", "READ", name)
    held = change.get_by_role("list", name="Pending change").get_by_role("listitem")
    expect(held).to_have_count(len(HOSTILE))
    expect(held.nth(1)).to_contain_text("User:a\\u{202e}gnp Read on TOPIC a\\u{202e}gnp")
    # An invalid topic name matches no request, so it is in no class.
    assert [text.partition("User:")[2].partition(": ")[0] for text in plan(page).all_inner_texts()] == [
        HOSTILE[4]
    ]
    apply(page)
    expect(change.locator(".done")).to_contain_text(f"{len(HOSTILE)} ACLs added")
    assert node.status().acl_count == 3 + len(HOSTILE)
    for name in HOSTILE:
        assert is_allowed(node, f"User:{name}", READ, name)
    assert page.title().endswith("aclog")


@pytest.mark.long
def test_pasted_changes_are_compared_with_the_shown_state(page: Page, client: httpx.Client, url: str) -> None:
    page.goto(f"{url}/#view=compare")
    page.get_by_label("Compare the ACLs with").select_option("changes")
    text = page.get_by_label("Changes in a format of aclog plan")
    text.fill(
        "# both are read\n"
        "kafka-acls --add --allow-principal User:carol --operation Read --topic pay "
        "--resource-pattern-type prefixed\n"
        "--remove --allow-principal User:alice --operation Read --topic orders\n"
    )
    page.get_by_role("button", name="Preview").click()
    flips = page.locator(".flips li")
    expect(flips).to_have_count(2)
    expect(flips.filter(has_text="granted")).to_contain_text("User:carol: Read, Describe on TOPIC pay*")
    expect(flips.filter(has_text="revoked")).to_contain_text("User:alice: Read, Describe on TOPIC orders")
    # The URL contains the text.
    pasted = page.url
    page.goto("about:blank")
    page.goto(pasted)
    expect(flips).to_have_count(2)
    # With the check box, the set replaces all ACLs.
    text.fill(
        '{"resourceType": "TOPIC", "resourceName": "orders", "principal": "User:alice", '
        '"operation": "READ", "permissionType": "ALLOW"}'
    )
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("main section")).to_contain_text("No class of requests changed")
    expect(page.locator("main section")).to_contain_text(
        "2 ACLs exist and are not in the text; they are kept"
    )
    page.get_by_label("remove all ACLs that are not in the set").check()
    expect(page.locator("main section")).to_contain_text("0 ACLs added, 2 ACLs removed")
    expect(page.get_by_role("list", name="Warnings")).to_contain_text("User:ANONYMOUS loses its last ALLOW")
    wrong = post(
        client, url, "plan", {"text": "\n--add --allow-principal User:carol --operation Reed --topic pay"}
    )
    assert wrong.status_code == httpx.codes.BAD_REQUEST
    assert "the text line 2" in wrong.json()["detail"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, str]]:
    """Two clusters with one different topic ACL each, and different Alter rights."""
    logs = {each: tmp_path_factory.mktemp(each) / "log" for each in ("east", "west")}
    config = fleet_config(logs, log_mode="create", console_listeners="*")
    with running_fleet(config) as (running, url):
        for name, principal, right in (
            ("east", "User:alice", AclOperation.ALTER),
            ("west", "User:bob", AclOperation.DESCRIBE),
        ):
            node = node_of(running, name)
            create(node, [on_cluster(right), acl("User:both", READ, "orders")])
            create(node, [acl(principal, READ, "orders")])
        yield running, url


@pytest.mark.long
def test_two_clusters_are_compared_and_checked(chromium: Browser, fleet: tuple[Fleet, str]) -> None:
    running, url = fleet
    with console_page(chromium, url) as page:
        page.goto(f"{url}/clusters/east/#view=compare")
        page.get_by_label("Compare east with").select_option("cluster")
        page.get_by_label("The cluster").select_option("west")
        flips = page.locator(".flips li")
        expect(flips).to_have_count(3)
        east_only = flips.filter(has_text="allowed only in east")
        expect(east_only.first).to_contain_text("User:alice: Read, Describe")
        expect(east_only.last).to_contain_text("User:ANONYMOUS: Alter on CLUSTER")
        other = flips.filter(has_text="allowed only in west")
        expect(other).to_contain_text("User:bob: Read, Describe on TOPIC orders")
        other.get_by_role("button", name="check both").click()
        expect(other.locator(".side")).to_have_count(2)
        for side, cluster in zip(other.locator(".side").all(), ("west", "east"), strict=True):
            allowed = is_allowed(node_of(running, cluster), "User:bob", READ, "orders")
            expect(side).to_contain_text(f"{cluster}: {'ALLOWED' if allowed else 'DENIED'}")
        pasted = page.url
        page.goto("about:blank")
        page.goto(pasted)
        expect(flips).to_have_count(3)
        other.get_by_role("button", name="check both").click()
        other.get_by_role("link", name="west").click()
        expect(page.locator(".result")).to_have_text("✓ ALLOWED")
        assert page.url.startswith(f"{url}/clusters/west/#")


def test_a_comparison_requires_describe_on_both_clusters(
    client: httpx.Client, fleet: tuple[Fleet, str]
) -> None:
    running, url = fleet
    flips = f"{url}/clusters/east/console/v1/flips"
    assert client.get(flips, params={"cluster": "west"}).json()["total"] == 3
    unknown = client.get(flips, params={"cluster": "north"})
    assert unknown.status_code == httpx.codes.BAD_REQUEST
    assert "known are: west" in unknown.json()["detail"]
    delete(node_of(running, "west"), CLUSTER_NAME)
    for cluster, other in (("east", "west"), ("west", "east")):
        refused = client.get(f"{url}/clusters/{cluster}/console/v1/flips", params={"cluster": other})
        assert refused.status_code == httpx.codes.FORBIDDEN
        assert "User:both" not in refused.text
    create(node_of(running, "west"), [on_cluster(AclOperation.DESCRIBE)])


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_pages_are_accessible(
    chromium: Browser, fleet: tuple[Fleet, str], width: int, scheme: ColorScheme
) -> None:
    _, url = fleet
    text = "--add --allow-principal User:carol --operation All --cluster\n--remove --topic orders"
    with console_page(chromium, url, width=width, color_scheme=scheme) as page:
        for name, view in (
            ("changes", {"with": "changes", "changes": text}),
            ("clusters", {"with": "cluster", "cluster": "west"}),
        ):
            page.goto(f"{url}/clusters/east/#{urlencode({'view': 'compare'} | view)}")
            expect(page.locator(".flips li").first).to_be_visible()
            assert_accessible(page, f"compare-{name}-{width}-{scheme}")
        opened_change(page, f"{url}/clusters/east/")
        add(page, "User:carol", "ALL", "orders")
        page.get_by_label("Remove ALLOW User:alice Read on TOPIC orders from any host").check()
        expect(plan(page).first).to_be_visible()
        assert_accessible(page, f"plan-{width}-{scheme}")
        page.get_by_role("button", name="Apply…").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert_accessible(page, f"plan-confirm-{width}-{scheme}")
