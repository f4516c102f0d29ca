"""``/openapi.json`` beside the sidecar that it describes: its routes, what it is asked, what it answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator, ValidationError

from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.plans.plan import AclPlan, PlanOrigin
from authorizer.api.http.error_code import ErrorCode
from authorizer.configuration.load import load_config
from authorizer.engine.decisions.state import AuthorizerSettings
from authorizer.node.node import Node
from authorizer.sidecar.app import NODE_OPERATIONS
from authorizer.sidecar.routes import changes, request_state
from authorizer.sidecar.routes.confluent_acls import CLUSTERS_PATH
from authorizer.sidecar.routes.endpoint import GUARD_ERRORS
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
from records.columns.acl_table import AclTable
from snapshot.image import AclsImage
from support.node_acls import topic_acl
from support.nodes import SOON_S, create, running_node, sidecar_of

EVALUATION, EVALUATIONS = "/access/v1/evaluation", "/access/v1/evaluations"
SUBJECTS, RESOURCES, ACTIONS = (f"/access/v1/search/{kind}" for kind in ("subject", "resource", "action"))
SUBJECT = {"type": "User", "id": "a"}
ACTION = {"name": "READ"}
ORDERS = {"type": "TOPIC", "id": "orders"}
CONTEXT = {"host": "10.0.0.1"}
QUESTION = {"subject": SUBJECT, "action": ACTION, "resource": ORDERS, "context": CONTEXT}
WHO = {"principal": "User:a", "host": "10.0.0.1", "resourceType": "TOPIC"}
NAME = {"resourceName": "orders"}
ACL = {**WHO, **NAME, "host": "*", "operation": "WRITE", "permissionType": "ALLOW"}

CLUSTER = f"{CLUSTERS_PATH}/{{cluster_id}}"
CONFLUENT_ACL = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:a",
    "host": "*",
    "operation": "WRITE",
    "permission": "ALLOW",
}

#: Method, path, and the query of a GET or the body of another one.
ExampleRequest = tuple[str, str, dict[str, Any]]

#: One that is for another log: that is an answer.
PLAN = AclPlan.of(
    PlanOrigin("elsewhere", "c"),
    AclsImage.EMPTY,
    ChangedAcls(AclTable.of(()), AclTable.of(())),
    AuthorizerSettings(),
)

ANSWERED: list[ExampleRequest] = [
    ("POST", "/v1/plans", json.loads(PLAN.to_json())),
    ("GET", "/", {}),
    ("POST", EVALUATION, QUESTION),
    ("POST", EVALUATION, QUESTION | {"action": {"name": "DELETE"}}),
    ("POST", EVALUATION, QUESTION | {"context": CONTEXT | {"min_offset": 1, "log_if_denied": False}}),
    ("POST", EVALUATIONS, QUESTION),
    ("POST", EVALUATIONS, QUESTION | {"evaluations": [{}, {"action": {"name": "no such"}}]}),
    ("POST", EVALUATIONS, {"evaluations": [QUESTION], "options": {"evaluations_semantic": "execute_all"}}),
    ("POST", SUBJECTS, QUESTION | {"subject": {"type": "User"}, "page": {"limit": 1}}),
    ("POST", SUBJECTS, QUESTION | {"subject": {"type": "User"}, "resource": {"type": "NONE", "id": "x"}}),
    ("POST", RESOURCES, QUESTION | {"resource": {"type": "TOPIC"}}),
    ("POST", ACTIONS, {"subject": SUBJECT, "resource": ORDERS, "context": CONTEXT}),
    ("GET", "/.well-known/authzen-configuration", {}),
    ("GET", "/v1/acls", {}),
    ("GET", "/v1/acls", {"resourceType": "TOPIC", "patternType": "MATCH", "min_offset": 1}),
    ("POST", "/v1/acls", {"acls": [ACL, ACL | {"resourceName": "", "id": None}]}),
    ("POST", "/v1/acls", {"acls": [ACL | {"patternType": "LITERAL"}]}),
    ("DELETE", "/v1/acls", {"filters": [{"resourceName": "orders", "operation": "WRITE"}]}),
    ("GET", "/v1/acls/{id}", {"min_offset": 1}),
    *((method, "/v1/authorized-operations", WHO | NAME) for method in ("GET", "POST")),
    *((method, "/v1/authorize-by-resource-type", WHO | {"operation": "READ"}) for method in ("GET", "POST")),
    ("POST", "/v1/filter", WHO | {"operation": "READ", "resourceNames": ["orders", "other"]}),
    *(
        (method, "/v1/explain", WHO | NAME | {"operation": operation})
        for method in ("GET", "POST")
        for operation in ("READ", "DELETE", "IDEMPOTENT_WRITE")
    ),
    ("GET", "/v1/changes", {}),
    ("GET", "/v1/config", {}),
    ("PUT", "/v1/config", {"configs": {"aclog.audit.level": "OFF"}}),
    ("PUT", "/v1/config", {"configs": {"aclog.audit.level": None}, "validate_only": True}),
    ("GET", "/v1/state", {}),
    ("GET", "/livez", {}),
    ("GET", "/readyz", {}),
    ("GET", "/metrics", {}),
    ("GET", "/openapi.json", {}),
    ("GET", CLUSTERS_PATH, {}),
    ("GET", CLUSTER, {}),
    ("GET", f"{CLUSTER}/acls", {"resource_type": "TOPIC"}),
    ("POST", f"{CLUSTER}/acls", CONFLUENT_ACL),
    ("POST", f"{CLUSTER}/acls:batch", {"data": [CONFLUENT_ACL]}),
    ("DELETE", f"{CLUSTER}/acls", CONFLUENT_ACL),
]
#: What it says of them, beside the code of the error.
REFUSED: list[tuple[ExampleRequest, ErrorCode]] = [
    (("POST", EVALUATION, QUESTION | {"action": {"name": "no such"}}), ErrorCode.INVALID_REQUEST),
    (("POST", EVALUATION, QUESTION | {"context": {"min_offset": 99}}), ErrorCode.OFFSET_NOT_VISIBLE),
    (("GET", "/v1/acls", {"at_offset": 0}), ErrorCode.OFFSET_NOT_HELD),
    (("GET", "/v1/acls", {"resourceType": "no such"}), ErrorCode.INVALID_REQUEST),
    (
        ("POST", "/v1/filter", WHO | {"operation": "READ", "resourceNames": ["x"] * 10_001}),
        ErrorCode.CONTENT_TOO_LARGE,
    ),
    (("GET", "/v1/acls/AAAAAAAAAAAAAAAAAAAAAQ", {}), ErrorCode.NOT_FOUND),
    (("PUT", "/v1/config", {"configs": {"aclog.log.url": "x"}}), ErrorCode.INVALID_CONFIG),
    (("GET", "/v1/explain", WHO | NAME | {"operation": "x"}), ErrorCode.INVALID_REQUEST),
    (("POST", "/v1/filter", WHO | {"operation": "x", "resourceNames": []}), ErrorCode.INVALID_REQUEST),
]


class Described:
    """A sidecar's client, which checks all that goes both ways against the sidecar's own document."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.document: dict[str, Any] = client.get("/openapi.json").raise_for_status().json()
        self._closed = closed(self.document)
        self._cluster_id: str = client.get("/v1/state").json().get("cluster_id", "x")

    def ask(self, example: ExampleRequest, **given: Any) -> httpx.Response:
        """The answer, which is one that the document has for such a request."""
        method, path, values = example
        path = path.replace("{cluster_id}", self._cluster_id)
        operation = self._operation(method, path)
        if "requestBody" not in operation:
            self.check_query(operation, values)
            given["params"] = values
        else:
            self.check_body(operation, values)
            given["json"] = values
        with self.client.stream(method, path, **given) as answer:
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                answer.read()
            self.check_answer(operation, answer)
            return answer

    def check_query(self, operation: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        known = {each["name"]: each for each in operation["parameters"] if each.get("in") == "query"}
        assert {name for name, each in known.items() if each["required"]} <= set(values) <= set(known)
        for name, value in values.items():
            self._validate(known[name]["schema"], value)

    def check_body(self, operation: Mapping[str, Any], value: object) -> None:
        self._validate(operation["requestBody"]["content"]["application/json"]["schema"], value)

    def check_answer(self, operation: Mapping[str, Any], answer: httpx.Response) -> None:
        described = operation["responses"][str(answer.status_code)]
        if "content" not in described:
            assert answer.content == b""
            return
        media = answer.headers["content-type"].partition(";")[0]
        schema = described["content"][media]["schema"]
        if media.endswith("json"):
            self._validate(schema, answer.json())
        for name, header in described.get("headers", {}).items():
            assert name in answer.headers or not header.get("required"), name
        if not answer.is_success and "headers" in described:
            self._validate(described["headers"]["aclog-error"]["schema"], answer.headers["aclog-error"])

    def _operation(self, method: str, path: str) -> Mapping[str, Any]:
        paths = self._closed["paths"]
        templates = {re.sub(r"\\{\w+\\}", "[^/]+", re.escape(each)): each for each in paths}
        template = next(templates[each] for each in templates if re.fullmatch(each, path))
        described: Mapping[str, Any] = paths[template][method.lower()]
        return described

    def _validate(self, schema: Mapping[str, Any], value: object) -> None:
        Draft202012Validator({**schema, "components": self._closed["components"]}).validate(value)


def closed(node: Any) -> Any:
    """The same, with schemas that take no member that they do not name."""
    if isinstance(node, list):
        return [closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    shown = {name: closed(each) for name, each in node.items()}
    return {"additionalProperties": False, **shown} if "properties" in shown else shown


@contextmanager
def described_by(node: Node, **settings: object) -> Iterator[Described]:
    with sidecar_of(node, **settings) as url, httpx.Client(base_url=url, timeout=SOON_S) as client:
        yield Described(client)


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    """Of a node whose callers may see and change everything."""
    log = tmp_path_factory.mktemp("openapi") / "log"
    cluster = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
    entry = AccessControlEntry("User:ANONYMOUS", "*", AclOperation.ALL, AclPermissionType.ALLOW)
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(request_state, "MIN_OFFSET_TIMEOUT_S", 0.0)
        node = stack.enter_context(running_node(log, log_mode="create"))
        create(node, [topic_acl("orders"), AclBinding(cluster, entry)])
        yield stack.enter_context(described_by(node))


def test_the_document_has_exactly_the_routes_and_methods(described: Described) -> None:
    """HEAD goes with GET, as everywhere in HTTP."""
    served = described.client.get("/").json()["paths"]
    shown = {path: {method.upper() for method in item} for path, item in described.document["paths"].items()}
    assert shown == {path: set(methods) - {"HEAD"} for path, methods in served.items()}
    assert set(NODE_OPERATIONS) == {(method, path) for path, methods in shown.items() for method in methods}


def test_schemas_are_valid_and_references_resolve(described: Described) -> None:
    """By JSON Schema 2020-12, which OpenAPI 3.1 uses; operation ids and references by OpenAPI's words."""
    document = described.document
    schemas, references = list(document["components"]["schemas"].values()), []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            references.extend([node["$ref"]] if "$ref" in node else [])
            schemas.extend([node["schema"]] if "schema" in node else [])
        for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            walk(each)

    walk(document)
    for schema in schemas:
        Draft202012Validator.check_schema(schema)
    for reference in set(references):
        target = document
        for name in reference.removeprefix("#/").split("/"):
            target = target[name]
    used = {reference.rpartition("/")[2] for reference in references}
    assert used == set(document["components"]["schemas"]) | set(document["components"]["parameters"])
    ids = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]
    assert len(set(ids)) == len(ids) == len(NODE_OPERATIONS)
    for item in document["paths"].values():
        for operation in item.values():
            for scheme in operation.get("security", document["security"]):
                assert set(scheme) <= set(document["components"]["securitySchemes"])


def test_each_answer_matches_the_document(described: Described) -> None:
    """What is asked, and what is answered, down to members that are not named."""
    acl = described.client.get("/v1/acls").json()["acls"][0]
    for method, path, values in ANSWERED:
        answer = described.ask((method, path.replace("{id}", acl["id"]), values))
        assert answer.status_code == NODE_OPERATIONS[method, path].status, answer.text
    assert {(method, path) for method, path, _ in ANSWERED} == set(NODE_OPERATIONS)


def test_each_error_matches_the_document(described: Described) -> None:
    """One that all may answer, and those of their own."""
    for method, path, values in ANSWERED:
        answer = described.ask(
            (method, path.replace("{id}", "x"), values), headers={"x-request-id": "x" * 257}
        )
        assert answer.headers["aclog-error"] == ErrorCode.INVALID_HEADER
        assert answer.headers["content-type"].startswith(
            "application/json"
            if path.startswith(("/access/v1/", "/kafka/v3/"))
            else "application/problem+json"
        )
    for example, code in REFUSED:
        answer = described.ask(example)
        assert (answer.status_code, answer.headers["aclog-error"]) == (code.status, code), answer.text
    last_id = {"last-event-id": "x"}
    assert described.ask(("GET", "/v1/changes", {}), headers=last_id).status_code == 400
    evil = {"host": "evil.example"}
    assert {described.ask(example, headers=evil).status_code for example in ANSWERED} == {421}


def test_the_error_of_too_many_streams_matches_the_document(
    described: Described, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "STREAMS_MAXIMUM", 0)
    answer = described.ask(("GET", "/v1/changes", {}))
    assert answer.headers["aclog-error"] == ErrorCode.TOO_MANY_STREAMS


def test_requests_that_the_document_forbids_are_refused(described: Described) -> None:
    """Of every body, by its own schema: no member that it needs, and one of another type."""
    cluster_id = described.client.get("/v1/state").json()["cluster_id"]
    for (method, path), operation in NODE_OPERATIONS.items():
        if operation.request is None:
            continue
        shown = described.document["paths"][path][method.lower()]
        url = path.format(id="x", cluster_id=cluster_id)
        if "requestBody" not in shown:
            for each in shown["parameters"]:
                if each.get("in") == "query" and each["required"]:
                    with pytest.raises(AssertionError):
                        described.check_query(shown, {})
                    assert described.client.request(method, url).status_code == 400
            continue
        member = next(iter(operation.required or operation.request.__struct_fields__))
        for body in ({}, {member: 7}, 7):
            if path == EVALUATIONS and body == {}:
                continue
            with pytest.raises(ValidationError):
                described.check_body(shown, body)
            assert described.client.request(method, url, json=body).status_code == 400, (path, body)


def test_authentication_and_authorization_errors_match_the_document(tmp_path: Path) -> None:
    """403, and 401 on a listener that wants a name; the document itself is for everyone."""
    with running_node(tmp_path / "log", log_mode="create") as node:
        create(node, [topic_acl("orders")])
        guarded = {
            key for key, operation in NODE_OPERATIONS.items() if set(GUARD_ERRORS) <= set(operation.errors)
        }
        with described_by(node) as described:
            for example in ANSWERED:
                answer = described.ask(example)
                # In a batch each item has its own error.
                is_refused = example[:2] in guarded and "evaluations" not in example[2]
                assert answer.status_code == (403 if is_refused else 200), (example, answer.text)
        (tokens := tmp_path / "tokens").touch(0o600)
        required = {"auth_required_listeners": "PLAINTEXT", "auth_tokens_file": tokens}
        with described_by(node, **required) as described:
            for example in ANSWERED:
                is_open = described.document["paths"][example[1]][example[0].lower()].get("security") == []
                assert described.ask(example).status_code == (200 if is_open else 401), example


def test_answers_of_an_unready_node_match_the_document(tmp_path: Path) -> None:
    flags = {"aclog.log.url": str(tmp_path / "log"), "aclog.log.mode": "create"}
    with Node.open(load_config(environ={}, flags=flags)) as node, described_by(node) as described:
        for example in ANSWERED:
            answer = described.ask(example)
            if example[:2] == ("GET", "/readyz"):
                assert answer.json()["ready"] is False
            else:
                guarded = ErrorCode.AUTHORIZER_NOT_READY in NODE_OPERATIONS[example[:2]].errors
                assert answer.status_code == (503 if guarded else 200), (example, answer.text)
