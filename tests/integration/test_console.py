"""The console in a real browser, compared with the library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from authorizer.node.node import Node
from records.acl import (
    AclOperation,
    ResourceType,
)
from support.browser import ROOT
from support.console_page import LOOKS, ColorScheme, assert_accessible, console_page, shown_cells
from support.node_acls import acl, is_allowed, on_cluster
from support.nodes import SOON_S, create, delete, running_node, sidecar_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

TEAMS = ("orders", "payments", "shipping")
#: Shown as they are, or written out; never taken for something else.
HOSTILE = (
    "<script>document.title='taken'</script>",
    "a\u202egnp",
    "q\"'&amp;",
    "\U0001f600",
    "x" * 249,
    "\u05e9\u05dc\u05d5\u05dd.v1",
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with a history: several teams, a denial, and a removed ACL."""
    log = tmp_path_factory.mktemp("console") / "log"
    with running_node(log, log_mode="create", describe_principals="User:ANONYMOUS") as running:
        create(running, [on_cluster(AclOperation.DESCRIBE)])
        for team in TEAMS:
            for operation in (AclOperation.READ, AclOperation.WRITE):
                create(
                    running,
                    [acl(f"User:{team}", operation, f"{team}.", prefixed=True)],
                )
            create(running, [acl("User:alice", AclOperation.READ, f"{team}.v1")])
        create(running, [acl("User:alice", AclOperation.READ, "gone.v1")])
        delete(running, "gone.v1")
        create(
            running,
            [acl("User:orders", AclOperation.WRITE, "orders.secret", deny=True)],
        )
        create(
            running, [acl("User:alice", AclOperation.READ, name, kind=ResourceType.GROUP) for name in HOSTILE]
        )
        create(running, [acl(f"User:{HOSTILE[0]}", AclOperation.READ, "orders.v1", host="10.0.0.1")])
        create(running, [acl("User:alice", AclOperation.READ, "orders.v1", host="10.0.0.2")])
        yield running


def test_the_matrix_shows_the_librarys_decisions(page: Page, url: str, node: Node) -> None:
    page.goto(f"{url}/#under=orders.")
    expect(page.locator("table.matrix tbody th", has_text="orders.secret")).to_be_visible()
    cells = shown_cells(page)
    names = [name for name, principal in cells if principal == "User:alice" and not name.endswith("*")]
    assert sorted(names) == ["orders.secret", "orders.v1"]
    for (name, principal), cell_text in cells.items():
        if name.endswith("*") or principal in ("everyone else", f"User:{HOSTILE[0]}"):
            continue
        for operation in (AclOperation.READ, AclOperation.WRITE):
            allowed = cell_text.partition("DENY for")[0]
            assert (operation.title in allowed) is is_allowed(node, principal, operation, name), (
                name,
                cell_text,
            )
    # On some names of the row, because a DENY names it on one; from some hosts.
    assert cells["orders.*", "User:orders"] == "Read, Describe; partly Write; DENY for Write"
    assert cells["orders.v1", f"User:{HOSTILE[0]}"] == "from some hosts Read, Describe"
    assert cells["orders.v1", "everyone else"] == "nothing"


def test_marks_of_cells_are_explained_below_them(page: Page, url: str) -> None:
    page.goto(f"{url}/#under=orders.")
    denied = page.locator("table.matrix tr", has_text="orders.secret").locator("td .chip.deny")
    expect(denied).to_have_text("⊘W")
    legend = page.locator(".legend")
    expect(legend).to_contain_text("W Write")
    expect(legend).to_contain_text("R@ from some hosts only")
    expect(legend).to_contain_text("⊘R a DENY for it")
    page.goto(f"{url}/#under=payments.&who=payments")
    expect(page.locator("table.matrix tbody th", has_text="payments.v1")).to_be_visible()
    expect(legend).not_to_contain_text("DENY")
    expect(legend).not_to_contain_text("hosts only")
    # A cell of every operation on some names has the letters of each.
    cells = "{ operations: ['ALL', 'READ', 'WRITE'], cells: [[[0, 7]]] }"
    module = f"import('{url}/console/assets/matrix_cell.js')"
    assert page.evaluate(f"{module}.then((each) => each.shownOperations({cells}))") == ["READ", "WRITE"]


