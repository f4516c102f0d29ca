"""Writes through a node, and by commands, to a real cluster's metadata log, as its AdminClient sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import KafkaException
from confluent_kafka import admin as kafka
from playwright.sync_api import Browser, expect

from authorizer.api.errors import InvalidRequestError, MassRemovalError, NotControllerError
from authorizer.cli.acl_sources.plan_file import read_plan
from authorizer.cli.main import cli
from authorizer.node.node import Node
from records.acl import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from records.errors import LogReadOnlyError
from records.log.open import open_log
from records.log.quorum.session import Session
from support.console_page import console_page
from support.json_acls import acl, json_lines
from support.kafka_broker import Broker
from support.kafka_quorum import KafkaQuorum
from support.node_acls import CONTEXT, may, named, topic_acl
from support.nodes import SOON_S, create, delete, running_node, sidecar_of
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("broker")]


def aclog(*args: object, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, [*map(str, args)])
    assert result.exit_code == code, result.output
    return result


def changed(what: str, *args: object) -> list[dict[str, str]]:
    """What a command of `aclog acls` says it added or removed; a node in this process prints lines, too."""
    lines = aclog("acls", *args, "--json").stdout.splitlines()
    found: list[dict[str, str]] = json.loads(next(line for line in lines if line[0] == "{"))[what]
    return found


@pytest.fixture
def url(broker: Broker) -> str:
    if broker.controllers is None:
        pytest.skip("the cluster does not say where its controllers are")
    return f"kraft://{broker.controllers}"


@pytest.fixture
def node(url: str) -> Iterator[Node]:
    with running_node(url) as started:
        yield started


@pytest.fixture
def admin(broker: Broker) -> kafka.AdminClient:
    return kafka.AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def described(admin: kafka.AdminClient, name: str) -> set[tuple[str, str, str]]:
    """Who may (or may not) do what on the resources of this name, as the broker lists it."""
    nothing: Any = None
    wanted = kafka.AclBindingFilter(
        kafka.ResourceType.ANY, name, kafka.ResourcePatternType.ANY, nothing, nothing,
        kafka.AclOperation.ANY, kafka.AclPermissionType.ANY,
    )  # fmt: skip
    found: Any = admin.describe_acls(wanted).result(SOON_S)
    return {(each.principal, each.operation.name, each.permission_type.name) for each in found}


def test_an_answered_write_changes_decisions(node: Node, admin: kafka.AdminClient) -> None:
    """And the cluster lists it. An ACL that is there is no second record; ids are those in the log."""
    assert node.status().writable
    both = {("User:a", "READ", "ALLOW"), ("User:a", "READ", "DENY")}
    for turn in range(5):
        create(node, [topic_acl("quorum-w"), topic_acl("quorum-w")])
        assert may(node.authorizer, "quorum-w"), turn
        (again,) = node.authorizer.create_acls(CONTEXT, [topic_acl("quorum-w")])
        assert (again.result(SOON_S).exception, again.result().record) == (None, None)
        assert len(node.authorizer.state.index.image) == node.status().acl_count
        (denied,) = node.authorizer.create_acls(
            CONTEXT, [topic_acl("quorum-w", permission=AclPermissionType.DENY)]
        )
        record = denied.result(SOON_S).record
        assert record is not None
        assert node.authorizer.state.index.image.get(record.id) is not None
        assert not may(node.authorizer, "quorum-w")
        wait_until(lambda: described(admin, "quorum-w") == both, "the broker to list both")
        (removal,) = node.authorizer.delete_acls(CONTEXT, [named("quorum-w")])
        removed = removal.result(SOON_S).acl_binding_delete_results
        assert record in {each.record for each in removed}
        assert len(removed) == 2
        assert not may(node.authorizer, "quorum-w")
        assert delete(node, "quorum-w") == []
    wait_until(lambda: not described(admin, "quorum-w"), "the broker to list none")


def test_each_item_has_kafkas_result(node: Node, admin: kafka.AdminClient) -> None:
    """The same name and message as an AdminClient gets; the item beside it is carried out."""
    wrong = [
        (ResourceType.TOPIC, "quorum-e", "quorum"),
        (ResourceType.CLUSTER, "quorum-e", "User:a"),
        (ResourceType.TOPIC, "quorum-e\n", "quorum\t"),
    ]
    bindings = [
        AclBinding(
            ResourcePattern(kind, name, PatternType.LITERAL),
            AccessControlEntry(principal, "*", AclOperation.READ, AclPermissionType.ALLOW),
        )
        for kind, name, principal in wrong
    ]
    *refused, done = node.authorizer.create_acls(CONTEXT, [*bindings, topic_acl("quorum-e")])
    assert done.result(SOON_S).exception is None
    assert may(node.authorizer, "quorum-e")
    for (kind, name, principal), future in zip(wrong, refused, strict=True):
        binding = kafka.AclBinding(
            kafka.ResourceType(kind.value), name, kafka.ResourcePatternType.LITERAL, principal, "*",
            kafka.AclOperation.READ, kafka.AclPermissionType.ALLOW,
        )  # fmt: skip
        with pytest.raises(KafkaException) as kafkas:
            admin.create_acls([binding])[binding].result(SOON_S)
        error = future.result(SOON_S).exception
        assert isinstance(error, InvalidRequestError)
        assert (error.code_name, str(error)) == (kafkas.value.args[0].name(), kafkas.value.args[0].str())
    delete(node, "quorum-e")


def test_commands_and_the_sidecar_write_like_kafka_acls(
    node: Node, url: str, admin: kafka.AdminClient
) -> None:
    """Straight to the controllers, and through a node; also types that librdkafka has no names for."""
    with sidecar_of(node) as sidecar:
        for flag, address in (("--log", url), ("--sidecar", sidecar)):
            where = (flag, address)
            if flag == "--sidecar":  # its own ACLs say who may
                for grant in ("Alter", "Describe"):
                    flags = ("--allow-principal", "User:ANONYMOUS", "--operation", grant, "--cluster")
                    aclog("acls", "--log", url, "--add", *flags)
                assert node.wait_for(node.log.verified_high_watermark() or 0, SOON_S)
            added = ("--add", "--allow-principal", "User:c", "--operation", "Read", "--topic")
            (first,) = changed("added", *where, *added, "quorum-c")
            assert changed("added", *where, *added, "quorum-c") == []
            wait_until(lambda: described(admin, "quorum-c") == {("User:c", "READ", "ALLOW")}, "the broker")
            added = ("--add", "--allow-principal", "User:c", "--operation", "Describe", "--delegation-token")
            aclog("acls", *where, *added, "quorum-c")
            removal = ("--remove", "--force", "--topic", "quorum-c")
            assert changed("removed", *where, *removal) == [first]
            removal = ("--remove", "--force", "--delegation-token", "quorum-c")
            assert len(changed("removed", *where, *removal)) == 1
            wait_until(lambda: not described(admin, "quorum-c"), "the broker")
    both = ("--allow-principal", "User:ANONYMOUS", "--operation", "Alter", "--operation", "Describe")
    aclog("acls", "--log", url, "--remove", "--force", *both, "--cluster")


def test_the_cluster_applies_a_plan(node: Node, url: str, admin: kafka.AdminClient, tmp_path: Path) -> None:
    """As any plan: refused if the permissions have changed, nothing to do if it was applied; not atomic."""
    create(node, [topic_acl("quorum-p")])
    changes = json_lines(
        tmp_path / "changes",
        {"acl": "removed", **acl("quorum-p", "User:a")},
        {"acl": "added", **acl("quorum-p", "User:b")},
        {"acl": "added", **acl("quorum-p", "User:a", operation="WRITE")},
    )
    plan = tmp_path / "plan.json"
    aclog("plan", changes, "--log", url, "--output", plan, code=1)
    # Other tests may have ACLs of their own on this cluster: whatever their number, none may be removed.
    refused = aclog("apply", plan, "--log", url, "--max-removed-percent", "0", code=2).stderr
    assert "removes 1 of " in " ".join(refused.split())
    applied = aclog("apply", plan, "--log", url, "--allow-mass-removal")
    assert "1 ACLs removed, 2 added, " in applied.stdout
    assert "ACLs removed; the log ends at offset" in applied.stdout
    assert "not one atomic batch" in applied.stderr
    seen = {("User:b", "READ", "ALLOW"), ("User:a", "WRITE", "ALLOW")}
    wait_until(lambda: described(admin, "quorum-p") == seen, "the broker")
    assert "nothing to do" in aclog("apply", plan, "--log", url).stdout
    # Half of it undone by others: it goes on. With more than that it does not mean the same.
    admins = [topic_acl("quorum-p")]
    create(node, admins)
    assert "1 ACLs removed, 0 added" in aclog("apply", plan, "--log", url, "--allow-mass-removal").stdout
    back = json_lines(
        tmp_path / "back",
        {"acl": "removed", **acl("quorum-p", "User:b")},
        {"acl": "removed", **acl("quorum-p", "User:a", operation="WRITE")},
    )
    aclog("plan", back, "--log", url, "--output", plan, "--force", code=1)
    create(node, [topic_acl("quorum-p2")])
    assert "the effective permissions have changed" in aclog("apply", plan, "--log", url, code=1).stderr
    delete(node, "quorum-p2")
    result = node.mutator.apply_plan(read_plan(plan), 0).result(SOON_S)
    assert isinstance(result.exception, MassRemovalError)
    result = node.mutator.apply_plan(read_plan(plan), 100).result(SOON_S)
    assert (result.exception, len(result.removed), result.added) == (None, 2, ())
    wait_until(lambda: not described(admin, "quorum-p"), "the broker")


def test_the_console_changes_a_clusters_acls(
    node: Node, url: str, admin: kafka.AdminClient, chromium: Browser
) -> None:
    """By its controllers, which is no single batch: the page says so."""
    grants = ("--allow-principal", "User:ANONYMOUS", "--operation", "Alter", "--cluster")
    aclog("acls", "--log", url, "--add", *grants)
    create(node, [topic_acl("quorum-g")])
    with sidecar_of(node, console_listeners="*") as at, console_page(chromium, at) as page:
        page.goto(f"{at}/#view=acls&text=quorum-g")
        page.locator("details.change summary").click()
        form = page.get_by_role("form", name="Add an ACL")
        for label, text in (("Principal", "User:g"), ("Name", "quorum-g"), ("Host", "10.0.0.1")):
            form.get_by_label(label).fill(text)
        form.get_by_role("button").click()
        page.get_by_label("Remove ALLOW User:a Read on TOPIC quorum-g from any host").check()
        page.get_by_role("button", name="Preview").click()
        expect(page.locator("details.change")).to_contain_text("not one atomic batch")
        page.get_by_role("button", name="Apply…").click()
        page.get_by_role("dialog").get_by_role("button", name="Apply").click()
        expect(page.locator(".done")).to_contain_text("1 ACL added, 1 ACL removed", timeout=SOON_S * 1000)
    wait_until(lambda: described(admin, "quorum-g") == {("User:g", "READ", "ALLOW")}, "the broker")
    delete(node, "quorum-g")
    aclog("acls", "--log", url, "--remove", "--force", *grants)


def test_writes_to_a_read_only_log_are_refused(url: str, broker: Broker) -> None:
    """Records of one's own; a node that was to read only."""
    with closing(open_log(url, mode="write")) as log, pytest.raises(LogReadOnlyError, match="aclog acls"):
        log.append([])
    with running_node(url, log_mode="read") as node:
        assert not node.status().writable
        (future,) = node.authorizer.create_acls(CONTEXT, [topic_acl("quorum-r")])
        assert isinstance(future.result(SOON_S).exception, NotControllerError)
        assert "aclog.log.mode=write" in str(future.result().exception)


