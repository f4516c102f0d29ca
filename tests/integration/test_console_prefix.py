"""Requests for prefixes and for all principals in the console, compared with the library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from authorizer.analysis.permissions.access_queries import permissions_of, permitted_principals
from authorizer.analysis.permissions.request_class import describe_hosts, describe_principal
from authorizer.node.node import Node
from records.acl import (
    AclOperation,
    ResourceType,
)
from support.console_page import assert_accessible
from support.node_acls import acl, on_cluster
from support.nodes import SOON_S, create, running_node, sidecar_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]

READ, WRITE = AclOperation.READ, AclOperation.WRITE


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    log = tmp_path_factory.mktemp("console") / "log"
    with running_node(log, log_mode="create") as running:
        create(running, [on_cluster(AclOperation.DESCRIBE)])
        create(
            running,
            [
                acl("User:alice", READ, "orders.", prefixed=True),
                acl("User:alice", READ, "orders.secret", deny=True),
                acl("User:alice", READ, "orders.lab.", prefixed=True, deny=True, host="10.0.0.1"),
                acl("User:bob", READ, "orders.", prefixed=True),
                acl("User:carol", READ, "orders.v1"),
                acl("User:dave", READ, "dave-a"),
                acl("User:star", READ, "team*", kind=ResourceType.GROUP),
                acl("User:star", READ, "teams", kind=ResourceType.GROUP, prefixed=True),
                acl("User:dave", READ, "dave-b"),
                *(acl(f"User:reader-{number:02}", READ, "orders.v2") for number in range(60)),
            ],
        )
        yield running


def fetch_classes(url: str, **question: object) -> dict[str, object]:
    answer = httpx.get(f"{url}/console/v1/allowed", params=question, timeout=SOON_S)  # type: ignore[arg-type]
    assert answer.status_code == httpx.codes.OK, answer.text
    return dict(answer.json())


@pytest.mark.long
def test_a_prefix_is_answered_by_classes_with_witnesses(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=ask")
    page.get_by_label("Principal", exact=True).fill("User:alice")
    page.get_by_label("Which names").select_option("all names with the prefix")
    page.get_by_label("Resource name").fill("orders.")
    expect(page.locator(".result")).to_contain_text("SOME")
    classes = page.locator(".classes > tr")
    expect(classes).to_have_count(4)
    cells = (
        ("Principal", "User:alice"),
        ("Names", "orders.* except orders.lab.*, orders.secret"),
        ("Hosts", "any host"),
    )
    for label, text in cells:
        expect(classes.nth(0).locator(f"[data-label={label}]")).to_have_text(text)
    expect(classes.nth(0)).to_contain_text("ALLOWED by ALLOW User:alice Read on TOPIC orders.*")
    refused = classes.filter(has_text="orders.secret").filter(has_text="denied")
    expect(refused).to_contain_text("DENIED by DENY User:alice Read on TOPIC orders.secret")
    refused.get_by_role("button", name="check").click()
    expect(page.locator(".result")).to_have_text("✗ DENIED")
    page.go_back()
    classes.nth(0).get_by_role("button", name="check").click()
    expect(page.locator(".result")).to_have_text("✓ ALLOWED")
    page.go_back()
    page.get_by_label("Principal", exact=True).fill("User:bob")
    expect(page.locator(".result")).to_contain_text("ALL NAMES")
    page.get_by_label("Operation").select_option("WRITE")
    expect(page.locator(".result")).to_contain_text("NONE")


def test_the_classes_of_a_principal_equal_the_librarys(url: str, node: Node) -> None:
    state = node.authorizer.state
    table = state.index.image.merged().columns
    for principal in ("User:alice", "User:bob", "User:carol", "User:nobody"):
        found = fetch_classes(url, principal=principal, operation="READ", name="", prefix=True)
        allowed = [each for each in found["classes"] if each["allowed"]]  # type: ignore[attr-defined]
        expected = [
            each
            for each in permissions_of(table, state.settings, principal)
            if each.resource_type == ResourceType.TOPIC and READ in each.operations
        ]
        names = [{(name["text"], name["is_name"]) for name in each["names"]} for each in allowed]
        assert names == [{(name.text, name.is_name) for name in each.names} for each in expected]
        assert [each["hosts"] for each in allowed] == [describe_hosts(each) for each in expected]


@pytest.mark.long
def test_a_name_with_a_star_is_not_shown_as_a_prefix(page: Page, url: str) -> None:
    page.goto(f"{url}/#view=ask&principal=User:star&type=GROUP&prefix=yes")
    allowed = page.locator(".classes > tr.allowed")
    expect(allowed).to_contain_text("team* (literal), teams*")
    expect(allowed).to_contain_text("ALLOW User:star Read on GROUP team* (literal) from any host")
    expect(allowed).to_contain_text("ALLOW User:star Read on GROUP teams* from any host")


@pytest.mark.long
def test_each_class_lists_all_acls_that_decide_some_of_it(page: Page, url: str) -> None:
    """The witness's ACL does not decide all names of the class."""
    found = fetch_classes(url, principal="User:dave", operation="READ", name="", prefix=True)
    (allowed,) = [each for each in found["classes"] if each["allowed"]]  # type: ignore[attr-defined]
    first, other_acls = allowed["decision"]["acl"]["resourceName"], allowed["other_acls"]
    assert (first, [each["resourceName"] for each in other_acls]) == ("dave-a", ["dave-b"])
    assert allowed["other_acls_complete"] is True
    page.goto(f"{url}/#view=ask&principal=User:dave&prefix=yes")
    classes = page.locator(".classes > tr.allowed")
    expect(classes.first).to_contain_text(
        "for example the request below: ALLOWED by ALLOW User:dave Read on TOPIC dave-a"
    )
    expect(classes.first).to_contain_text("other requests of this class by 1 more ACLs")
    expect(classes.first.locator("ul.acls li")).to_have_text(
        ["ALLOW User:dave Read on TOPIC dave-b from any host"]
    )
    page.get_by_label("Principal", exact=True).fill("User:carol")
    expect(classes.first).to_contain_text("ALLOWED by ALLOW User:carol")
    expect(classes.first).not_to_contain_text("other requests")


