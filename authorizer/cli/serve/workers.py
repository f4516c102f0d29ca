"""``aclog serve`` in several processes: what the supervisor is, and what each of the others does."""

from __future__ import annotations

import os
import traceback
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from authorizer.api.cluster_name import DEFAULT_CLUSTER
from authorizer.api.errors import ConfigError
from authorizer.cli.failure import ExitCode, Failure, failure_of
from authorizer.cli.serve.node_servers import follow_settings, open_admin_server, serve_node
from authorizer.cli.signals import run_as_child
from authorizer.configuration.keys.names import CONSOLE_COUNTS, CONSOLE_HISTORY
from authorizer.configuration.log_setup import set_logging_level, setup_logging
from authorizer.console.console_proxy import ConsoleProxy
from authorizer.console.console_server import ConsoleServer
from authorizer.node.audit_writer import AuditWriter
from authorizer.node.fleet import Fleet
from authorizer.node.node import Node
from authorizer.sidecar.server import Sidecar
from authorizer.sidecar.workers.forwarded_writes import ForwardedWrites
from authorizer.sidecar.workers.supervisor import Supervisor, WorkerStoppedError
from authorizer.sidecar.workers.worker import WorkerStopping
from records.install_command import install_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from authorizer.admin_server.server import AdminServer
    from authorizer.configuration.load import Config
    from authorizer.sidecar.workers.worker import Worker


#: Of the console's process, to the workers' 0.
_CONSOLE_NICE: Final = 19
#: The kernel ends it before a worker, whichever of the two is larger.
_CONSOLE_OOM_SCORE: Final = "1000"


def serve_workers(config: Config) -> NoReturn:
    """Until a signal, which is raised."""
    for each in (config, *map(config.of_cluster, config.clusters)):
        _require_parquet(each)
    with Supervisor(config, _work, _explained) as supervisor:
        supervisor.settings[DEFAULT_CLUSTER].subscribe(lambda config: set_logging_level(config.logging_level))
        setup_logging(config.logging_format, config.logging_level, shared_by=supervisor.directory.output_lock)
        try:
            supervisor.run()
        except WorkerStoppedError as error:
            stopped = error.stopped
            raise Failure(stopped.message, ExitCode(stopped.code), stopped.hint) from error


def _require_parquet(config: Config) -> None:
    """Refuse a history and counts that the console's process could not read later."""
    for key, output in (
        (CONSOLE_HISTORY, config.console_history),
        (CONSOLE_COUNTS, config.console_counts),
    ):
        if output is not None and find_spec("pyarrow") is None:
            raise ConfigError(key, output, f"it needs pyarrow: {install_command('snapshots')}")


def _work(settings: Mapping[str, Config], worker: Worker, lifeline: int) -> None:
    if worker.is_console:
        _let_workers_go_first()
    run_as_child(lifeline, partial(_serve, settings, worker))


def _serve(settings: Mapping[str, Config], worker: Worker) -> None:
    config = settings[DEFAULT_CLUSTER]
    lock = worker.directory.output_lock
    output = setup_logging(config.logging_format, config.logging_level, shared_by=lock)
    with (
        AuditWriter.configured(config, output, worker.instance_number) as audit,
        _server(config, worker) as sidecar,
        _admin_server(config, worker) as admin_server,
        _open_node(settings, worker, audit) as node,
    ):
        follow_settings(node, audit)
        serve_node(node, sidecar, admin_server)


@contextmanager
def _open_node(settings: Mapping[str, Config], worker: Worker, audit: AuditWriter) -> Iterator[Node | Fleet]:
    """The node, or those of several clusters; only the first worker writes the logs."""
    config, place = settings[DEFAULT_CLUSTER], worker.directory

    def writer_of(cluster: str, config: Config) -> ForwardedWrites:
        return ForwardedWrites.of_cluster(place, config.acl_update_timeout_ms, cluster)

    if config.clusters:
        writer = None if worker.is_writer else writer_of
        with Fleet(config, audit=audit, clusters=settings, writer=writer) as fleet:
            yield fleet
        return
    forwarded = (
        nullcontext()
        if worker.is_writer
        else closing(ForwardedWrites(place, config.acl_update_timeout_ms, writable=worker.writable))
    )
    with forwarded as elsewhere, Node.open(config, lazily=True, audit=audit, writer=elsewhere) as node:
        yield node


def _server(config: Config, worker: Worker) -> Sidecar | ConsoleServer:
    if worker.is_console:
        return ConsoleServer(config, worker)
    return Sidecar(config, worker, ConsoleProxy(worker.directory) if worker.has_console else None)


def _admin_server(config: Config, worker: Worker) -> AbstractContextManager[AdminServer | None]:
    return nullcontext() if worker.is_console else open_admin_server(config, worker)


def _let_workers_go_first() -> None:
    """Where there is one processor for both, and where there is too little memory."""
    os.nice(_CONSOLE_NICE)
    with suppress(OSError):  # no Linux, or a sandbox without /proc
        Path("/proc/self/oom_score_adj").write_text(_CONSOLE_OOM_SCORE, "ascii")


def _explained(error: Exception) -> WorkerStopping:
    if click.get_current_context().find_root().params.get("debug"):
        traceback.print_exception(error)
    failure = failure_of(error)
    return WorkerStopping(failure.message, failure.exit_code, failure.hint)
