"""The sidecar over real HTTP, with a real node on a real directory log: AuthZEN, health, state, metrics."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
import uvicorn
from structlog.testing import capture_logs

from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.api.audit_levels import AUDIT_LOGGER_NAME
from authorizer.api.errors import ConfigError
from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from authorizer.sidecar.routes import request_state
from authorizer.sidecar.server import Sidecar
from records.acl import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from records.ids import METADATA_TOPIC_ID, Uuid, uuid_to_string
from support.data import TESTS
from support.directory_logs import batch_bytes, flip_bit, write_segment
from support.node_acls import topic_acl
from support.nodes import SOON_S, create, delete

HOST = "10.0.0.1"


def served(tmp_path: Path, **flags: str) -> tuple[Node, Sidecar]:
    """A started node on a directory log in ``tmp_path`` with a sidecar on a free port; not yet serving."""
    settings = {
        "aclog.log.url": str(tmp_path / "log"),
        "aclog.log.mode": "create",
        "aclog.listeners": "PLAINTEXT://127.0.0.1:0",
        "super.users": "User:ANONYMOUS",
        **flags,
    }
    config = load_config(environ={}, flags=settings)
    node = Node.open(config)
    try:
        return node, Sidecar(config)
    except BaseException:
        node.close()
        raise


@contextmanager
def serving(tmp_path: Path, **flags: str) -> Iterator[tuple[Node, httpx.Client]]:
    """The same, ready and serving."""
    node, sidecar = served(tmp_path, **flags)
    with node, sidecar:
        node.start()
        assert node.wait_until_ready(SOON_S)
        sidecar.start(node)
        with httpx.Client(base_url=sidecar.urls[0]) as client:
            yield node, client


@pytest.fixture
def node_and_client(tmp_path: Path) -> Iterator[tuple[Node, httpx.Client]]:
    """Ready, with User:a allowed to READ orders and denied to WRITE it."""
    with serving(tmp_path) as (node, client):
        write = topic_acl("orders", operation=AclOperation.WRITE, permission=AclPermissionType.DENY)
        create(node, [topic_acl("orders"), write])
        yield node, client


def question(operation: str = "READ", topic: str = "orders", **context: object) -> dict[str, object]:
    return {
        "subject": {"type": "User", "id": "a"},
        "action": {"name": operation},
        "resource": {"type": "TOPIC", "id": topic},
        "context": {"host": HOST, **context},
    }


def test_an_evaluation_has_decision_rule_acl_and_offset(
    node_and_client: tuple[Node, httpx.Client],
) -> None:
    """AuthZEN 6.2: 200 for both answers; the context says the rule, as of when, and the ACL if asked."""
    node, client = node_and_client
    plain = client.post("/access/v1/evaluation", json=question("READ")).json()
    allowed = client.post("/access/v1/evaluation", json=question("READ", explain=True))
    denied = client.post("/access/v1/evaluation", json=question("WRITE"))
    default = client.post("/access/v1/evaluation", json=question("READ", "other"))
    assert [answer.status_code for answer in (allowed, denied, default)] == [200, 200, 200]
    assert [answer.json()["decision"] for answer in (allowed, denied, default)] == [True, False, False]
    assert allowed.headers["content-type"] == "application/json"
    context = allowed.json()["context"]
    assert context["rule"] == "MatchingAcl"
    assert context["offset"] == node.status().end_offset
    assert context["acl"]["operation"] == "READ"
    assert context["acl"]["permissionType"] == "ALLOW"
    (acl,) = [
        acl
        for acl in node.authorizer.state.index.image
        if uuid_to_string(acl.record.id) == context["acl"]["id"]
    ]
    assert context["written_at_offset"] == acl.offset
    assert plain["context"] == {name: context[name] for name in ("rule", "offset", "end_offset", "reason")}
    assert default.json()["context"]["rule"] == "DefaultDeny"


def test_operations_and_types_are_case_insensitive(
    node_and_client: tuple[Node, httpx.Client],
) -> None:
    """AuthZEN 1.0; the principal type is Kafka's own and its case matters."""
    _, client = node_and_client
    body = question("read")
    body["resource"] = {"type": "topic", "id": "orders"}
    assert client.post("/access/v1/evaluation", json=body).json()["decision"] is True
    body["subject"] = {"type": "user", "id": "a"}
    assert client.post("/access/v1/evaluation", json=body).json()["decision"] is False


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subject": None}, "the request has no subject"),
        ({"action": None, "resource": None}, "no action and no resource"),
        ({"action": {"name": "FLY"}}, "`FLY` is not a Kafka operation"),
        ({"action": {"name": "ANY"}}, "`ANY` is not a Kafka operation"),
        ({"resource": {"type": "TABLE", "id": "t"}}, "`TABLE` is not a Kafka resource type"),
        ({"context": {}}, "no context.host"),
        ({"context": {"host": "broker.example"}}, "`broker.example` is not an IP address"),
        ({"context": {"host": HOST, "as_of": 12}}, "context.as_of is not supported"),
        ({"subject": {"type": "User"}}, "missing required field `id`"),
    ],
)
def test_an_invalid_request_is_a_400_that_names_the_field(
    node_and_client: tuple[Node, httpx.Client], change: dict[str, object], message: str
) -> None:
    """AuthZEN 10.1.2: a missing required attribute must give 400, never a decision."""
    _, client = node_and_client
    body = {key: value for key, value in {**question(), **change}.items() if value is not None}
    answer = client.post("/access/v1/evaluation", json=body)
    assert answer.status_code == 400
    assert message in answer.json()


