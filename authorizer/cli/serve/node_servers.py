"""The servers of a node or a fleet: HTTP's, and that of Kafka's protocol, if it has listeners."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from authorizer.admin_server.server import AdminServer
    from authorizer.configuration.load import Config
    from authorizer.console.console_server import ConsoleServer
    from authorizer.node.audit_writer import AuditWriter
    from authorizer.node.fleet import Fleet
    from authorizer.node.node import Node
    from authorizer.sidecar.server import Sidecar
    from authorizer.sidecar.workers.worker import Worker


def open_admin_server(
    config: Config, worker: Worker | None = None
) -> AbstractContextManager[AdminServer | None]:
    """Bind the listeners of Kafka's protocol, if there are any; ``worker``: has what the processes share."""
    if not config.process_admin_listeners:
        return nullcontext()
    from authorizer.admin_server.server import AdminServer

    if worker is None:
        return AdminServer(config)
    return AdminServer(config, worker.reserved_admin, worker.quota_memory)


def follow_settings(node: Node | Fleet, audit: AuditWriter) -> None:
    """Show the audit log in the metrics, and apply both logs' levels when they change."""
    from authorizer.api.audit_levels import AUDIT_LEVELS
    from authorizer.configuration.log_setup import set_logging_level
    from authorizer.node.fleet import Fleet

    audit.show_to(node.metrics)
    node.reconfiguration.subscribe(lambda config: set_logging_level(config.logging_level))
    if isinstance(node, Fleet):  # a node sets the audit log's level itself
        node.reconfiguration.subscribe(lambda config: audit.set_level(AUDIT_LEVELS[config.audit_level]))


def open_node(config: Config, audit: AuditWriter) -> Node | Fleet:
    """Open the node, or prepare those of several clusters."""
    from authorizer.node.fleet import Fleet
    from authorizer.node.node import Node

    return Fleet(config, audit=audit) if config.clusters else Node.open(config, lazily=True, audit=audit)


def serve_node(
    node: Node | Fleet, sidecar: Sidecar | ConsoleServer, admin_server: AdminServer | None
) -> NoReturn:
    """Start the node or the fleet, and serve it until a signal, which is raised."""
    from authorizer.node.fleet import Fleet
    from authorizer.sidecar.server import Sidecar

    if admin_server is not None and isinstance(sidecar, Sidecar):
        sidecar.accompany(admin_server)
    if isinstance(node, Fleet):
        with nullcontext() if admin_server is None else admin_server.start_fleet(node):
            sidecar.serve_fleet(node)
    opening = node.start()
    with nullcontext() if admin_server is None else admin_server.start(node, opening):
        sidecar.serve(node)