def test_chips_that_do_not_fit_are_counted(chromium: Browser, url: str) -> None:
    with console_page(chromium, url, width=380) as page:
        page.goto(f"{url}/#under=orders.&who=User:orders&since=5")
        cell = page.locator("table.matrix tbody tr", has_text="orders.secret").locator("td")
        expect(cell.locator(".rest")).to_have_text("+2")
        expect(cell.locator(".chip")).to_have_text(["\N{MINUS SIGN}W", "⊘W"])
        expect(cell.locator(".hidden")).to_have_text("Read, Describe; DENY for Write; revoked Write")
        assert cell.evaluate("cell => cell.firstElementChild.scrollWidth <= cell.clientWidth")


def test_arrow_keys_move_in_the_grid_or_in_time(page: Page, url: str) -> None:
    """One Tab stop; inside it the arrow keys move the focus, and the shown state stays."""
    page.goto(f"{url}/#under=orders.")
    grid = page.get_by_role("grid")
    expect(grid).to_be_visible()
    assert grid.locator("[tabindex='0']").count() == 1
    grid.locator("[tabindex='0']").focus()
    row, column = (f"document.activeElement.closest('{each}')" for each in ("tr", "th, td"))
    focused = f"{row}.rowIndex + ',' + {column}.cellIndex"
    for key, place in (
        ("ArrowRight", "2,2"),
        ("ArrowDown", "3,2"),
        ("ArrowLeft", "3,1"),
        ("ArrowLeft", "3,0"),
        ("ArrowUp", "2,0"),
    ):
        page.keyboard.press(key)
        assert page.evaluate(focused) == place
    assert "at=" not in page.url
    assert grid.locator("[tabindex='0']").count() == 1
    page.locator("h1").click()
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile("at="))


@pytest.mark.long
def test_rows_open_filters_apply_and_the_url_holds_the_view(page: Page, url: str) -> None:
    page.goto(url)
    page.get_by_role("button", name="payments.*").click()
    expect(page.locator("table.matrix tbody th", has_text="payments.v1")).to_be_visible()
    page.get_by_label("Principals with").fill("alice")
    expect(page.locator("table.matrix thead th")).to_have_count(2)
    expect(page.locator("table.matrix thead th").nth(1)).to_have_text("User:alice")
    pasted = page.url
    page.goto("about:blank")
    page.goto(pasted)
    expect(page.locator("table.matrix thead th").nth(1)).to_have_text("User:alice")
    expect(page.locator("table.matrix tbody th", has_text="payments.v1")).to_be_visible()


def test_a_past_state_shows_its_acls(page: Page, url: str, client: httpx.Client) -> None:
    moments = client.get("/console/v1/moments").json()["moments"]
    removal = next(each["end_offset"] for each in moments if each["removed"]) - 1
    page.goto(f"{url}/#at={removal - 1}&containing=gone&who=alice")
    expect(page.locator("table.matrix tbody th", has_text="gone.v1")).to_be_visible()
    expect(page.locator(".shown-state")).to_contain_text(f"offset {removal - 1},")
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".shown-state")).to_contain_text(f"offset {removal},")
    expect(page.locator("table.matrix tbody th", has_text="gone.v1")).to_have_count(0)
    # Compared with the previous state, the cell changes, and the record is listed.
    page.get_by_role("button", name="the last change").click()
    cell = page.locator("table.matrix tr", has_text="gone.v1").locator("td.flipped")
    expect(cell.locator(".hidden")).to_have_text("nothing; revoked Read, Describe")
    expect(page.locator(".changes li.removed")).to_contain_text("User:alice Read on TOPIC gone.v1")
    page.get_by_role("button", name="now").click()
    expect(page).not_to_have_url(re.compile("at="))
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile(f"at={moments[-2]['end_offset'] - 1}$"))


@pytest.mark.long
def test_keys_work_as_soon_as_the_time_bar_is_shown(page: Page, url: str, client: httpx.Client) -> None:
    moments = client.get("/console/v1/moments").json()["moments"]
    page.add_init_script("""new MutationObserver((_, observer) => {
      if (document.querySelector(".shown-state")) {
        observer.disconnect();
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
      }
    }).observe(document, { subtree: true, childList: true });""")
    page.goto(url)
    expect(page).to_have_url(re.compile(f"at={moments[-2]['end_offset'] - 1}$"))


