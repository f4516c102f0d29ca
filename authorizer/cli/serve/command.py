"""``aclog serve``: a node and its sidecar, until a signal."""

from __future__ import annotations

from pathlib import Path

import click

from authorizer.cli.command import Command
from authorizer.cli.options import config_option, log_option, snapshots_option
from authorizer.cli.serve.node_servers import follow_settings, open_admin_server, open_node, serve_node
from authorizer.cli.signals import Hangups, ends_on_signals
from authorizer.cli.workspace import Workspace
from authorizer.configuration.keys.names import (
    ACLOG_LISTENERS,
    ADMIN_LISTENERS,
    CONSOLE_LISTENERS,
    DESCRIBE_PRINCIPALS,
    WORKERS,
)
from authorizer.configuration.listeners import EVERY_LISTENER


@click.command("serve", cls=Command)
@config_option
@log_option
@snapshots_option
@click.option(
    "--listener",
    "listeners",
    multiple=True,
    metavar="NAME://HOST:PORT",
    help="Where to listen: PLAINTEXT://127.0.0.1:8180, SSL://:8443, or UNIX:///path. Repeatable, each with a "
    "name of its own.  [default: aclog.listeners or listeners of --config, else PLAINTEXT://127.0.0.1:8180]",
)
@click.option(
    "--admin-listener",
    "admin_listeners",
    multiple=True,
    metavar="NAME://HOST:PORT",
    help="Where to speak Kafka's protocol, for kafka-acls, AdminClients and Terraform: "
    "PLAINTEXT://127.0.0.1:9192, SASL_SSL://:9193. Repeatable, each with a name of its own.  [default: "
    "aclog.admin.listeners of --config, else none]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="The same as --listener PLAINTEXT://127.0.0.1:PORT; 0 is any free port.",
)
@click.option(
    "--describe-principals",
    metavar="TYPE:NAME[;...]",
    help="Principals that may ask about others without an ACL, such as User:ANONYMOUS, which is everyone who "
    "reaches the listener.  [default: aclog.describe.principals of --config, else none]",
)
@click.option(
    "--workers",
    metavar="N",
    help="Processes that answer on the same listeners; each has all ACLs in its memory.  [default: "
    "aclog.workers of --config, else 1]",
)
@click.option(
    "--console",
    is_flag=True,
    help="A page for people at `/` of every listener: who may do what, why, and since when. It works in a "
    "process of its own, which has all ACLs in its memory, too.  [default: aclog.console.listeners of "
    "--config, else none]",
)
@click.option(
    "--background",
    "output_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Return when the node is ready, and let it serve in the background, with its output appended to "
    "FILE. Prints the process id.",
)
def serve_command(
    *,
    listeners: tuple[str, ...],
    admin_listeners: tuple[str, ...],
    port: int | None,
    describe_principals: str | None,
    workers: str | None,
    console: bool,
    output_file: Path | None,
) -> None:
    """Run a node that serves decisions over HTTP, for a gateway, registry or proxy.

    Follows the log, stores snapshots, and serves AuthZEN decisions and searches (/access/v1/evaluation,
    /evaluations, /search), Kafka's operations (/v1/explain, /v1/filter, ...), /v1/changes, /v1/state,
    /livez, /readyz, /metrics and /openapi.json, which describes them, on --listener or the configured
    listeners, by default http://127.0.0.1:8180. Log lines and the audit log go to stderr; aclog.decision.log
    writes decisions as CloudEvents to stdout, a rotated file or a Kafka topic. Ctrl-C or SIGTERM end it.

    With --background the command returns when /readyz says that the node is ready, and every --admin-listener
    accepts connections: the next command can ask it. stdout has the process id, for `kill`. A node that
    cannot start, or is not ready within a minute, is ended, and the command has its error and exit code. A
    service manager needs no --background: under systemd `aclog serve` reports by itself that it is ready.

    On SIGHUP --config is read again, and what has changed is taken, if all of it may change while it runs
    (docs/configuration.md says which keys); PUT /v1/config changes the same keys until then.

    ACLs are listed and changed over HTTP, too (/v1/acls), and by `aclog acls` beside it: on a directory's log
    it also listens on the socket aclog.sock in the directory, for the log's owner alone.

    On --admin-listener it speaks Kafka's protocol: `kafka-acls --bootstrap-server HOST:PORT`, AdminClients
    and Kafka's Terraform providers list and change the same ACLs there as on a broker, once it is ready.

    If no broker of a topic's cluster answers, it retries every few seconds; until then it is not ready, and
    /readyz has the reason. It ends if the cluster refuses access or has no such log.

    With aclog.clusters in --config it follows several clusters, each with its log: /clusters/NAME before a
    path selects one. A cluster that is unreachable does not affect the others.

    Callers may ask about themselves; to ask about other principals they need Describe on the cluster, or an
    entry in --describe-principals. A caller is the principal of its TLS certificate, token, or user at a Unix
    socket (listeners in --config); all other callers are User:ANONYMOUS.

    Exit code 0: ended by a signal, or ready in the background; 2: wrong usage or configuration, or the
    cluster refuses access; 3: the log is locked, or the node is not ready in time.

    \b
    Examples:
      aclog serve --log /var/kafka/__cluster_metadata-0 --describe-principals User:ANONYMOUS
      aclog serve --config server.properties --log /var/kafka/__cluster_metadata-0
      aclog serve --config sidecar.properties --snapshots s3://bucket/aclog
      aclog serve --log /var/lib/aclog/log --port 8181
      aclog serve --log /var/lib/aclog/log --admin-listener PLAINTEXT://127.0.0.1:9192
      kafka-acls --bootstrap-server 127.0.0.1:9192 --list
      node=$(aclog serve --log /var/lib/aclog/log --background node.log)
      aclog serve --log /var/lib/aclog/log --console --describe-principals User:ANONYMOUS
      aclog serve --config sidecar.properties --log kafka://HOST:9092/acls --workers 4
      aclog serve --config fleet.properties
    """
    from authorizer.configuration.log_setup import setup_logging
    from authorizer.node.audit_writer import AuditWriter
    from authorizer.node.fleet import Fleet, require_cluster_logs
    from authorizer.sidecar.server import Sidecar

    workspace = Workspace.given(
        {
            ACLOG_LISTENERS: _listeners(listeners, port),
            ADMIN_LISTENERS: ",".join(admin_listeners) or None,
            DESCRIBE_PRINCIPALS: describe_principals,
            WORKERS: workers,
            CONSOLE_LISTENERS: EVERY_LISTENER if console else None,
        },
        is_node=True,
    )
    config = workspace.config
    if config.clusters:
        require_cluster_logs(config)
    else:
        _ = workspace.log_url  # a missing one is wrong usage, before anything starts
    if output_file is not None:
        from authorizer.cli.serve.background import serve_in_background

        serve_in_background(config, output_file)
    if config.workers > 1 or config.console_listeners:
        from authorizer.cli.serve.workers import serve_workers

        with ends_on_signals():
            serve_workers(config)
        return
    hangups = Hangups()
    output = setup_logging(config.logging_format, config.logging_level)
    with (
        ends_on_signals(),
        AuditWriter.configured(config, output) as audit,
        Sidecar(config) as sidecar,
        open_admin_server(config) as admin_server,
        open_node(config, audit) as node,
    ):
        follow_settings(node, audit)
        reloaded = node if isinstance(node, Fleet) else node.reconfiguration
        hangups.call(reloaded.reload_on_sighup)
        serve_node(node, sidecar, admin_server)


def _listeners(listeners: tuple[str, ...], port: int | None) -> str | None:
    """The value of aclog.listeners that the flags give; None without flags."""
    if port is not None:
        if listeners:
            raise click.UsageError("--port is a short form of --listener: name one of the two")
        return f"PLAINTEXT://127.0.0.1:{port}"
    return ",".join(listeners) or None