def test_a_body_that_is_not_json_or_too_large_is_refused(node_and_client: tuple[Node, httpx.Client]) -> None:
    _, client = node_and_client
    assert client.post("/access/v1/evaluation", content=b"{").status_code == 400
    assert client.post("/access/v1/evaluation", content=b"\xff").status_code == 400
    assert client.post("/access/v1/evaluation", content=b" " * (5 * 1024 * 1024)).status_code == 413


@pytest.mark.parametrize("depth", [10_000, 1_000_000])
@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("/access/v1/evaluation", b"", b""),
        ("/access/v1/evaluation", b'{"unknown":', b"}"),
        ("/access/v1/evaluations", b'{"evaluations":[', b"]}"),
    ],
)
def test_deeply_nested_json_is_a_400(
    node_and_client: tuple[Node, httpx.Client], path: str, before: bytes, after: bytes, depth: int
) -> None:
    """Also in a field that is not read: it is a bad request, and no defect of the sidecar's."""
    _, client = node_and_client
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        nested = opening * depth + b"1" + closing * depth
        answer = client.post(path, content=(before + nested + after)[:4_000_000])
        assert answer.status_code == 400, answer.text
        assert answer.headers["aclog-error"] in {"INVALID_JSON", "INVALID_REQUEST"}


def test_errors_have_a_code_and_a_type(node_and_client: tuple[Node, httpx.Client]) -> None:
    """RFC 9457; under /access/v1 the body is AuthZEN's (10.1), and the header has the code in both."""
    _, client = node_and_client
    missing = client.get("/v1/nothing")
    assert missing.headers["content-type"] == "application/problem+json"
    problem = missing.json()
    assert problem.pop("detail").startswith("there is nothing at /v1/nothing")
    assert problem == {
        "type": "urn:aclog:error:not-found",
        "title": "Not found",
        "status": 404,
        "code": "NOT_FOUND",
    }
    bad = client.post("/access/v1/evaluation", json={**question(), "action": {"name": "FLY"}})
    assert bad.headers["content-type"] == "application/json"
    assert isinstance(bad.json(), str)
    codes = [answer.headers["aclog-error"] for answer in (missing, bad, client.post("/livez"))]
    assert codes == ["NOT_FOUND", "INVALID_REQUEST", "METHOD_NOT_ALLOWED"]


def test_unknown_paths_and_methods_name_the_known_ones(node_and_client: tuple[Node, httpx.Client]) -> None:
    _, client = node_and_client
    assert client.get("/nothing").status_code == 404
    wrong = client.get("/access/v1/evaluation")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


def test_the_request_id_is_returned(node_and_client: tuple[Node, httpx.Client]) -> None:
    """AuthZEN 10.1.3: the same X-Request-ID, on errors too."""
    _, client = node_and_client
    for path, body in (("/access/v1/evaluation", question()), ("/access/v1/evaluation", {})):
        answer = client.post(path, json=body, headers={"X-Request-ID": "r-1"})
        assert answer.headers["x-request-id"] == "r-1"