def test_a_request_shows_the_deciding_acl_and_every_change(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("table.matrix")).to_be_visible()
    page.get_by_role("button", name="Ask").click()
    # The prefilled caller is selected, so that typing replaces it.
    page.get_by_label("Principal", exact=True).focus()
    page.keyboard.type("User:orders")
    page.get_by_label("Operation").select_option("WRITE")
    page.get_by_label("Resource name").fill("orders.secret")
    expect(page.locator(".result")).to_have_text("✗ DENIED")
    expect(page.locator(".acls").first).to_contain_text("DENY User:orders Write on TOPIC orders.secret")
    expect(page.locator("pre").first).to_contain_text("kafka-acls --remove --deny-principal User:orders")
    turns = page.locator(".history li")
    assert [text.split()[-1] for text in turns.locator("b").all_inner_texts()] == [
        "denied",
        "allowed",
        "denied",
    ]
    turns.nth(1).get_by_role("button").click()
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")


def test_the_palette_asks_about_a_principal_and_a_name_in_20_keys(page: Page, url: str) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(url)
    expect(page.locator("table.matrix")).to_be_visible()
    keys = ["/", *"alice orders.v1", "Enter"]
    assert len(keys) <= 20
    for key in keys[:-1]:
        page.keyboard.press(key)
    expect(page.locator(".palette li").first).to_have_text("May User:alice Read Topic orders.v1? decision")
    page.keyboard.press(keys[-1])
    expect(page.locator(".result")).to_be_visible()
    expect(page.get_by_label("Principal", exact=True)).to_have_value("User:alice")
    expect(page.get_by_role("dialog")).to_have_count(0)
    # One request for each pause in typing, not for each key.
    assert len([each for each in requests if "/console/v1/names" in each]) < 8


def press(key: str) -> str:
    """A key for the focused element, in JavaScript: the next statement precedes the next frame."""
    event = f"new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true, cancelable: true }})"
    return f"document.activeElement.dispatchEvent({event});"


#: After what the key's handlers rendered.
FOCUSED_TAG = "Promise.resolve().then(() => 0).then(() => document.activeElement.tagName)"


def test_the_key_after_slash_belongs_to_the_palette(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("table.matrix")).to_be_visible()
    assert page.evaluate(f"() => {{ {press('/')} return {FOCUSED_TAG}; }}") == "INPUT"


