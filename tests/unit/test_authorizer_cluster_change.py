"""Changes at a node whose log a cluster writes: answers and their time. The log is a real directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from authorizer.api.errors import (
    ClusterAuthorizationError,
    InvalidRequestError,
    NotControllerError,
    OperationTimedOutError,
    kafka_error,
)
from authorizer.cli.main import cli
from authorizer.node.node import Node
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
from records.entries import (
    AccessControlEntryRecord,
    AclContent,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import (
    LogError,
    LogOutcomeUnknownError,
    LogReadOnlyError,
    LogRefusedError,
    LogUnreachableError,
)
from records.ids import content_uuid
from records.log.base import MetadataLog
from records.log.cluster_writer import AclFilterContent, AclWriteResult, Refusal, Removal
from records.log.directory import DirectoryLog
from support.json_acls import acl
from support.node_acls import CONTEXT, may, named, topic_acl
from support.nodes import SOON_S, create, running_node, sidecar_of
from support.waiting import wait_until


class Cluster:
    """A ClusterWriter that appends to the directory of the node's log.

    ``before`` is appended before a change, ``failure`` is raised instead of it; names in ``refused``
    are refused.
    """

    def __init__(self) -> None:
        self.log: MetadataLog | None = None
        self.before: tuple[MetadataRecord, ...] = ()
        self.failure: LogError | None = None
        self.refused: set[str | None] = set()
        self._held: dict[AclContent, AccessControlEntryRecord] = {}

    def create(self, acls: Sequence[AclContent]) -> AclWriteResult[Refusal | None]:
        results = [self._refusal(acl[1]) for acl in acls]
        taken = [acl for acl, refusal in zip(acls, results, strict=True) if refusal is None]
        new = {
            acl: AccessControlEntryRecord(content_uuid(acl), *acl) for acl in taken if acl not in self._held
        }
        self._held |= new
        return AclWriteResult(self._append(list(new.values())), results)

    def delete(self, filters: Sequence[AclFilterContent]) -> AclWriteResult[Refusal | list[Removal]]:
        results: list[Refusal | list[Removal]] = []
        removed = []
        for wanted in filters:
            refusal = self._refusal(wanted[1])
            matching = [acl for acl in self._held if acl[1] == wanted[1]] if refusal is None else []
            removed += [self._held.pop(acl) for acl in matching]
            results.append([Removal(acl) for acl in matching] if refusal is None else refusal)
        return AclWriteResult(
            self._append([RemoveAccessControlEntryRecord(each.id) for each in removed]), results
        )

    def _refusal(self, name: str | None) -> Refusal | None:
        return Refusal("INVALID_REQUEST", f"not {name}") if name in self.refused else None

    def _append(self, records: Sequence[MetadataRecord]) -> int:
        assert self.log is not None
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        return self.log.append([*self.before, *records]) if records else self.log.high_watermark()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(DirectoryLog, "cluster_writer", property(lambda _log: made))
    return made


@pytest.fixture
def node(cluster: Cluster, tmp_path: Path) -> Iterator[Node]:
    with running_node(tmp_path / "log", log_mode="create") as started:
        cluster.log = started.log
        yield started


def test_a_change_within_a_metadata_transaction_is_answered_at_its_end(node: Node, cluster: Cluster) -> None:
    """The change is committed but not visible (I2): the answer waits until decisions follow it."""
    cluster.before = (BeginTransactionRecord("t"),)
    (future,) = node.authorizer.create_acls(CONTEXT, [topic_acl("t")])
    wait_until(lambda: node.loader.status().position == 2, "the node to read it")
    assert not node.wait_for(2, 0.05)
    assert not future.done()
    assert not may(node.authorizer, "t")
    node.log.append([EndTransactionRecord()])
    record = future.result(SOON_S).record
    assert record is not None
    assert may(node.authorizer, "t")
    assert node.authorizer.state.index.image.get(record.id) is not None


def test_each_item_has_its_result_in_library_http_and_commands(
    node: Node, cluster: Cluster, tmp_path: Path
) -> None:
    """A refused item does not stop the others, and its result has the error."""
    cluster.refused = {"no", "none"}
    bad, good, again, odd = node.authorizer.create_acls(
        CONTEXT, [topic_acl("no"), topic_acl("yes"), topic_acl("yes"), topic_acl("none")]
    )
    for future, name in ((bad, "no"), (odd, "none")):
        assert isinstance(error := future.result(SOON_S).exception, InvalidRequestError)
        assert str(error) == f"not {name}"
    assert good.result(SOON_S).record is not None
    assert (again.result(SOON_S).exception, again.result().record) == (None, None)
    bad_removal, removal = node.authorizer.delete_acls(CONTEXT, [named("no"), named("yes")])
    assert isinstance(bad_removal.result(SOON_S).exception, InvalidRequestError)
    assert [each.record for each in removal.result(SOON_S).acl_binding_delete_results] == [
        good.result().record
    ]
    may_change = AclBinding(
        ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL),
        AccessControlEntry("User:ANONYMOUS", "*", AclOperation.ALTER, AclPermissionType.ALLOW),
    )
    create(node, [may_change])
    with sidecar_of(node) as url, httpx.Client(base_url=url, timeout=SOON_S) as client:
        acls = [acl("no", "User:a"), acl("yes", "User:a")]
        answer = client.post("/v1/acls", json={"acls": acls})
        assert answer.status_code == 200
        refused, created = answer.json()["results"]
        assert (refused["error"]["message"], created["created"]) == ("not no", True)
        assert node.wait_for(answer.json()["offset"], 0)
        arguments = ["acls", "--sidecar", url, "--add", "--allow-principal", "User:b", "--operation", "Read"]
        done = CliRunner().invoke(cli, [*arguments, "--topic", "no", "--topic", "yes"])
    assert done.exit_code != 0
    assert "1 of 2 ACLs refused" in done.stderr


def test_errors_say_whether_the_change_is_in_force(node: Node, cluster: Cluster) -> None:
    """Kafka's errors for an operation that the cluster forbids, refuses, or leaves unanswered."""
    for failure, kind, text in (
        (LogRefusedError("takes Alter"), ClusterAuthorizationError, "takes Alter"),
        (LogOutcomeUnknownError("no answer"), OperationTimedOutError, "has not confirmed the append"),
        (LogReadOnlyError("it is read"), NotControllerError, "it is read"),
    ):
        cluster.failure = failure
        futures = node.authorizer.create_acls(CONTEXT, [topic_acl("a"), topic_acl("b")])
        for future in futures:
            assert isinstance(error := future.result(SOON_S).exception, kind)
            assert text in str(error)
    for code in ("POLICY_VIOLATION", "SECURITY_DISABLED", "UNSUPPORTED_VERSION", "REQUEST_TIMED_OUT"):
        assert kafka_error(code, "why").code_name == code
    assert str(kafka_error("SOMETHING_NEW", "why")) == "SOMETHING_NEW: why"
    cluster.failure = LogUnreachableError("an election")  # nothing was written: the node retries
    create(node, [topic_acl("a")])