@pytest.mark.parametrize("request_id", [b"x" * 257, b"a\tb", b"\xe9"], ids=["long", "tab", "latin"])
def test_an_invalid_request_id_is_refused(
    node_and_client: tuple[Node, httpx.Client], request_id: bytes
) -> None:
    """An answer without it would break AuthZEN's rule, one with it might break what reads the answer."""
    _, client = node_and_client
    answer = client.post("/access/v1/evaluation", json=question(), headers={b"X-Request-ID": request_id})
    assert (answer.status_code, answer.headers["aclog-error"]) == (400, "INVALID_HEADER")
    assert "x-request-id" not in answer.headers


def test_a_batch_has_defaults_and_keeps_the_order(node_and_client: tuple[Node, httpx.Client]) -> None:
    """AuthZEN 7.1: a part of an item replaces the whole default."""
    _, client = node_and_client
    defaults = question()
    batch = {
        **defaults,
        "evaluations": [
            {},
            {"action": {"name": "WRITE"}},
            {"resource": {"type": "TOPIC", "id": "other"}},
            {"action": {"name": "DESCRIBE"}},
        ],
    }
    answers = client.post("/access/v1/evaluations", json=batch).json()["evaluations"]
    assert [answer["decision"] for answer in answers] == [True, False, False, True]
    assert len({answer["context"]["offset"] for answer in answers}) == 1


def test_a_batch_without_evaluations_is_a_single_request(node_and_client: tuple[Node, httpx.Client]) -> None:
    _, client = node_and_client
    extras: list[dict[str, object]] = [{}, {"evaluations": []}]
    for extra in extras:
        assert client.post("/access/v1/evaluations", json={**question(), **extra}).json()["decision"] is True


@pytest.mark.parametrize(
    ("semantic", "expected"),
    [
        ("execute_all", [True, False, True]),
        ("deny_on_first_deny", [True, False]),
        ("permit_on_first_permit", [True]),
    ],
)
def test_a_batch_stops_by_its_semantic(
    node_and_client: tuple[Node, httpx.Client], semantic: str, expected: list[bool]
) -> None:
    """AuthZEN 7.1.1: the deciding item is the last one of the answer."""
    _, client = node_and_client
    batch = {
        **question(),
        "evaluations": [{}, {"action": {"name": "WRITE"}}, {}],
        "options": {"evaluations_semantic": semantic},
    }
    answers = client.post("/access/v1/evaluations", json=batch).json()["evaluations"]
    assert [answer["decision"] for answer in answers] == expected


def test_an_invalid_item_of_a_batch_is_denied_alone(node_and_client: tuple[Node, httpx.Client]) -> None:
    _, client = node_and_client
    batch = {**question(), "evaluations": [{"action": {"name": "FLY"}}, {}]}
    bad, good = client.post("/access/v1/evaluations", json=batch).json()["evaluations"]
    assert bad["decision"] is False
    assert bad["context"]["error"]["status"] == 400
    assert bad["context"]["error"]["code"] == "INVALID_REQUEST"
    assert good["decision"] is True


