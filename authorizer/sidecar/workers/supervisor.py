"""Supervisor: starts the workers of a sidecar, restarts one that died, and stops them all.

It serves no requests, reads no log and starts no threads, so that a fork copies no lock in use. (pyarrow's
allocator starts a thread when it is imported, and handles forks itself.) The rules:

- The listeners' addresses are reserved before any worker starts, and stay reserved while one is replaced.
- The first worker starts first, the others when it has opened the log. An error that prevents the start is
  reported once, with the exit code that a sidecar of one process has.
- The console's process starts with the others, if a listener has the console, and is restarted like them. Its
  failure never stops the workers, not even if it cannot start.
- A worker that had opened the log is restarted whenever it ends, with increasing delays (Backoff) while it
  ends early. A worker with an event loop that hangs is killed, and so restarted.
- At shutdown no more connections are accepted, and each worker completes its requests; one that hangs is
  killed. Workers also end when the supervisor dies.
"""

from __future__ import annotations

import gc
import math
import mmap
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn, Self

import structlog

from authorizer.api.cluster_name import DEFAULT_CLUSTER
from authorizer.api.errors import ConfigError, RestartNeededError
from authorizer.authentication.rate_limits import SHARED_BYTES
from authorizer.configuration.keys.names import CONSOLE_LISTENERS, WORKERS
from authorizer.configuration.listeners import is_unix
from authorizer.configuration.load import Config
from authorizer.listeners.binding import reserve_listener
from authorizer.listeners.unix_socket import remove_unix
from authorizer.node.reconfiguration import Reconfiguration
from authorizer.sidecar.http.systemd import STOPPING, notify, notify_alive, notify_listening
from authorizer.sidecar.workers.socket_directory import ConsoleStatus, SocketDirectory
from authorizer.sidecar.workers.worker import (
    WRITER,
    Listening,
    LogReady,
    NewSettings,
    Report,
    SettingsApplied,
    SettingsChange,
    SettingsResult,
    Worker,
    WorkerStopping,
)
from replay.clock import Backoff

log = structlog.get_logger(__name__)

#: A worker that ran for this long is restarted without delay.
STABLE_AFTER_S: Final = 60.0
_FORKING: Final = multiprocessing.get_context("fork")
#: Interval of the checks for hung workers, and of the notification to systemd's watchdog.
_POLL_INTERVAL_S: Final = 0.5
#: Requests get five seconds to complete, a snapshot that is being written thirty.
_SHUTDOWN_TIMEOUT_S: Final = 40.0
#: Shorter, because the console's process computes only pages.
_CONSOLE_SHUTDOWN_TIMEOUT_S: Final = 5.0
#: How long the supervisor waits until all workers have applied new settings.
_APPLY_TIMEOUT_S: Final = 1.0
#: Blocked during a fork, until the worker has its handlers.
_BLOCKED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class WorkerStoppedError(Exception):
    """The first worker could not start, and so the sidecar cannot; it has the worker's error."""

    def __init__(self, stopped: WorkerStopping) -> None:
        super().__init__(stopped.message)
        self.stopped = stopped


@dataclass(slots=True)
class _Slot:
    """One worker or the console; ``process`` is None while it does not run."""

    number: int
    is_console: bool = False
    process: ForkProcess | None = None
    pipe: Connection | None = None
    stopped: WorkerStopping | None = None
    has_log: bool = False
    backoff: Backoff = field(default_factory=Backoff)
    started_s: float = 0.0
    restart_at_s: float = 0.0
    #: Its counter at the last check, None before it listens; and for how long that has not changed.
    heartbeat: int | None = None
    silent_s: float = 0.0

    @property
    def name(self) -> dict[str, int]:
        """Its fields in log lines."""
        return {} if self.is_console else {"worker": self.number}