@pytest.mark.long
def test_allowed_principals_are_listed_page_by_page(page: Page, url: str, node: Node) -> None:
    page.goto(f"{url}/#view=ask&principal=User:alice&name=orders.&prefix=yes")
    expect(page.locator(".result")).to_contain_text("SOME")
    page.get_by_label("Principal", exact=True).fill("")
    state = node.authorizer.state
    table = state.index.image.merged().columns
    expected = list(permitted_principals(table, state.settings, ResourceType.TOPIC, ("orders.", False), READ))
    expect(page.locator(".result")).to_have_text(f"{len(expected)} classes")
    expect(page.locator(".classes > tr")).to_have_count(50)
    page.get_by_label("Next page").click()
    expect(page.locator(".classes > tr")).to_have_count(len(expected) - 50)
    found = fetch_classes(url, operation="READ", name="orders.", prefix=True, count=200)
    assert [each["who"] for each in found["classes"]] == [describe_principal(each) for each in expected]  # type: ignore[attr-defined]
    assert_accessible(page, "who-may-1280-light")


@pytest.mark.long
def test_a_row_of_many_names_checks_all_of_them(page: Page, url: str) -> None:
    page.goto(f"{url}/#who=alice")
    page.locator("tr", has_text="orders.*").locator("td button.cell").click()
    expect(page.get_by_label("Which names")).to_have_value("yes")
    expect(page.locator(".result")).to_contain_text("SOME")


@pytest.mark.long
def test_a_cell_checks_an_operation_that_it_shows(page: Page, url: str, node: Node) -> None:
    """An operation that the cell shows: the last checked one if possible, not always Read."""
    create(node, [acl("User:writer", AclOperation.WRITE, "filled.", prefixed=True)])
    create(node, [acl("User:owner", AclOperation.ALL, "filled.", prefixed=True)])
    for principal, operation in (("writer", "WRITE"), ("owner", "ALL")):
        page.goto("about:blank")
        page.goto(f"{url}/#who={principal}&containing=filled.")
        page.locator("tr", has_text="filled.*").locator("td button.cell").click()
        expect(page.get_by_label("Operation", exact=True)).to_have_value(operation)
        expect(page.locator(".result")).to_contain_text("ALL NAMES")
    page.goto("about:blank")
    page.goto(f"{url}/#who=writer&containing=filled.&operation=DESCRIBE")
    page.locator("tr", has_text="filled.*").locator("td button.cell").click()
    expect(page.get_by_label("Operation", exact=True)).to_have_value("DESCRIBE")


def test_without_describe_only_own_classes_are_shown(tmp_path: Path) -> None:
    with running_node(tmp_path / "log", log_mode="create") as node:
        create(node, [acl("User:ANONYMOUS", READ, "mine"), acl("User:b", READ, "theirs")])
        with sidecar_of(node, console_listeners="*") as url:
            found = fetch_classes(url, operation="READ", prefix=True)
            assert found["principal"] == "User:ANONYMOUS"
            assert "theirs" not in str(found)
            assert "User:b" not in str(found)
            for question in ({"principal": "User:b"}, {"at_offset": 1}):
                refused = httpx.get(
                    f"{url}/console/v1/allowed", params={"operation": "READ", "prefix": True, **question}
                )
                assert refused.status_code == httpx.codes.FORBIDDEN
            wrong = httpx.get(f"{url}/console/v1/allowed", params={"operation": "READ", "name": "a b"})
            assert wrong.status_code == httpx.codes.BAD_REQUEST
            assert "no TOPIC can have the name `a b`" in wrong.text
