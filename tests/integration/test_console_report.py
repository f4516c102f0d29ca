"""`aclog report`: the console's page as a file, a print file, CSV and JSON lines."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result
from playwright.sync_api import Browser, Page, expect

from authorizer.analysis.matrix.matrix import Matrix
from authorizer.analysis.permissions.decision_changes import decision_changes_between
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.analysis.request_space.host_answers import masks_by_host, operations_of
from authorizer.analysis.request_space.name_map import NameMap
from authorizer.api.ip_address import EXACT_HOSTS
from authorizer.cli.main import cli
from authorizer.cli.report import command, content
from authorizer.engine.decisions.state import AuthorizerSettings
from authorizer.engine.index.acl_index import AclIndex
from authorizer.node.node import Node
from records.acl import (
    AclOperation,
    ResourceType,
)
from records.log.open import open_log
from replay.load_image import load_image
from snapshot.digest import digest_to_string
from snapshot.image import AclsImage
from support.browser import browser
from support.console_page import LOOKS, ColorScheme, assert_accessible
from support.data import real_log
from support.node_acls import acl, on_cluster
from support.nodes import SOON_S, create, delete, running_node, sidecar_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

REAL = real_log("kraft-small")
SINCE = 100
HOSTILE = (
    "</script><script>document.title='taken'</script>",
    "<!--<script>",
    "a\u202egnp\u2028",
    "q\"'&amp;",
    "\U0001f600",
    "=cmd()",
)


def aclog(*args: object, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["report", *map(str, args)])
    assert result.exit_code == code, result.output
    return result


def json_of(*args: object) -> list[dict[str, Any]]:
    lines = aclog(*args, "--format", "json", "--output", "-").stdout.split("\n")
    return [json.loads(line) for line in lines if line]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Nested names and prefixes, wildcard principals, denials, hosts, and a history of changes."""
    log = tmp_path_factory.mktemp("report") / "log"
    read, write, every = AclOperation.READ, AclOperation.WRITE, AclOperation.ALL
    with running_node(log, log_mode="create") as running:
        describe = AclOperation.DESCRIBE
        create(
            running,
            [
                on_cluster(describe),
                acl("User:a", read, "orders.", prefixed=True),
                acl("User:a", write, "orders.eu.", prefixed=True),
                acl("User:a", read, "gone.v1"),
                acl("User:b", every, "ord", prefixed=True),
                acl("User:b", read, "orders.eu.secret", deny=True),
                acl("User:*", read, "orders.public", prefixed=True),
                acl("User:*", describe, "*"),
                acl("User:c", write, "*", host="10.0.0.1"),
                *(acl("User:c", read, f"orders.{at}.v1") for at in ("eu", "us", "eu.x", "eu.y")),
                *(acl("User:c", read, name, kind=ResourceType.GROUP) for name in HOSTILE),
                acl(f"User:{HOSTILE[0]}", read, "orders.eu.v1"),
                *(acl(f"User:team-{each}", read, "orders.eu.v1") for each in ("x.1", "x.2", "y.1")),
            ],
        )
        delete(running, "gone.v1")
        create(running, [acl("User:*", read, "pay.", prefixed=True), acl("User:d", read, "pay.v1")])
        create(running, [acl("User:c", write, "orders.eu.v1", deny=True, host="10.0.0.1")])
        create(running, [acl("User:d", read, "brief.v1")])
        delete(running, "brief.v1")
        create(
            running, [acl("User:c", read, "orders.", prefixed=True), acl("User:team-x.2", write, "pay.v1")]
        )
        yield running


@pytest.fixture(scope="module")
def client(node: Node) -> Iterator[httpx.Client]:
    with (
        sidecar_of(node, console_listeners="*") as url,
        httpx.Client(base_url=f"{url}/console/v1/", timeout=SOON_S) as asking,
    ):
        yield asking


@pytest.fixture(scope="module")
def since(client: httpx.Client) -> int:
    """The last record of the first batch."""
    return int(client.get("moments").json()["moments"][1]["end_offset"]) - 1


