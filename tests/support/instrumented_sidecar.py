"""A node with everything that has metrics: TLS, tokens, snapshots, events, Kafka's protocol, all outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from authorizer.admin_server.server import AdminServer
from authorizer.authentication.scram import CREDENTIALS_FILE, ScramCredential
from authorizer.configuration.load import load_config
from authorizer.configuration.log_setup import setup_logging
from authorizer.node.audit_writer import AuditWriter
from authorizer.node.node import Node
from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, new_token
from authorizer.sidecar.server import Sidecar
from records.acl import AclOperation
from records.batch import encode_batch
from records.entries import FeatureLevelRecord, MetadataRecord, OtherRecord
from records.log.directory import DirectoryLog
from records.principal import KafkaPrincipal
from support.admin_requests import EVERY, ask, request_frame
from support.certificates import Authority
from support.column_logs import frame_of
from support.directory_logs import append_bytes, segment_path
from support.node_acls import topic_acl
from support.nodes import SOON_S, create, delete
from support.sasl_clients import PASSWORD

ONE = "/access/v1/evaluation"


@contextmanager
def instrumented_sidecar(directory: Path) -> Iterator[tuple[Node, httpx.Client]]:
    """A ready node whose sidecar has answered some requests, and a client of its plaintext listener."""
    records: list[MetadataRecord] = [FeatureLevelRecord("metadata.version", 30), OtherRecord(99, 1)]
    DirectoryLog.open(directory / "log", mode="create").close()
    first = encode_batch(list(map(frame_of, records)), base_offset=0, epoch=1, timestamp_ms=1)
    append_bytes(segment_path(directory / "log", 0), first)
    identity = Authority().issue("CN=localhost").write(directory / "server.pem")
    _, stored = new_token(KafkaPrincipal("User", "gateway"))
    TOKENS_FILE.put(directory / "tokens", stored)
    credential = ScramCredential.create("alice", "SCRAM-SHA-512", PASSWORD)
    CREDENTIALS_FILE.put(directory / "credentials", credential)
    config = load_config(
        environ={},
        flags={
            "aclog.log.url": str(directory / "log"),
            "aclog.log.mode": "create",
            "aclog.snapshot.store": str(directory / "snapshots"),
            "aclog.snapshot.max.bytes": "1",
            "aclog.listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
            "aclog.auth.tokens.file": str(directory / "tokens"),
            "aclog.admin.listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "aclog.admin.credentials.file": str(directory / "credentials"),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "aclog.describe.principals": "User:ANONYMOUS",
            "ssl.keystore.location": str(identity),
            "aclog.decision.log": f"file:{directory / 'decisions.jsonl'}",
        },
    )
    with (
        AuditWriter.configured(config, setup_logging("json", "WARNING")) as audit,
        Sidecar(config) as sidecar,
        AdminServer(config) as server,
        Node.open(config, audit=audit) as node,
    ):
        audit.show_to(node.metrics)
        node.start()
        assert node.wait_until_ready(SOON_S)
        sidecar.start(node)
        server.start(node)
        for user in ("alice", "unknown"):
            ask(server.addresses[0], request_frame("describe_acls", 3, EVERY), user=user)
        create(node, [topic_acl("orders"), topic_acl("payments")])
        delete(node, "payments")
        with httpx.Client(base_url=sidecar.urls[0], timeout=SOON_S) as client:
            send_requests(client)
            yield node, client


def send_requests(client: httpx.Client) -> None:
    """Send requests that are allowed, denied and refused, and wrong tokens."""
    for operation in (AclOperation.READ, AclOperation.WRITE):
        request = {
            "subject": {"type": "User", "id": "a"},
            "action": {"name": operation.name},
            "resource": {"type": "TOPIC", "id": "orders"},
            "context": {"host": "10.0.0.1"},
        }
        assert client.post(ONE, json=request).json()["decision"] is (operation is AclOperation.READ)
    assert client.post(ONE, content=b"{").status_code == 400
    assert client.get("/v1/acls", params={"principal": "User:a"}).status_code == 403
    wrong = client.get("/v1/state", headers={"authorization": "Bearer wrong"})
    assert wrong.status_code in {401, 429}  # after some tries