def test_the_key_after_a_choice_does_not_belong_to_the_palette(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("table.matrix")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("comp")
    expect(page.locator(".palette li").first).to_be_visible()
    assert page.evaluate(f"() => {{ {press('Enter')} return {FOCUSED_TAG}; }}") == "BODY"


def test_a_palette_remains_open_if_it_opened_while_the_last_one_closed(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("table.matrix")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("dialog")).to_be_visible()
    # The close event of a dialog is sent in a later task.
    page.evaluate(
        f"""() => {{
            const last = document.querySelector("dialog.palette");
            const closed = new Promise((done) => last.addEventListener("close", () => setTimeout(done)));
            last.close();
            document.activeElement.blur();
            {press("/")}
            return closed;
        }}"""
    )
    page.keyboard.type("alice")
    expect(page.locator(".palette li").first).to_contain_text("User:alice")


def test_the_palette_finds_principals_names_dates_and_views(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("table.matrix")).to_be_visible()

    def chosen(text: str, entry: str) -> None:
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Principal, name, date or view").fill(text)
        page.locator(".palette").get_by_role("option", name=entry).click()

    chosen("pay", "User:payments principal: what may it do?")
    expect(page.locator("table.matrix thead th").nth(1)).to_have_text("User:payments")
    chosen("payments.v1", "payments.v1 Topic: who may read it?")
    expect(page.locator(".classes")).to_contain_text("User:payments")
    chosen("comp", "Compare view")
    expect(page.get_by_role("button", name="Compare")).to_have_attribute("aria-current", "page")
    chosen("find", "Findings view")
    expect(page).to_have_url(re.compile("view=findings"))
    chosen("nobody-has-this", "User:nobody-has-this no ACL names it: ask about it")
    expect(page.get_by_label("Principal", exact=True)).to_have_value("User:nobody-has-this")
    chosen("2999-01-01", "2999-01-01 state at the end of this day")
    expect(page).to_have_url(re.compile("at="))
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Principal, name, date or view").fill("1999-01-01")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("at=start"))
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Principal, name, date or view").fill("orders")
    expect(page.locator(".palette li").first).to_be_visible()
    assert_accessible(page, "palette-1280")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.long
def test_an_assumed_host_is_named_and_other_hosts_are_compared(page: Page, url: str) -> None:
    request = f"view=ask&principal={quote(f'User:{HOSTILE[0]}')}&name=orders.v1"
    page.goto(f"{url}/#{request}")
    verdict = page.locator(".verdict")
    expect(verdict).to_contain_text("No host was given: 127.0.0.1 is assumed.")
    expect(verdict).to_contain_text("The decision depends on the host.")
    expect(verdict).to_contain_text("but none of them matches; from 10.0.0.1 it is ALLOWED")
    page.get_by_label("Host").fill("10.0.0.1")
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")
    expect(verdict).to_contain_text("Client host: 10.0.0.1. The decision depends on the host.")
    expect(verdict).to_contain_text("from every other host it is DENIED")
    page.goto(f"{url}/#view=ask&principal=User:orders&name=orders.v1")
    expect(verdict).to_contain_text("The decision is the same for every host.")


@pytest.mark.long
def test_unknown_settings_behind_a_decision_are_shown(chromium: Browser, tmp_path: Path) -> None:
    """The log of this node has no broker registrations."""
    with running_node(tmp_path / "log", log_mode="create", describe_principals="User:ANONYMOUS") as node:
        create(node, [on_cluster(AclOperation.DESCRIBE)])
        create(node, [acl("User:net", AclOperation.READ, "orders", host="10.0.0.0/8")])
        with sidecar_of(node, console_listeners="*") as url, console_page(chromium, url) as page:
            page.goto(f"{url}/#view=ask&principal=User:net&name=orders&host=10.1.2.3")
            expect(page.locator(".result")).to_have_text("✗ DENIED")
            expect(page.locator(".verdict")).to_contain_text("ALLOWED from Kafka 4.4 on, DENIED before")


@pytest.mark.long
def test_two_states_are_compared_by_their_decisions(page: Page, url: str, client: httpx.Client) -> None:
    moments = client.get("/console/v1/moments").json()["moments"]
    removal = next(each["end_offset"] for each in moments if each["removed"]) - 1
    page.goto(f"{url}/#view=compare&since={removal - 1}&at={removal}")
    expect(page.locator(".flips li")).to_have_count(1)
    expect(page.locator(".flips li")).to_contain_text("revoked")
    cell_text = "User:alice: Read, Describe on TOPIC gone.v1 from any host"
    expect(page.locator(".flips li")).to_contain_text(cell_text)
    page.get_by_role("button", name=f"check at {removal - 1}").click()
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")
    page.go_back()
    page.get_by_role("button", name=f"check at {removal}", exact=True).click()
    expect(page.locator(".result")).to_have_text("✗ DENIED")
    # A change that was reverted in between changes no decision at the end.
    page.goto(f"{url}/#view=compare&since={removal - 2}&at={removal}")
    expect(page.get_by_role("region", name="Compare")).to_contain_text("No class of requests changed")
    temporary = page.get_by_role("region", name="Within the period")
    expect(temporary.locator("li")).to_contain_text(f"granted and revoked again {cell_text}")


@pytest.mark.long
def test_findings_are_shown_with_each_acl(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=acls&text=orders.v1")
    page.get_by_label("findings").check()
    expect(page.locator("table.list thead")).to_contain_text("Findings")
    redundant = page.locator("table.list tbody tr", has_text="10.0.0.2")
    expect(redundant).to_contain_text("broader-twin")
    expect(page.locator("table.list tbody tr", has_text="10.0.0.1")).not_to_contain_text("broader-twin")


def test_acls_are_listed_filtered_and_paged(page: Page, url: str, node: Node) -> None:
    page.goto(f"{url}/#view=acls")
    expect(page.locator(".counts")).to_contain_text(f"{node.status().acl_count} ACLs")
    page.get_by_label("With").fill("ALICE")
    expect(page.locator(".counts")).to_contain_text(f"{len(TEAMS) + len(HOSTILE) + 1} ACLs")
    assert page.locator("table.list tbody tr").count() == len(TEAMS) + len(HOSTILE) + 1


def test_the_node_view_shows_its_status(page: Page, url: str, node: Node) -> None:
    page.goto(f"{url}/#view=node")
    facts = page.locator(".facts")
    expect(facts).to_contain_text(node.status().digest)
    expect(facts).to_contain_text("ready")
    expect(page.locator(".chart")).to_be_visible()


def test_hostile_names_are_text_everywhere(page: Page, url: str) -> None:
    page.goto(f"{url}/#type=GROUP&who=alice")
    expect(page.locator("table.matrix tbody th", has_text="<script>")).to_be_visible()
    names = page.locator("table.matrix tbody th bdi").all_inner_texts()
    assert set(names) >= {HOSTILE[0], "a\\u{202e}gnp", *HOSTILE[2:]}
    for view in ("acls", "node", f"ask&principal={quote(f'User:{HOSTILE[0]}')}&name=orders.v1&host=10.0.0.1"):
        page.goto(f"{url}/#view={view}")
        expect(page.locator("main section")).to_be_visible()
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")
    assert page.title().endswith("aclog")


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_pages_are_accessible(chromium: Browser, url: str, width: int, scheme: ColorScheme) -> None:
    with console_page(chromium, url, width=width, color_scheme=scheme) as opened:
        for view, ready in (
            ("view=matrix&since=0", "td.flipped"),
            ("view=ask&principal=User:orders&operation=WRITE&name=orders.secret", ".history"),
            ("view=compare&since=0", ".flips"),
            ("view=changes", ".groups"),
            ("view=acls&lint=yes", "table.list"),
            ("view=findings", "table.list"),
            ("view=node", ".chart"),
        ):
            opened.goto(f"{url}/#{view}")
            expect(opened.locator(ready).first).to_be_visible()
            expect(opened.locator(".shown-state")).to_be_visible()
            assert_accessible(opened, f"{view.partition('&')[0][5:]}-{width}-{scheme}")


def test_the_page_is_small_and_its_policy_is_strict(client: httpx.Client) -> None:
    page = client.get("/", headers={"accept": "text/html"})
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assets = ROOT / "authorizer" / "console" / "assets"
    assert "<style" not in page.text
    assert page.text.count("<script") == page.text.count('<script type="module" src=')
    # Without the library's license, which no page loads.
    loaded = [each for each in assets.iterdir() if each.suffix in (".js", ".css", ".html", ".svg")]
    assert sum(each.stat().st_size for each in loaded) <= 200_000
    assert client.get("/console/assets/../routes.py").status_code == httpx.codes.NOT_FOUND
    # Programs get the index of the API at the same path.
    assert client.get("/").json()["name"] == "aclog"


def test_without_describe_only_own_decisions_are_shown(tmp_path: Path) -> None:
    with running_node(tmp_path / "log", log_mode="create") as node:
        create(
            node,
            [
                acl("User:ANONYMOUS", AclOperation.READ, "mine"),
                acl("User:*", AclOperation.WRITE, "mine", deny=True),
                acl("User:b", AclOperation.READ, "theirs"),
            ],
        )
        with (
            sidecar_of(node, console_listeners="*") as url,
            httpx.Client(base_url=url, timeout=SOON_S) as client,
        ):
            for path in ("moments", "changes", "acls", "matrix?at_offset=1", "matrix?since=1"):
                assert client.get(f"/console/v1/{path}").status_code == httpx.codes.FORBIDDEN, path
            matrix = client.get("/console/v1/matrix").json()
            assert [each["principal"] for each in matrix["columns"]["items"]] == ["User:ANONYMOUS"]
            assert [each["text"] for each in matrix["rows"]["items"]] == ["", "mine"]
            # Nor of a DENY that decides none of its requests.
            assert "denied" not in matrix
            now = client.get("/console/v1/now").json()
            assert not now["sees_all"]
            request = {
                "principal": "User:b",
                "operation": "READ",
                "resourceType": "TOPIC",
                "resourceName": "theirs",
            }
            assert client.get("/console/v1/ask", params=request).status_code == httpx.codes.FORBIDDEN
            own_name = client.get("/console/v1/ask", params=request | {"principal": "User:ANONYMOUS"})
            assert "User:b" not in own_name.text
            assert "history" not in own_name.json()


def test_a_disabled_console_answers_404(tmp_path: Path) -> None:
    with (
        running_node(tmp_path / "log", log_mode="create") as node,
        sidecar_of(node) as url,
        httpx.Client(base_url=url, timeout=SOON_S) as client,
    ):
        assert client.get("/", headers={"accept": "text/html"}).json()["name"] == "aclog"
        for path in ("/console/assets/main.js", "/console/v1/now", "/console/v1/matrix"):
            assert client.get(path).status_code == httpx.codes.NOT_FOUND