@pytest.fixture(scope="module")
def report(node: Node, since: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The node's log as a page."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    aclog("--log", node.status().log_url, "--since", since, "--output", file)
    return file


@contextmanager
def opened(
    chromium: Browser, *, width: int = 1280, color_scheme: ColorScheme = "light", bypass_csp: bool = False
) -> Iterator[Page]:
    """A page without network; at the end it has requested only the file and logged no error."""
    size = {"width": width, "height": 800}
    with chromium.new_context(
        viewport=size,  # type: ignore[arg-type]
        color_scheme=color_scheme,
        offline=True,
        bypass_csp=bypass_csp,
    ) as context:
        page = context.new_page()
        page.set_default_timeout(SOON_S * 1000)
        requested: list[str] = []
        complaints: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        page.on(
            "console", lambda message: complaints.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
        assert {url.partition("#")[0].partition("://")[0] for url in requested} <= {"file"}
        assert len({url.partition("#")[0] for url in requested}) <= 1
        assert not complaints


def held(page: Page, path: str, **query: Any) -> Any:
    """The answer of the page in the file."""
    return page.evaluate(
        "([path, query]) => $['file_api.js'].ask(`console/v1/${path}`, query)", [path, query]
    )


def _data(file: Path) -> dict[str, Any]:
    """The data in a page's file."""
    found = re.search(r'id="data"[^>]*>([^<]*)<', file.read_text(encoding="utf-8"))
    assert found is not None
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return data


#: Filters and pages of the lists of changes.
_FILTERS: list[dict[str, Any]] = [
    {"who": "USER:A"},
    {"containing": "pay."},
    {"type": "TOPIC", "effect": "granted"},
    {"operation": "READ", "effect": "revoked"},
    {"everyone": True},
    {"first": 1, "count": 2},
]

#: Filters of the findings.
_OF_FINDINGS: list[dict[str, Any]] = [
    {},
    {"rule": "broader-twin"},
    {"who": "user:c", "can_go": True},
    {"severity": "info"},
]

#: What a reader types and chooses.
_NARROWED: list[dict[str, str | bool]] = [
    {},
    {"containing": "EU"},
    {"containing": "v1", "who": "user:c"},
    {"who": "taken"},
    {"teams": True},
    {"teams": True, "who": "team"},
    {"teams": True, "team": "User:team-x."},
    {"only_changed": True},
    {"only_changed": True, "teams": True},
]


@pytest.mark.long
def test_the_file_answers_as_the_node(
    chromium: Browser, report: Path, client: httpx.Client, since: int
) -> None:
    whole: dict[str, str | int] = {"row": 0, "rows": 200, "column": 0, "columns": 200}
    with opened(chromium) as page:
        page.goto(f"{report.as_uri()}#view=matrix")
        expect(page.locator("table.matrix tbody th", has_text="orders.*")).to_be_visible()
        compared = 0
        for resource_type in ("TOPIC", "GROUP", "CLUSTER", "USER"):
            unders = [""]
            for under in unders:
                for narrowed in _NARROWED:
                    query = whole | {"type": resource_type, "since": since} | narrowed
                    if under:
                        query["under"] = under
                    ours = held(page, "matrix", **query)
                    assert ours == client.get("matrix", params=query).json(), query
                    if not narrowed:
                        unders += [row["text"] for row in ours["rows"]["items"] if row["inside"]]
                        compared += sum(map(len, ours["cells"]))
        assert compared > 100
        acls = {"first": 0, "count": 100}
        for text in ("", "ORDERS.EU", "user:c"):
            requested = acls | ({"containing": text} if text else {})
            assert held(page, "acls", **requested) == client.get("acls", params=requested).json()
            assert held(page, "findings", **requested) == client.get("findings", params=requested).json()
        for query in _OF_FINDINGS:
            ours = held(page, "lint", **query)
            theirs = client.get("lint", params=query).json()
            for answer in (ours, theirs):
                answer["findings"].sort(key=lambda each: (each["rule"], each["acl"]["id"]))
            assert ours == theirs, query
        assert held(page, "lint")["total"] > 0
        # A file also has the names of the compared state, such as the prefix orders.eu.
        for text in ("orders", "USER:c us", "a b c d"):
            searched: dict[str, str | int] = {"text": text, "count": 4}
            assert held(page, "names", **searched) == client.get("names", params=searched).json()
        assert held(page, "flips", since=since) == client.get("flips", params={"since": since}).json()
        assert held(page, "changes", after=since) == client.get("changes", params={"after": since}).json()
        for query in _FILTERS:
            for path, start in (("changes", "after"), ("flips", "since")):
                params = query | {start: since}
                expected = client.get(path, params=params).json()
                assert held(page, path, **params) == expected, (path, query)


def test_who_may_and_since_when_are_those_of_the_node(
    chromium: Browser, report: Path, client: httpx.Client, since: int
) -> None:
    """For every row, and for every operation that one of its ACLs names."""
    with opened(chromium) as page:
        page.goto(report.as_uri())
        listed = _data(report)["allowed"]
        assert {each["operation"] for each in listed} > {"ANY", "READ", "WRITE"}
        rows = 0
        for each in listed:
            query = {
                "type": each["type"],
                "operation": each["operation"],
                "name": each["text"],
                "prefix": not each["is_name"],
                "count": 200,
            }
            theirs = client.get("allowed", params=query).json()
            assert held(page, "allowed", **query) == theirs, query
            rows += theirs["total"]
        assert rows > len(listed)
        filtered = {"type": "TOPIC", "operation": "ANY", "name": "orders.", "prefix": True, "count": 200}
        for narrowed in ({"who": "USER:A"}, {"team": "User:team-"}, {"first": 2, "count": 3}):
            query = filtered | narrowed
            assert held(page, "allowed", **query) == client.get("allowed", params=query).json(), query
        undone = {"after": since, "temporary": True}
        ours = held(page, "changes", **undone)
        assert ours["total"] == 2
        assert ours == client.get("changes", params=undone).json()
        # The page marks what was granted in the period.
        page.goto("about:blank")
        page.goto(f"{report.as_uri()}#view=ask&anyone=yes&name=pay.&prefix=yes&operation=ANY&since={since}")
        shown = page.locator(".classes > tr")
        expect(shown.filter(has_text="User:team-x.2").first).to_contain_text("in this period")
        expect(shown.filter(has_text="User:b")).to_have_count(0)
        with page.expect_download() as download:
            page.get_by_role("button", name="CSV", exact=True).click()
        saved = list(csv.DictReader(Path(download.value.path()).read_text(encoding="utf-8").splitlines()))
        assert len(saved) == shown.count()
        assert all(row["since"] for row in saved if row["who"] == "User:team-x.2")
        # For another name: the command.
        page.get_by_label("Resource name").fill("pay.v2")
        expect(page.locator("main .error")).to_contain_text("--topic 'pay.v2*'")


@pytest.mark.long
def test_the_page_works_without_a_network(chromium: Browser, report: Path, node: Node, since: int) -> None:
    with opened(chromium) as page:
        # It opens on what changed.
        page.goto(report.as_uri())
        expect(page.locator(".flips li").first).to_be_visible()
        expect(page.locator(".shown-state")).to_contain_text(f"offset {node.status().end_offset - 1},")
        assert re.search(
            r"aclog report: .*/log, cluster [\w-]{22}, 2[\dT:-]+Z to 2[\dT:-]+Z",
            page.title(),
        )
        page.get_by_role("button", name="Matrix", exact=True).click()
        page.get_by_role("button", name="stop comparing").click()
        page.get_by_role("button", name="what changed").click()
        expect(page.locator("td.flipped").first).to_be_visible()
        page.get_by_role("button", name="orders.*", exact=False).first.click()
        expect(page.locator("table.matrix tbody th", has_text="orders.public*")).to_be_visible()
        # For a request without an answer in the file, the page shows the command.
        page.locator("table.matrix tbody tr", has_text="orders.public").locator(".cell").nth(1).click()
        expect(page.locator("main .error")).to_contain_text("aclog what-can --acls")
        page.get_by_label("Principal").fill("")
        expect(page.locator(".classes > tr").first).to_contain_text("every principal")
        page.get_by_label("Resource name").fill("orders.public.x")
        expect(page.locator("main .error")).to_contain_text("aclog who-can --acls")
        expect(page.locator("main .error")).to_contain_text("--operation READ --topic 'orders.public.x*'")
        page.get_by_label("Resource name").fill("orders.public")
        page.get_by_label("Principal", exact=True).fill("User:d")
        page.get_by_label("Which names").select_option("")
        expect(page.locator("main .error")).to_contain_text("aclog check --log")
        expect(page.locator("main .error")).to_contain_text("--topic orders.public --explain")
        page.get_by_role("button", name="Compare").click()
        expect(page.locator(".flips li").first).to_be_visible()
        page.locator(".flips li", has_text="pay.").get_by_role("button", name="check now").first.click()
        expect(page.locator(".result")).to_have_text("✓ ALLOWED")
        expect(page.locator(".acls").first).to_contain_text("ALLOW User:* Read on TOPIC pay.*")
        page.go_back()
        page.locator(".flips li", has_text="pay.").get_by_role(
            "button", name=f"check at {since}"
        ).first.click()
        expect(page.locator(".result")).to_have_text("✗ DENIED")
        page.get_by_role("button", name="State").click()
        expect(page.locator(".facts")).to_contain_text(node.status().digest)
        expect(page.locator(".facts")).to_contain_text("all principals and names")
        page.goto(f"{report.as_uri()}#at=2")
        expect(page.locator("main .error")).to_contain_text("--at-offset 2")
        assert page.title().startswith("aclog report: ")


@pytest.mark.long
def test_hostile_names_are_text_and_the_policy_is_strict(chromium: Browser, report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    assert "unsafe" not in text.partition("<title>")[0]
    assert "default-src 'none'" in text
    assert text.count("<script") == 2
    with opened(chromium) as page:
        page.goto(f"{report.as_uri()}#type=GROUP&who=User:c")
        expect(page.locator("table.matrix tbody th", has_text="<!--")).to_be_visible()
        shown = set(page.locator("table.matrix tbody th bdi").all_inner_texts())
        assert shown >= {*HOSTILE[:2], "a\\u{202e}gnp\\u{2028}", *HOSTILE[3:]}
        assert page.title() != "taken"


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_pages_are_accessible(
    chromium: Browser, report: Path, since: int, width: int, scheme: ColorScheme
) -> None:
    # The page's policy does not allow axe, so it is injected.
    with opened(chromium, width=width, color_scheme=scheme, bypass_csp=True) as page:
        for view, ready in (("matrix", "td.flipped"), ("compare", ".flips"), ("node", ".facts")):
            page.goto(f"{report.as_uri()}#view={view}&since={since}")
            expect(page.locator(ready).first).to_be_visible()
            assert_accessible(page, f"report-{view}-{width}-{scheme}")


def image_at(offset: int | None = None) -> AclsImage:
    with closing(open_log(str(REAL))) as log:
        return load_image(log, at_offset=offset).image


@pytest.mark.long
def test_a_real_log_equals_the_library_cell_by_cell(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    aclog("--log", REAL, "--since", SINCE, "--output", file)
    now, then = image_at(), image_at(SINCE)
    settings = AuthorizerSettings.from_configs({}).with_version_of(now)
    with opened(chromium) as page:
        page.goto(file.as_uri())
        for resource_type in ResourceType:
            if resource_type <= ResourceType.ANY or resource_type.name == "UNKNOWN":
                continue
            found = held(
                page,
                "matrix",
                type=resource_type.name,
                row=0,
                rows=999,
                column=0,
                columns=999,
                since=SINCE,
            )
            matrix, before = (
                Matrix.of(AclIndex.of(image, networks=EXACT_HOSTS), settings, resource_type)
                for image in (now, then)
            )
            who = [each["principal"] for each in found["columns"]["items"]]
            assert who == [None, *sorted(matrix.principals | before.principals)]
            keys = [(row["text"], row["is_name"]) for row in found["rows"]["items"]]
            columns, pairs = matrix.columns(who), matrix.changes_since(before, who)
            assert found["cells"] == [[list(column.cell(key)) for column in columns] for key in keys]
            assert found["denied"] == [[matrix.denied(each, key) for each in who] for key in keys]
            assert found["granted"] == [[list(granted.cell(key)) for granted, _ in pairs] for key in keys]
            assert found["revoked"] == [[list(revoked.cell(key)) for _, revoked in pairs] for key in keys]
        state = held(page, "now")["facts"]
        assert (state["digest"], state["aclCount"]) == (digest_to_string(now.digest), len(now))
        assert state["clusterId"] == "aclogFixtureCluster001"
        assert state["kafkaVersion"]["source"] != "configured"


def test_json_equals_the_effective_permissions() -> None:
    found = json_of("--log", REAL, "--since", SINCE)
    now, then = image_at(), image_at(SINCE)
    settings = AuthorizerSettings.from_configs({}).with_version_of(now)
    meaning, earlier = (EffectivePermissions.of(each.merged().columns, settings) for each in (now, then))
    assert found[0]["report"]["meaning"] == meaning.digest.hex()
    # The access lines contain the complete effective permissions.
    for resource_type, wildcard in meaning.wildcard.items():
        lines = [each for each in found if each.get("access") == resource_type.name]
        for principal in {each["principal"] for each in lines}:
            expected = wildcard if principal == "*" else meaning.overrides(principal, resource_type)
            assert _answers(lines, principal) == _expected(expected), (resource_type, principal)
        assert {each["principal"] for each in lines} >= {
            principal for principal, theirs in meaning.principals.items() if resource_type in theirs
        }
    acls = {each["id"] for each in found if each.get("acl") == "inForce"}
    assert len(acls) == len(now)
    flips = list(decision_changes_between(earlier, meaning))
    assert sum(len(each.request_class.operations) for each in flips) == sum("flip" in each for each in found)
    changes = [each for each in found if "change" in each]
    added, removed = (sum(each["change"] == kind for each in changes) for kind in ("added", "removed"))
    assert len(then) + added - removed == len(now)
    assert all(each["endOffset"] > SINCE + 1 for each in changes)
    assert {each["releases"] for each in found if "flip" in each} == {None}
    findings = sum(len(each.get("findings", ())) for each in found)
    assert found[-1]["summary"]["findings"] == findings > 0
    for line in found:
        if "flip" in line:
            assert (line["before"]["result"], line["after"]["result"]) == (
                ("DENIED", "ALLOWED") if line["flip"] == "granted" else ("ALLOWED", "DENIED")
            )


def _answers(lines: list[dict[str, Any]], principal: str) -> dict[tuple[str, bool], Any]:
    return {
        (str(each.get("name", each.get("prefix"))), "name" in each): each.get("allowed")
        for each in lines
        if each["principal"] == principal
    }


def _expected(answers: NameMap[Any]) -> dict[tuple[str, bool], Any]:
    places = list(answers.entries)
    if answers.default is not None or not places:
        places.insert(0, ("", False, answers.default))
    return {
        (name, is_name): None
        if answer is None
        else {
            host or "*": [each.name for each in operations_of(mask)]
            for host, (mask,) in masks_by_host(answer)
        }
        for name, is_name, answer in places
    }


def test_csv_has_the_same_in_one_table() -> None:
    text = aclog("--log", REAL, "--since", SINCE, "--format", "csv", "--output", "-").stdout
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    found = json_of("--log", REAL, "--since", SINCE)
    by_section = {section: [row for row in rows if row["section"] == section] for section in _SECTIONS}
    assert {row["section"] for row in rows} == set(_SECTIONS)
    assert [row["detail"] for row in by_section["acl"]] == [
        each["id"] for each in found if "findings" in each
    ]
    hosts = sum(len(each.get("allowed", ("as",))) for each in found if "access" in each)
    assert len(by_section["access"]) == hosts
    assert len(by_section["change"]) == sum("change" in each for each in found)
    assert len(by_section["finding"]) == found[-1]["summary"]["findings"]
    assert len(by_section["flip"]) == found[-1]["summary"]["flips"]
    facts = {row["kind"]: row["detail"] for row in by_section["report"]}
    assert facts["digest"] == found[0]["report"]["digest"]


_SECTIONS = ("report", "access", "acl", "finding", "change", "flip")


@pytest.mark.long
def test_the_print_file_has_every_row_and_no_script(
    chromium: Browser, tmp_path: Path, node: Node, since: int
) -> None:
    file = tmp_path / "print.html"
    url = node.status().log_url
    aclog("--log", url, "--since", since, "--format", "print", "--output", file)
    text = file.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "\u202e" not in text
    summary = json_of("--log", url, "--since", since)[-1]["summary"]
    with opened(chromium) as page:
        page.goto(file.as_uri())
        tables = page.locator("table")
        sections = page.locator("section")
        assert sections.last.locator("table").nth(1).locator("tbody tr").count() == summary["flips"]
        assert sections.last.locator("table").first.locator("tbody tr").count() == summary["changes"]
        listed = page.locator("section", has_text=re.compile(rf"^{summary['acls']} ACLs"))
        assert listed.locator("tbody tr").count() == summary["acls"]
        assert listed.locator(".rule").count() == summary["findings"]
        rows = page.locator("tr").count()
        assert tables.count() == page.locator("thead").count()
        # The PDF has every row, on more than one page.
        printed = page.pdf(prefer_css_page_size=True, tagged=True)
    assert printed.count(b"/S /TR") + printed.count(b"/S/TR") == rows
    assert len(re.findall(rb"/Type ?/Page\b", printed)) >= 4


def test_a_change_of_single_releases_names_them(tmp_path: Path) -> None:
    """The node's release is unknown, and Kafka 4.4 alone matches networks."""
    with running_node(tmp_path / "log", log_mode="create") as running:
        create(running, [on_cluster(AclOperation.DESCRIBE)])
        create(running, [acl("User:a", AclOperation.READ, "orders", host="10.0.0.0/8")])
        found = json_of("--log", running.status().log_url, "--since", 0)
    assert {each["releases"] for each in found if "flip" in each} == {"from Kafka 4.4 on"}


def test_a_pdf_is_printed_by_the_real_browser(
    tmp_path: Path, node: Node, since: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = browser()
    if chosen.libraries is not None:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(chosen.libraries))
    monkeypatch.setenv("ACLOG_CHROMIUM", chosen.path)
    given = ("--log", node.status().log_url, "--since", since, "--format", "pdf")
    aclog(*given, "--output", tmp_path / "q3.pdf")
    printed = (tmp_path / "q3.pdf").read_bytes()
    assert printed.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type ?/Page\b", printed)) >= 4
    summary = json_of(*given[:-2])[-1]["summary"]
    assert printed.count(b"/S /TR") + printed.count(b"/S/TR") > sum(
        summary[each] for each in ("acls", "changes", "flips")
    )
    assert "name it *.pdf" in aclog(*given, "--output", tmp_path / "q3.html", code=2).output
    # Without a browser, and with one that fails: nothing is written.
    monkeypatch.setenv("ACLOG_CHROMIUM", str(tmp_path / "none"))
    assert "which is no program" in aclog(*given, "--output", tmp_path / "no.pdf", code=2).output
    monkeypatch.setenv("ACLOG_CHROMIUM", "/bin/false")
    assert "did not print" in aclog(*given, "--output", tmp_path / "no.pdf", code=2).output
    monkeypatch.delenv("ACLOG_CHROMIUM")
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = aclog(*given, "--output", tmp_path / "no.pdf", code=2).output
    assert "needs Chromium or Chrome" in missing
    assert "--format print" in missing
    assert not (tmp_path / "no.pdf").exists()


def test_a_report_is_restricted_to_principals_and_names(node: Node, since: int) -> None:
    given = ("--log", node.status().log_url, "--since", since)
    whole = json_of(*given)
    found = json_of(*given, "--principal", "User:c", "--topic", "orders.eu*")
    assert found[0]["report"]["narrowedTo"] == ["User:c", "TOPIC orders.eu*"]
    lines = [each for each in found if "access" in each]
    assert {each["principal"] for each in lines} == {"*", "User:c"}
    assert {each["access"] for each in lines} == {"TOPIC"}
    named = {each["name"]: each for each in lines if "name" in each}
    assert named["orders.eu.v1"] in whole
    # ACLs that cover the names are there, but none of other names or principals.
    acls = {(each["principal"], each["resourceName"]) for each in found if each.get("acl") == "inForce"}
    assert acls >= {("User:c", "orders."), ("User:*", "*"), ("User:c", "orders.eu.v1")}
    assert acls.isdisjoint({("User:a", "orders."), ("User:c", "orders.us.v1"), ("User:*", "pay.")})
    assert all(each in whole for each in found if each.get("acl") == "inForce")
    changes = [each["acl"]["resourceName"] for each in found if "change" in each]
    assert sorted(changes) == ["orders.", "orders.eu.v1"]
    assert all(each in whole for each in found if "flip" in each)
    one = json_of("--log", node.status().log_url, "--topic", "orders.eu.v1")
    assert {each.get("name") for each in one if "access" in each} == {"orders.eu.v1"}


@pytest.mark.long
def test_a_restricted_page_begins_at_its_names(
    chromium: Browser, node: Node, client: httpx.Client, tmp_path: Path
) -> None:
    file = tmp_path / "eu.html"
    aclog("--log", node.status().log_url, "--topic", "orders.eu.*", "--output", file)
    whole: dict[str, str | int] = {"type": "TOPIC", "row": 0, "rows": 200, "column": 0, "columns": 200}
    with opened(chromium) as page:
        page.goto(file.as_uri())
        expect(page.locator("table.matrix tbody th", has_text="orders.eu.v1")).to_be_visible()
        ours = held(page, "matrix", **whole)
        theirs = client.get("matrix", params=whole | {"under": "orders.eu."}).json()
        assert ours["rows"] == theirs["rows"]
        shown = {each["principal"]: at for at, each in enumerate(ours["columns"]["items"])}
        for at, each in enumerate(theirs["columns"]["items"]):
            if each["principal"] in shown:
                ours_cells = [row[shown[each["principal"]]] for row in ours["cells"]]
                assert ours_cells == [row[at] for row in theirs["cells"]]
        page.goto(f"{file.as_uri()}#type=GROUP")
        expect(page.locator("main .error")).to_contain_text("contains only TOPIC orders.eu.*")


def test_any_set_of_acls_and_any_state(tmp_path: Path, node: Node, client: httpx.Client) -> None:
    by_offset = json_of("--log", REAL, "--at-offset", SINCE)
    written = datetime.fromtimestamp(by_offset[0]["report"]["timestamp"] / 1000, UTC).isoformat()
    by_time = json_of("--log", REAL, "--at-time", written)
    assert by_time[0]["report"]["endOffset"] >= by_offset[0]["report"]["endOffset"]
    assert by_time[0]["report"]["timestamp"] == by_offset[0]["report"]["timestamp"]
    assert by_offset[1:] == json_of("--acls", f"{REAL}@{SINCE}")[1:]
    checkpoint = next(REAL.glob("*264*.checkpoint"))
    assert json_of("--acls", checkpoint)[0]["report"]["clusterId"] is None
    assert json_of("--acls", checkpoint)[-1]["summary"]["acls"] > 0
    store = tmp_path / "store"
    made = CliRunner().invoke(cli, ["snapshot", "create", "--log", str(REAL), "--snapshots", str(store)])
    assert made.exit_code == 0, made.output
    stored, whole = json_of("--acls", store), json_of("--log", REAL)
    for name in ("clusterId", "endOffset", "epoch", "timestamp", "digest", "meaning"):
        assert stored[0]["report"][name] == whole[0]["report"][name], name
    running = json_of("--acls", str(client.base_url.copy_with(raw_path=b"/")))
    assert running[0]["report"]["digest"] == node.status().digest


def test_wrong_usage_is_reported_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: Node
) -> None:
    file = tmp_path / "report.html"
    to = ("--output", file)
    assert (
        "cannot be used together: each names a state"
        in aclog("--log", REAL, "--at-offset", 3, "--at-time", "2026-01-01", *to, code=2).output
    )
    assert "has no record of" in aclog("--log", REAL, "--since", "2020-01-01", *to, code=2).output
    assert "Choose a --since before" in aclog("--log", REAL, "--since", 280, *to, code=2).output
    assert "aclog diff" in aclog("--acls", tmp_path / "x", "--since", 3, *to, code=2).output
    assert "not a log, snapshot store" in aclog("--acls", tmp_path / "x", *to, code=2).output
    assert "exactly one resource" in aclog("--log", REAL, "--topic", "a", "--group", "b", *to, code=2).output
    assert "--output" in aclog("--log", REAL, code=2).output
    monkeypatch.setitem(command._ACLS_MAXIMUM, "html", 5)
    many = aclog("--log", REAL, *to, code=2).output
    assert "59 ACLs are too many for --format html" in many
    assert "--principal" in many
    aclog("--log", REAL, "--principal", "User:bob", "--topic", "audit", *to)
    assert file.exists()
    file.unlink()
    removal = tmp_path / "gone" / "report.json"
    aclog("--log", REAL, "--format", "json", "--output", removal, code=2)
    assert list(tmp_path.iterdir()) == []
    # A large report says what is left out.
    monkeypatch.setitem(command._ACLS_MAXIMUM, "html", 200)
    monkeypatch.setitem(command._LINES_MAXIMUM, "html", 3)
    assert "left out: only 3 of 7 classes" in aclog("--log", REAL, "--since", SINCE, *to).stderr
    monkeypatch.setattr(content, "ACLS_MAXIMUM", 5)
    (left_out,) = json_of("--log", node.status().log_url)[0]["report"]["leftOut"]
    assert "aclog lint" in left_out