@pytest.mark.long
def test_writes_continue_after_a_leader_fails(quorum: KafkaQuorum) -> None:
    """Killed, and stopped: the next one is asked, and what it answers decides here."""
    url = f"kraft://{quorum.controllers}"
    with running_node(url, acl_update_timeout_ms=int(2000 * SOON_S)) as node:
        for away, back in ((quorum.kill, quorum.start), (quorum.pause, quorum.resume)):
            create(node, [topic_acl("quorum-before")])
            leader = quorum.leader()
            away(leader)
            create(node, [topic_acl("quorum-after")])
            assert may(node.authorizer, "quorum-after")
            assert quorum.leader() != leader
            for name in ("quorum-before", "quorum-after"):
                assert len(delete(node, name)) == 1
                assert not may(node.authorizer, name)
            back(leader)


@pytest.mark.long
def test_a_write_does_not_wait_for_a_hanging_leader(
    quorum: KafkaQuorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is asked to create it, too; a removal is not sent twice, and says what may come to be."""
    hung: list[int] = []
    ask = Session.send_once

    def hang_first(session: Session, *args: Any, **options: Any) -> Any:
        if not hung:
            hung.append(quorum.leader())
            quorum.pause(hung[0])
            wait_until(lambda: quorum.is_paused(hung[0]), "the leader to hang")
        return ask(session, *args, **options)

    with running_node(f"kraft://{quorum.controllers}", acl_update_timeout_ms=int(2000 * SOON_S)) as node:
        create(node, [topic_acl("quorum-there")])
        monkeypatch.setattr(Session, "send_once", hang_first)
        create(node, [topic_acl("quorum-hung")])
        assert may(node.authorizer, "quorum-hung")
        assert quorum.leader() != hung[0]
        quorum.resume(hung.pop())
        (future,) = node.authorizer.delete_acls(CONTEXT, [named("quorum-there")])
        assert "may be in force or come to be" in str(future.result(SOON_S).exception)
        quorum.resume(hung[0])
        for name in ("quorum-hung", "quorum-there"):
            delete(node, name)
            assert not may(node.authorizer, name)