def test_a_write_is_visible_at_its_min_offset(
    node_and_client: tuple[Node, httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read your writes: min_offset waits; one that never comes is a 503, not an answer from before."""
    node, client = node_and_client
    end = node.status().end_offset
    assert client.post("/access/v1/evaluation", json=question(min_offset=end)).json()["decision"] is True
    monkeypatch.setattr(request_state, "MIN_OFFSET_TIMEOUT_S", 0.2)
    late = client.post("/access/v1/evaluation", json=question(min_offset=end + 5))
    assert late.status_code == 503
    assert f"min_offset {end + 5} is not visible" in late.json()


def test_a_request_at_an_offset_reads_one_state(node_and_client: tuple[Node, httpx.Client]) -> None:
    """at_offset: as the ACLs were, also where they are gone; one for a request, and 410 for what is gone."""
    node, client = node_and_client
    end = node.status().end_offset
    delete(node, "orders")
    before, now = question(at_offset=end - 1), question()
    assert client.post("/access/v1/evaluation", json=now).json()["decision"] is False
    answer = client.post("/access/v1/evaluation", json=before).json()
    assert answer["decision"] is True
    assert (answer["context"]["offset"], answer["context"]["end_offset"]) == (end, end)
    batch = {"evaluations": [before, {**before, "action": {"name": "WRITE"}}]}
    answers = client.post("/access/v1/evaluations", json=batch).json()["evaluations"]
    assert [each["decision"] for each in answers] == [True, False]
    mixed = client.post("/access/v1/evaluations", json={"evaluations": [before, now]})
    assert (mixed.status_code, "must be the same" in mixed.json()) == (400, True)
    not_held = client.post("/access/v1/evaluation", json=question(at_offset=end - 2))
    assert (not_held.status_code, not_held.headers["aclog-error"]) == (410, "OFFSET_NOT_HELD")
    assert f"aclog check --log {node.log.url} --at-offset {end - 2}" in not_held.json()


def test_a_former_state_restores_no_right(tmp_path: Path) -> None:
    """Who may ask about others is decided by the ACLs of now."""
    with serving(tmp_path, **{"super.users": ""}) as (node, client):
        describe = AccessControlEntry("User:ANONYMOUS", "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW)
        create(
            node,
            [AclBinding(ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL), describe)],
        )
        end = node.status().end_offset
        assert client.post("/access/v1/evaluation", json=question(at_offset=end - 1)).status_code == 200
        delete(node, CLUSTER_NAME)
        assert client.post("/access/v1/evaluation", json=question(at_offset=end - 1)).status_code == 403


def test_a_body_with_another_content_type_is_refused(
    node_and_client: tuple[Node, httpx.Client],
) -> None:
    """Certification 2.4.3; what curl -d calls it is taken, and so is no name at all."""
    _, client = node_and_client
    body = json.dumps(question()).encode()
    for kind, status in (
        ("text/plain", 400),
        ("application/xml", 400),
        ("application/json; charset=utf-8", 200),
        ("application/x-www-form-urlencoded", 200),
    ):
        answer = client.post("/access/v1/evaluation", content=body, headers={"content-type": kind})
        assert answer.status_code == status
    assert client.post("/access/v1/evaluation", content=body).status_code == 200


def test_state_health_and_metrics_show_the_nodes_status(
    node_and_client: tuple[Node, httpx.Client],
) -> None:
    node, client = node_and_client
    state = client.get("/v1/state").json()
    status = node.status()
    assert (state["offset"], state["digest"], state["acl_count"]) == (status.end_offset, status.digest, 2)
    assert (state["ready"], state["lag_records"], state["reason"]) == (True, 0, None)
    assert state["meaning"] is None
    give_up = time.monotonic() + 20
    while (meaning := client.get("/v1/state?meaning=true").json()["meaning"]) is None:
        assert time.monotonic() < give_up
    acls = node.authorizer.state
    assert meaning["offset"] == acls.end_offset
    table = acls.index.image.merged().columns
    assert meaning["digest"] == EffectivePermissions.of(table, acls.settings).digest.hex()
    assert client.get("/livez").json() == {"live": True}
    assert client.get("/readyz").status_code == 200
    metrics = client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert "aclog_acls_total 2.0" in metrics.text


def test_the_metadata_names_the_endpoints(node_and_client: tuple[Node, httpx.Client]) -> None:
    """At the listener's own address, whatever the Host header says."""
    _, client = node_and_client
    path = "/.well-known/authzen-configuration"
    metadata = client.get(path, headers={"Host": "other.localhost:1"}).json()
    assert metadata == client.get(path).json()
    assert httpx.URL(metadata["policy_decision_point"]) == client.base_url
    assert (
        metadata["access_evaluation_endpoint"] == f"{metadata['policy_decision_point']}/access/v1/evaluation"
    )
    assert client.post(metadata["access_evaluations_endpoint"], json=question()).status_code == 200


def test_the_metadata_names_the_public_address_behind_a_proxy(tmp_path: Path) -> None:
    with serving(tmp_path, **{"aclog.sidecar.public.url": "https://acls.example.org/kafka/"}) as (_, client):
        metadata = client.get("/.well-known/authzen-configuration").json()
    assert metadata["policy_decision_point"] == "https://acls.example.org/kafka"
    assert metadata["access_evaluation_endpoint"] == "https://acls.example.org/kafka/access/v1/evaluation"


def test_the_root_describes_the_service(node_and_client: tuple[Node, httpx.Client]) -> None:
    _, client = node_and_client
    answer = client.get("/").json()
    assert (answer["name"], answer["version"]) == ("aclog", version("aclog"))
    assert answer["paths"]["/access/v1/evaluation"] == ["POST"]
    page = (TESTS.parent / "docs" / "http.md").read_text(encoding="utf-8")
    for path, methods in answer["paths"].items():
        assert path == "/" or f"{path}`" in page
        assert client.request("PATCH", path).headers["allow"] == ", ".join(methods)


def test_queries_about_others_require_describe_on_the_cluster(
    tmp_path: Path,
) -> None:
    """Architecture section 7: the ACLs guard the sidecar, too; 403 is not a decision."""
    with serving(tmp_path, **{"super.users": ""}) as (_, client):
        refused = client.post("/access/v1/evaluation", json=question())
        assert refused.status_code == 403
        assert refused.json() == (
            "User:ANONYMOUS on listener PLAINTEXT may ask about itself only, not about User:a. To let it "
            "ask about others, start the sidecar with --describe-principals User:ANONYMOUS (or set "
            f"aclog.describe.principals), or add an ACL: aclog acls --log {tmp_path}/log --add "
            "--allow-principal User:ANONYMOUS --operation Describe --cluster"
        )
        about_itself = {**question(), "subject": {"type": "User", "id": "ANONYMOUS"}}
        assert client.post("/access/v1/evaluation", json=about_itself).json()["decision"] is False


def test_a_listed_principal_may_query_others_without_an_acl(tmp_path: Path) -> None:
    """aclog.describe.principals; the ACLs that decide the request do not change."""
    settings = {"super.users": "", "aclog.describe.principals": "User:b; User:ANONYMOUS"}
    with serving(tmp_path, **settings) as (node, client):
        answer = client.post("/access/v1/evaluation", json=question())
        assert (answer.status_code, answer.json()["decision"]) == (200, False)
        assert node.authorizer.metrics.denied == 1
        describe = {**question("DESCRIBE"), "resource": {"type": "CLUSTER", "id": "kafka-cluster"}}
        describe["subject"] = {"type": "User", "id": "ANONYMOUS"}
        assert client.post("/access/v1/evaluation", json=describe).json()["decision"] is False


PRETENDED = "1.2.3.4"


@pytest.mark.parametrize(
    ("proxies", "peer", "forwarded", "status"),
    [
        (None, "127.0.0.1", PRETENDED, 403),
        ("127.0.0.1", "127.0.0.1", PRETENDED, 200),
        ("127.0.0.1", "127.0.0.1", f"10.9.9.9, {PRETENDED}", 200),
        ("127.0.0.1", "127.0.0.1", f"{PRETENDED}, 10.9.9.9", 403),
        ("127.0.0.1", "127.0.0.1", None, 403),
        ("127.0.0.1", "127.0.0.2", PRETENDED, 403),
        ("10.0.0.0/8,127.0.0.2/32", "127.0.0.2", PRETENDED, 200),
        ("127.0.0.1", "127.0.0.1", "unknown", 400),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1, \xff", 400),
    ],
)
def test_a_client_address_cannot_be_forged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    proxies: str | None,
    peer: str,
    forwarded: str | None,
    status: int,
) -> None:
    """An ACL lets ANONYMOUS ask from 1.2.3.4: X-Forwarded-For counts from trusted proxies only."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # of uvicorn's own command
    settings = {"super.users": "", **({"aclog.trusted.proxies": proxies} if proxies else {})}
    headers = [] if forwarded is None else [(b"X-Forwarded-For", forwarded.encode("latin-1"))]
    with serving(tmp_path, **settings) as (node, client):
        describe = AccessControlEntry(
            "User:ANONYMOUS", PRETENDED, AclOperation.DESCRIBE, AclPermissionType.ALLOW
        )
        cluster = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
        create(node, [AclBinding(cluster, describe)])
        with httpx.Client(transport=httpx.HTTPTransport(local_address=peer)) as from_peer:
            url = f"{client.base_url}/access/v1/evaluation"
            answer = from_peer.post(url, json=question(), headers=headers)
            assert answer.status_code == status, answer.text


def test_the_audit_log_names_request_and_caller(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Kafka's line, with a request of our own where Kafka has Fetch; who asked is beside it."""
    with serving(tmp_path, **{"super.users": "", "aclog.describe.principals": "User:ANONYMOUS"}) as (
        _,
        client,
    ):
        client.post("/access/v1/evaluation", json=question())
        client.post("/access/v1/evaluations", json={"evaluations": [question("WRITE")]})
    lines = [record for record in caplog.records if record.name == AUDIT_LOGGER_NAME]
    assert [record.getMessage().partition(" based on ")[0] for record in lines] == [
        f"Principal = User:a is Denied operation = {operation} from host = {HOST} on resource = "
        f"Topic:LITERAL:orders for request = {request} with resourceRefCount = 1"
        for operation, request in (("READ", "AuthZenEvaluation"), ("WRITE", "AuthZenEvaluations"))
    ]
    for record in lines:
        assert vars(record)["caller"] == "User:ANONYMOUS"
        assert vars(record)["caller_host"] == "127.0.0.1"


def test_a_batch_checks_the_right_of_its_caller_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One audit line and one count for a request, however many of its evaluations are refused by it."""
    with serving(tmp_path, **{"super.users": ""}) as (node, client):
        about_itself = {**question(), "subject": {"type": "User", "id": "ANONYMOUS"}}
        body = {"evaluations": [about_itself, question(), question("WRITE"), question()]}
        answers = client.post("/access/v1/evaluations", json=body).json()["evaluations"]
        errors = [answer["context"].get("error", {}).get("status") for answer in answers]
        assert errors == [None, 403, 403, 403]
        assert node.authorizer.metrics.denied == 2
        guarded = [line for line in caplog.messages if "kafka-cluster" in line]
        assert len(guarded) == 1
        client.post("/access/v1/evaluations", json={"evaluations": [about_itself] * 2})
        assert node.authorizer.metrics.denied == 4


def test_early_start_listeners_allow_only_super_users_before_ready(
    tmp_path: Path,
) -> None:
    """I4, KIP-801: 503 AUTHORIZER_NOT_READY for everyone else; the reason names the damaged record (I7)."""
    directory = tmp_path / "log"
    path = write_segment(directory, 0, batch_bytes(0), batch_bytes(1), batch_bytes(2))
    flip_bit(path, len(batch_bytes(0)) + 70)
    (directory / "partition.metadata").write_text(
        f"version: 0\ntopic_id: {uuid_to_string(Uuid(METADATA_TOPIC_ID))}\n"
    )
    node, sidecar = served(
        tmp_path,
        **{
            "aclog.log.mode": "read",
            "aclog.listeners": "EARLY://127.0.0.1:0,LATE://127.0.0.1:0",
            "listener.security.protocol.map": "EARLY:PLAINTEXT,LATE:PLAINTEXT",
            "early.start.listeners": "EARLY",
        },
    )
    with node, sidecar:
        node.start()
        sidecar.start(node)
        early, late = sidecar.urls
        super_user = {**question(), "subject": {"type": "User", "id": "ANONYMOUS"}}
        assert httpx.post(f"{early}/access/v1/evaluation", json=super_user).json()["decision"] is True
        for url, body in ((early, question()), (late, super_user), (late, question())):
            answer = httpx.post(f"{url}/access/v1/evaluation", json=body)
            assert answer.status_code == 503
            assert answer.json().startswith("AUTHORIZER_NOT_READY: ")
            assert "retry-after" in answer.headers
        assert httpx.get(f"{late}/livez").status_code == 200
        with pytest.raises(Exception, match="offset 1"):
            node.wait_until_ready(SOON_S)
        ready = httpx.get(f"{late}/readyz")
        assert (ready.status_code, ready.json()["ready"]) == (503, False)
        assert "offset 1" in ready.json()["reason"]


def test_a_used_port_stops_the_start_and_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}.*in use"):
            served(tmp_path, **{"aclog.listeners": f"PLAINTEXT://127.0.0.1:{port}"})


def test_the_listening_event_follows_the_first_possible_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that waits for that line can connect; a failed start never logs it."""
    node, sidecar = served(tmp_path)
    with node, sidecar, capture_logs() as lines:
        with monkeypatch.context() as patch:
            patch.setattr(uvicorn.Server, "startup", failing_startup)
            with pytest.raises(RuntimeError, match="did not start"):
                sidecar.start(node)
        assert [line for line in lines if line["event"] == "listening"] == []
        sidecar.start(node)
        (listening,) = [line for line in lines if line["event"] == "listening"]
        assert httpx.get(f"{listening['urls'][0]}/livez").status_code == 200


async def failing_startup(server: uvicorn.Server, *, sockets: object) -> None:
    """As uvicorn does where it cannot serve: it ends, without a word to us."""
    server.should_exit = True


@pytest.mark.parametrize("listener", ["PLAINTEXT://0.0.0.0:0", "SASL_SSL://127.0.0.1:0"])
def test_an_unsafe_listener_is_refused(tmp_path: Path, listener: str) -> None:
    """Defaults are safe, and so is everything that can be set: no unauthenticated port beyond loopback."""
    with pytest.raises(ConfigError):
        served(tmp_path, **{"aclog.listeners": listener})
