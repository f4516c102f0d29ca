"""Fleets: several nodes in this process behind one sidecar, as in ``aclog serve``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from authorizer.admin_server.server import AdminServer
from authorizer.configuration.load import Config, load_config
from authorizer.configuration.log_setup import setup_logging
from authorizer.console.routes.in_process_console import InProcessConsole
from authorizer.node.audit_writer import AuditWriter
from authorizer.node.fleet import Fleet
from authorizer.node.node import Node
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
from support.nodes import SOON_S, create
from support.waiting import wait_until


def fleet_config(logs: Mapping[str, object], **settings: object) -> Config:
    """Of clusters and their logs; settings by their key with underscores for dots, without ``aclog.``."""
    flags = {"aclog.clusters": ",".join(logs), "aclog.listeners": "PLAINTEXT://127.0.0.1:0"}
    flags |= {f"aclog.cluster.{name}.log.url": str(url) for name, url in logs.items()}
    flags |= {f"aclog.{name.replace('_', '.')}": str(value) for name, value in settings.items()}
    return load_config(environ={}, flags=flags)


@contextmanager
def running_fleet(config: Config, admin_server: AdminServer | None = None) -> Iterator[tuple[Fleet, str]]:
    """A started fleet, and its URL; with a server of Kafka's protocol if there is one."""
    with (
        AuditWriter.configured(config, setup_logging("json", "ERROR")) as audit,
        Sidecar(config, groups=InProcessConsole()) as sidecar,
        Fleet(config, audit=audit) as fleet,
    ):
        if admin_server is not None:
            admin_server.start_fleet(fleet)
        sidecar.start_fleet(fleet)
        yield fleet, sidecar.urls[0]


def node_of(fleet: Fleet, name: str) -> Node:
    """The node of a cluster, when it is ready."""
    member = fleet.members[name]
    wait_until(lambda: member.node is not None and member.node.status().ready)
    assert member.node is not None
    return member.node


@contextmanager
def member_with_client(
    directory: Path, bindings: Sequence[AclBinding] = (), **settings: Any
) -> Iterator[tuple[Node, httpx.Client]]:
    """As ``node_with_client``, for one cluster of two; the other's ACLs and settings allow everything."""
    settings["cluster.other.super_users"] = "User:ANONYMOUS"
    logs = {"one": directory / "one", "other": directory / "other"}
    with running_fleet(fleet_config(logs, log_mode="create", **settings)) as (fleet, url):
        node = node_of(fleet, "one")
        everything = AccessControlEntry("User:*", "*", AclOperation.ALL, AclPermissionType.ALLOW)
        cluster = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
        create(node_of(fleet, "other"), [AclBinding(cluster, everything)])
        if bindings:
            create(node, bindings)
        with httpx.Client(base_url=f"{url}/clusters/one", timeout=SOON_S) as client:
            yield node, client
