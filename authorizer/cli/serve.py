"""``aclog serve``: a node and its sidecar, until a signal."""

from __future__ import annotations

import click

from authorizer.cli.options import config_option, log_option, snapshots_option
from authorizer.cli.signals import ends_on_signals
from authorizer.cli.workspace import Workspace
from authorizer.configuration.keys.names import DESCRIBE_PRINCIPALS


@click.command("serve")
@config_option
@log_option
@snapshots_option
@click.option(
    "--describe-principals",
    metavar="TYPE:NAME[;...]",
    help="Principals that may ask about others without an ACL, such as User:ANONYMOUS, which is everyone who "
    "reaches the listener.  [default: aclog.describe.principals of --config, else none]",
)
def serve_command(*, describe_principals: str | None) -> None:
    """Answer over HTTP, beside a gateway, registry or proxy.

    Follows the log, keeps snapshots, and serves AuthZEN decisions and searches (/access/v1/evaluation,
    /evaluations, /search), Kafka's own questions (/v1/explain, /v1/filter, ...), /v1/changes, /v1/state,
    /livez, /readyz, /metrics and /openapi.json, which describes them, on the configured listeners, by default
    http://127.0.0.1:8180. Log lines and the audit log go to stderr. Ctrl-C or SIGTERM end it.

    ACLs are listed and changed over HTTP, too (/v1/acls), and by `aclog acls` beside it: on a directory's log
    it also listens on the socket aclog.sock in the directory, for the log's owner alone.

    Where no broker of a topic's cluster answers, it waits for them: it is not ready, /readyz says why, and it
    tries again every some seconds. A cluster that answers that it does not let aclog in, or has no such log,
    ends it.

    Anyone may ask about themselves; to ask about others takes Describe on the cluster, or a place in
    --describe-principals. A caller is what its TLS certificate, or the kernel at a Unix socket, says it is
    (listeners in --config); everyone else is User:ANONYMOUS.

    \b
    Examples:
      aclog serve --log /var/kafka/__cluster_metadata-0 --describe-principals User:ANONYMOUS
      aclog serve --config server.properties --log /var/kafka/__cluster_metadata-0
      aclog serve --config sidecar.properties --snapshots s3://bucket/aclog
    """
    from authorizer.audit_writer import AuditWriter
    from authorizer.configuration.log_setup import setup_logging
    from authorizer.node import Node
    from authorizer.sidecar.server import Sidecar

    workspace = Workspace.given({DESCRIBE_PRINCIPALS: describe_principals})
    config = workspace.config
    _ = workspace.log_url  # a missing one is wrong usage, before anything starts
    output = setup_logging(config.logging_format, config.logging_level)
    with (
        ends_on_signals(),
        AuditWriter.configured(config, output) as audit,
        Sidecar(config) as sidecar,
        Node.open(config, lazily=True, audit=audit) as node,
    ):
        node.start()
        sidecar.serve(node)