class Supervisor:
    """Must be created in a process without threads; ``run`` forks it.

    Attributes:
        settings: of all workers: the process's under DEFAULT_CLUSTER, and each cluster's by name.

    Raises:
        ConfigError: a listener's address cannot be bound, or the directory cannot be created.
    """

    def __init__(
        self,
        config: Config,
        work: Callable[[Mapping[str, Config], Worker, int], None],
        explain: Callable[[Exception], WorkerStopping],
    ) -> None:
        """Reserve the addresses.

        ``work`` runs in each worker's process until that ends. It gets the current ``settings``, and a
        descriptor that is closed when the supervisor dies. ``explain`` turns a worker's exception into an
        error for users.
        """
        self._work = work
        self._explain = explain
        self._writable = False
        self._pid = os.getpid()
        self._reserved: list[socket.socket] = []
        self._reserved_admin: list[socket.socket] = []
        self._quota_memory = [mmap.mmap(-1, SHARED_BYTES) for _ in config.admin_configs()]
        self._socket_files: list[Path] = []
        self.settings = {DEFAULT_CLUSTER: Reconfiguration(config)}
        self.settings |= {name: Reconfiguration(config.of_cluster(name)) for name in config.clusters}
        for name, reconfiguration in self.settings.items():
            reconfiguration.subscribe(partial(self._distribute_settings, name))
        # Reports that were received and not handled yet.
        self._pending_reports: deque[tuple[_Slot, Report]] = deque()
        self._sighup_reader, self._sighup_writer = os.pipe()
        self._count = config.workers
        self._slots = [_Slot(number) for number in range(self._count)]
        if config.console_listeners:
            self._slots.append(_Slot(self._count, is_console=True))
        self._heartbeats = mmap.mmap(-1, len(self._slots))
        self._checked_at_s = 0.0
        self._lifeline_reader, self._lifeline_writer = os.pipe()
        self.directory = SocketDirectory(_make_directory(config))
        self.directory.restarts = [0] * self._count
        self.directory.console = ConsoleStatus(is_up=False, restarts=0, reason=None)
        try:
            for endpoint in config.served_listeners():
                self._reserved.append(reserve_listener(endpoint, config.listeners_key))
                if is_unix(endpoint):
                    self._socket_files.append(Path(endpoint.host or ""))
            for each in config.admin_configs():
                for endpoint in each.served_admin_listeners():
                    self._reserved_admin.append(reserve_listener(endpoint, each.admin_listeners_key))
        except BaseException:
            self.close()
            raise

    def run(self) -> NoReturn:
        """Start the workers and supervise them until a signal, which is raised.

        WorkerStoppedError: the first one could not start.
        """
        signal.signal(signal.SIGHUP, self._on_sighup)
        # Workers share the current objects' memory; a garbage collection would write to it, and so copy it.
        gc.collect()
        gc.freeze()
        self._start(self._slots[WRITER])
        while True:
            now_s = time.monotonic()
            idle = [slot for slot in self._slots if slot.process is None and slot.restart_at_s]
            for slot in idle:
                if slot.restart_at_s <= now_s:
                    self._start(slot)
            while self._pending_reports:
                self._handle(*self._pending_reports.popleft())
            self._kill_hung_workers(now_s)
            notify_alive()
            next_s = min((slot.restart_at_s for slot in idle if slot.process is None), default=math.inf)
            self._wait(min(max(0.0, next_s - now_s), _POLL_INTERVAL_S))

    def close(self) -> None:
        notify(STOPPING)
        for path in self._socket_files:
            remove_unix(path)
        self._socket_files.clear()
        for each in (*self._reserved, *self._reserved_admin):
            each.close()
        self._reserved.clear()
        self._reserved_admin.clear()
        running = [(slot, slot.process) for slot in self._slots if slot.process is not None]
        for _, process in running:
            process.terminate()
        started_s = time.monotonic()
        for slot, process in running:
            timeout_s = _CONSOLE_SHUTDOWN_TIMEOUT_S if slot.is_console else _SHUTDOWN_TIMEOUT_S
            process.join(max(0.0, started_s + timeout_s - time.monotonic()))
            if process.is_alive():
                if not slot.is_console:
                    reason = f"it has not ended within {timeout_s:g} s"
                    log.error("worker_hangs", pid=process.pid, reason=reason)
                process.kill()
                process.join()
        for slot in self._slots:
            slot.process = None
        self.directory.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _on_sighup(self, _number: int, _frame: FrameType | None) -> None:
        os.write(self._sighup_writer, b"\0")

    def _distribute_settings(self, cluster: str, config: Config) -> None:
        """Send new settings to all workers, and wait until those that run have applied them."""
        put = {name: config.properties[name] for name, source in config.sources.items() if source == "put"}
        pending = [slot for slot in self._slots if slot.pipe is not None]
        for slot in pending:
            self._send(slot, NewSettings(cluster, config.inputs, put))
        deadline_s = time.monotonic() + _APPLY_TIMEOUT_S
        while pending and (left_s := deadline_s - time.monotonic()) > 0:
            pipes = {slot.pipe: slot for slot in pending if slot.pipe is not None}
            for ready in wait(list(pipes), left_s):
                slot = pipes[ready]  # type: ignore[index]  # what was given
                report = self._read(slot)
                if report is None or isinstance(report, SettingsApplied):
                    pending.remove(slot)
                else:
                    self._pending_reports.append((slot, report))

    def _send(self, slot: _Slot, message: NewSettings | SettingsResult) -> None:
        if slot.pipe is not None:
            with suppress(OSError):  # it has ended, and is restarted with the new settings
                slot.pipe.send(message)

    def _start(self, slot: _Slot) -> None:
        ours, theirs = _FORKING.Pipe()
        worker = Worker(
            number=slot.number,
            count=self._count,
            has_console=len(self._slots) > self._count,
            directory=self.directory,
            reserved=self._reserved,
            reserved_admin=self._reserved_admin,
            quota_memory=self._quota_memory,
            writable=self._writable,
            pipe=theirs,
            heartbeats=self._heartbeats,
        )
        name = "aclog-console" if slot.is_console else f"aclog-worker-{slot.number}"
        process = _FORKING.Process(target=self._run_worker, args=(worker,), name=name)
        signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
        try:
            process.start()
            slot.process, slot.pipe, slot.stopped = process, ours, None
            slot.started_s, slot.restart_at_s, slot.heartbeat = time.monotonic(), 0.0, None
        except OSError as error:
            if not slot.is_console:
                raise
            self._schedule_restart(slot, f"it cannot be started: {error.strerror or error}")
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)
        theirs.close()

    def _run_worker(self, worker: Worker) -> None:
        os.close(self._lifeline_writer)
        # New settings come from the supervisor.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
        try:
            self._work(
                {name: each.config for name, each in self.settings.items()}, worker, self._lifeline_reader
            )
        except Exception as error:  # noqa: BLE001 - the supervisor reports it
            worker.report(self._explain(error))
        finally:
            if os.getppid() != self._pid:  # the supervisor was killed before it could remove the directory
                self.directory.remove()

    def _kill_hung_workers(self, now_s: float) -> None:
        """Kill workers with an event loop that hangs; `_on_exit` restarts them.

        A stopped process group stops the supervisor and the workers alike. So an interval counts for at most
        twice its intended length.
        """
        passed_s, self._checked_at_s = min(now_s - self._checked_at_s, 2 * _POLL_INTERVAL_S), now_s
        hang_s = self.settings[DEFAULT_CLUSTER].config.workers_hang_timeout_ms / 1000
        for slot in self._slots:
            if slot.process is None or slot.heartbeat is None:
                continue
            heartbeat, before = self._heartbeats[slot.number], slot.heartbeat
            slot.heartbeat, slot.silent_s = (
                heartbeat,
                slot.silent_s + passed_s if heartbeat == before else 0.0,
            )
            if 0 < hang_s < slot.silent_s:
                reason = f"it hung: an event loop has not turned for {hang_s:g} s"
                slot.stopped, slot.heartbeat = WorkerStopping(reason, 70, ""), None
                slot.process.kill()

    def _wait(self, timeout_s: float) -> None:
        """Wait for a report, the end of a worker, a SIGHUP or the timeout."""
        of: dict[object, _Slot | None] = {self._sighup_reader: None}
        for slot in self._slots:
            if slot.process is not None:
                of[slot.process.sentinel] = slot
                if slot.pipe is not None:
                    of[slot.pipe] = slot
        for ready in wait(list(of), timeout_s):  # type: ignore[arg-type]  # descriptors and pipes
            source = of[ready]
            if source is None:
                os.read(self._sighup_reader, 1)
                of_process, *of_clusters = self.settings.values()
                of_process.reload_on_sighup(of_clusters)
            elif ready is not source.pipe:
                self._on_exit(source)
            elif (report := self._read(source)) is not None:
                self._pending_reports.append((source, report))

    def _read(self, slot: _Slot) -> Report | None:
        """Receive the next report; None if the worker has ended."""
        if slot.pipe is None:
            return None
        try:
            report: Report = slot.pipe.recv()
        except (EOFError, OSError):
            slot.pipe.close()
            slot.pipe = None
            return None
        return report

    def _handle(self, slot: _Slot, report: Report) -> None:
        match report:
            case WorkerStopping():
                slot.stopped = report
            case Listening(urls=urls, writable=writable, other_urls=other_urls):
                if slot.number == WRITER:
                    self._writable = writable
                    if not slot.has_log:
                        log.info("listening", urls=urls, workers=self._count)
                        notify_listening([*urls, *other_urls])
                pid = None if slot.process is None else slot.process.pid
                slot.heartbeat, slot.silent_s = self._heartbeats[slot.number], 0.0
                if slot.is_console:
                    self.directory.console = self.directory.console._replace(is_up=True, reason=None)
                log.info("console_started" if slot.is_console else "worker_started", **slot.name, pid=pid)
            case LogReady():
                slot.has_log = True
                if slot.number == WRITER:
                    for other in self._slots:
                        if other.process is None and not other.restart_at_s:
                            self._start(other)
            case SettingsChange():
                self._send(slot, self._change_settings(report))

    def _change_settings(self, change: SettingsChange) -> SettingsResult:
        try:
            changes = self.settings[change.cluster].put(change.texts, change.by, is_trial=change.is_trial)
        except (ConfigError, RestartNeededError) as error:
            return SettingsResult([], str(error))
        return SettingsResult(changes, None)

    def _on_exit(self, slot: _Slot) -> None:
        process = slot.process
        if process is None:
            return
        while (report := self._read(slot)) is not None:
            self._pending_reports.append((slot, report))
        while self._pending_reports:
            self._handle(*self._pending_reports.popleft())
        process.join()
        code, pid = process.exitcode or 0, process.pid
        process.close()
        slot.process = None
        signal_name = signal.Signals(-code).name if code < 0 else None
        if not slot.has_log and signal_name is None and not slot.is_console:
            raise WorkerStoppedError(
                slot.stopped or WorkerStopping(f"worker {slot.number} ended by itself", 70, "")
            )
        if time.monotonic() - slot.started_s >= STABLE_AFTER_S:
            slot.backoff.reset()
        self._schedule_restart(slot, None if slot.stopped is None else slot.stopped.message, pid, signal_name)

    def _schedule_restart(
        self, slot: _Slot, reason: str | None, pid: int | None = None, signal_name: str | None = None
    ) -> None:
        """Restart it after a delay; ``signal_name``: the signal that ended it."""
        wait_s = slot.backoff.next_s()
        slot.restart_at_s = time.monotonic() + wait_s
        if slot.is_console:
            status_reason = reason or f"it ended ({signal_name or 'by itself'}) and is started again"
            self.directory.console = ConsoleStatus(
                is_up=False, restarts=self.directory.console.restarts + 1, reason=status_reason
            )
        else:
            restarts = self.directory.restarts
            restarts[slot.number] += 1
            self.directory.restarts = restarts
        log.error(
            "console_ended" if slot.is_console else "worker_ended",
            **slot.name,
            pid=pid,
            signal=signal_name,
            reason=reason,
            started_again_in_s=wait_s,
        )


def _make_directory(config: Config) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="aclog-workers-"))
    except OSError as error:
        raise ConfigError(
            WORKERS if config.workers > 1 else CONSOLE_LISTENERS,
            tempfile.gettempdir() if tempfile.tempdir else "",
            f"a directory for the workers' sockets (TMPDIR): {error.strerror or error}",
        ) from error
