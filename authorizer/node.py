"""Node: the composition root. It opens a log and a snapshot store and wires replay, decisions and writes together.

SKELETON: signatures first; bodies follow.

    Node.open(config)  builds: log (records.log.open.open_log), SnapshotStore, StandardAuthorizer, LogAclMutator,
                       Loader, SnapshotGenerator, metrics registry. Nothing runs yet, nothing is bound.
    node.start()       starts the loader and the mutator; returns the authorizer's endpoint futures (KIP-504).
    node.close()       in the reverse order; idempotent. `with Node.open(config) as node: node.start()` closes.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry

from authorizer.api import AuthorizerServerInfo, Endpoint
from authorizer.config import Config
from records.log.base import LogIdentity, MetadataLog


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One consistent view of where a node stands; what /v1/state, /readyz and `aclog quickstart` print.

    Attributes:
        end_offset: last applied offset + 1.
        epoch: leader epoch of the last applied batch.
        high_watermark: of the log when last looked at; None before the first look.
        lag_records: high watermark - end offset; None before the first look.
        lag_ms: for how long the node has been behind; 0 when it is not.
        ready: whether decisions may be trusted.
        not_ready_reason: why not, in words for a person; None when ready.
        acl_count: ACLs in force (an equal ACL under two ids counts as two ids, as Kafka's image does).
        digest: 32 hexadecimal digits (I12).
        writable: whether create_acls and delete_acls can work here.
    """

    identity: LogIdentity
    log_url: str
    end_offset: int
    epoch: int
    high_watermark: int | None
    lag_records: int | None
    lag_ms: int
    ready: bool
    not_ready_reason: str | None
    acl_count: int
    digest: str
    writable: bool
    high_watermark_is_guess: bool


class Node:
    """A running aclog: the authorizer and everything that keeps it current."""

    config: Config
    log: MetadataLog
    authorizer: object  # authorizer.standard.StandardAuthorizer
    metrics: CollectorRegistry  # prometheus_client.generate_latest(node.metrics)

    @classmethod
    def open(cls, config: Config) -> Self:
        """Open log and store. ConfigError, LogError (LogNotFoundError, LogLockedError, ...), SnapshotError."""
        raise NotImplementedError

    def start(self, server_info: AuthorizerServerInfo | None = None) -> Mapping[Endpoint, Future[None]]:
        """Begin to replay; by default the endpoints are those of the configuration."""
        raise NotImplementedError

    def status(self) -> NodeStatus:
        """Where the node stands now. Cheap enough for every request."""
        raise NotImplementedError

    def wait_for(self, offset: int, timeout_s: float) -> bool:
        """Block until everything below ``offset`` (an end offset) is visible here; False on timeout or close."""
        raise NotImplementedError

    def wait_until_ready(self, timeout_s: float) -> bool:
        """Block until the first load is complete; False on timeout. Raises what made the load fail."""
        raise NotImplementedError

    def close(self) -> None:
        """Fail what is pending, stop the threads, release the log. Idempotent."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
