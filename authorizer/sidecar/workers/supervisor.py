"""Supervisor: starts the workers of a sidecar, starts one again that died, and ends them all.

It answers nothing and follows no log, and starts no thread, so that a fork copies nothing half done. (The
thread of pyarrow's allocator, which comes with the import, is kept out of forks by the allocator itself.) The
rules:

- The listeners' addresses are taken before anything is started, and stay taken while a worker is replaced.
- The first worker comes first, and the others when it has the log: what keeps a sidecar from starting is said
  once, as by a sidecar of one process, and ends it with the same exit code.
- The console's process, where a listener has the console, comes with the others and is started again as they
  are. It is none of them: whatever becomes of it ends nothing else, also where it cannot start.
- A worker that has had the log is started again however it ends: soon, and ever later (Backoff) while it
  does not stay. One that hangs, for its event loop does not turn, is killed, and so started again.
- At the end no more connections are taken, and each worker finishes what it has begun; one that hangs then
  is killed, too. Workers end also when the supervisor dies.
"""

from __future__ import annotations

import gc
import math
import mmap
import multiprocessing
import os
import signal
import tempfile
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, Self

import structlog

from authorizer.api.cluster_name import DEFAULT_CLUSTER
from authorizer.api.errors import ConfigError, RestartNeededError
from authorizer.configuration.keys.names import CONSOLE_LISTENERS, WORKERS
from authorizer.configuration.listeners import is_unix
from authorizer.node.reconfiguration import Reconfiguration
from authorizer.sidecar.http.binding import reserve_listener
from authorizer.sidecar.http.systemd import READY, STOPPING, alive, notify
from authorizer.sidecar.http.unix_socket import remove_unix
from authorizer.sidecar.workers.messages import (
    Listening,
    LogReady,
    NewSettings,
    Report,
    SettingsApplied,
    SettingsChange,
    SettingsResult,
    WorkerStopping,
)
from authorizer.sidecar.workers.socket_directory import ConsoleStatus, SocketDirectory
from authorizer.sidecar.workers.worker import WRITER, Worker
from replay.backoff import Backoff

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess
    from types import FrameType

    from authorizer.configuration.load import Config

log = structlog.get_logger(__name__)

#: Who has lived so long is started again at once, whatever was before.
STEADY_S: Final = 60.0
_FORKING: Final = multiprocessing.get_context("fork")
#: How often the supervisor looks at its workers, and lets systemd, which watches this process, know it lives.
_POLL_INTERVAL_S: Final = 0.5
#: How long workers may take to end: requests get five seconds, a snapshot that is being written thirty.
_END_S: Final = 40.0
#: How long the console's process may: what it works out is for a page.
_END_CONSOLE_S: Final = 5.0
#: How long new settings wait for a worker to take them.
_TAKEN_S: Final = 1.0
#: Not between a fork and the moment at which a worker knows what to do with them.
_BLOCKED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class WorkerStoppedError(Exception):
    """A worker could not start, and so the sidecar cannot: as the worker says it."""

    def __init__(self, stopped: WorkerStopping) -> None:
        super().__init__(stopped.message)
        self.stopped = stopped


@dataclass(slots=True)
class _Post:
    """What the supervisor knows of one process; ``process`` is None while none is running."""

    number: int
    is_console: bool = False
    process: ForkProcess | None = None
    pipe: Connection | None = None
    stopped: WorkerStopping | None = None
    has_reached: bool = False
    backoff: Backoff = field(default_factory=Backoff)
    started_s: float = 0.0
    starts_at_s: float = 0.0
    #: What it shared when last looked at, and for how long that has stood; None before it listens.
    turns: int | None = None
    silent_s: float = 0.0

    @property
    def name(self) -> dict[str, int]:
        """As the log has it beside what became of it."""
        return {} if self.is_console else {"worker": self.number}


class Supervisor:
    """See the module. Made by a process without threads; ``run`` forks it.

    Attributes:
        place: where the workers meet.
        settings: of all workers: the process's, which has no name, and those of a fleet's clusters by name.

    Raises:
        ConfigError: a listener's address cannot be had, or there is no room for the workers' sockets.
    """

    def __init__(
        self,
        config: Config,
        work: Callable[[Mapping[str, Config], Worker, int], None],
        explain: Callable[[Exception], WorkerStopping],
    ) -> None:
        """Take the addresses.

        Args:
            config: how many workers, and their listeners.
            work: what each does until it is to end, with the settings as they are then, as ``settings`` has
                them; it gets the descriptor by which it knows that the supervisor is there. Run in a process
                of its own.
            explain: what its error is to users.
        """
        self._work = work
        self._explain = explain
        self._writable = False
        self._pid = os.getpid()
        self._reserved: list[socket.socket] = []
        self._socket_files: list[Path] = []
        self.settings = {DEFAULT_CLUSTER: Reconfiguration(config)}
        self.settings |= {name: Reconfiguration(config.of_cluster(name)) for name in config.clusters}
        for name, reconfiguration in self.settings.items():
            reconfiguration.add(partial(self._spread, name))
        # What workers have said and was not dealt with yet.
        self._said: deque[tuple[_Post, Report]] = deque()
        self._hangups, self._hangup = os.pipe()
        self._count = config.workers
        self._posts = [_Post(number) for number in range(self._count)]
        if config.console_listeners:
            self._posts.append(_Post(self._count, is_console=True))
        self._turns = mmap.mmap(-1, len(self._posts))
        self._looked_s = 0.0
        self._lifeline, self._life = os.pipe()
        self.place = SocketDirectory(_directory(config))
        self.place.restarts = [0] * self._count
        self.place.console = ConsoleStatus(is_up=False, restarts=0, reason=None)
        try:
            for endpoint in config.served_listeners():
                self._reserved.append(reserve_listener(endpoint, config.listeners_key))
                if is_unix(endpoint):
                    self._socket_files.append(Path(endpoint.host or ""))
        except BaseException:
            self.close()
            raise

    def run(self) -> NoReturn:
        """Start the workers and see to them until a signal, which is raised.

        Raises:
            WorkerStoppedError: one could not start.
        """
        signal.signal(signal.SIGHUP, self._hung_up)
        # What is there now is every worker's, and no collection is to copy it.
        gc.collect()
        gc.freeze()
        self._start(self._posts[WRITER])
        while True:
            now_s = time.monotonic()
            idle = [post for post in self._posts if post.process is None and post.starts_at_s]
            for post in idle:
                if post.starts_at_s <= now_s:
                    self._start(post)
            while self._said:
                self._hear(*self._said.popleft())
            self._kill_hung_workers(now_s)
            alive()
            next_s = min((post.starts_at_s for post in idle if post.process is None), default=math.inf)
            self._wait(min(max(0.0, next_s - now_s), _POLL_INTERVAL_S))

    def close(self) -> None:
        """End the workers, and give the addresses back. Idempotent."""
        notify(STOPPING)
        for path in self._socket_files:
            remove_unix(path)
        self._socket_files.clear()
        for each in self._reserved:
            each.close()
        self._reserved.clear()
        running = [(post, post.process) for post in self._posts if post.process is not None]
        for _, process in running:
            process.terminate()
        begun_s = time.monotonic()
        for post, process in running:
            patience_s = _END_CONSOLE_S if post.is_console else _END_S
            process.join(max(0.0, begun_s + patience_s - time.monotonic()))
            if process.is_alive():
                if not post.is_console:
                    reason = f"it has not ended within {patience_s:g} s"
                    log.error("worker_hangs", pid=process.pid, reason=reason)
                process.kill()
                process.join()
        for post in self._posts:
            post.process = None
        self.place.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _hung_up(self, _number: int, _frame: FrameType | None) -> None:
        os.write(self._hangup, b"\0")

    def _spread(self, cluster: str, config: Config) -> None:
        """Give new settings to all workers, and wait until they have them: those that are well."""
        put = {name: config.properties[name] for name, source in config.sources.items() if source == "put"}
        waiting = [post for post in self._posts if post.pipe is not None]
        for post in waiting:
            self._say(post, NewSettings(cluster, config.given, put))
        give_up_s = time.monotonic() + _TAKEN_S
        while waiting and (left_s := give_up_s - time.monotonic()) > 0:
            pipes = {post.pipe: post for post in waiting if post.pipe is not None}
            for ready in wait(list(pipes), left_s):
                post = pipes[ready]  # type: ignore[index]  # what was given
                report = self._read(post)
                if report is None or isinstance(report, SettingsApplied):
                    waiting.remove(post)
                else:
                    self._said.append((post, report))

    def _say(self, post: _Post, message: NewSettings | SettingsResult) -> None:
        if post.pipe is not None:
            with suppress(OSError):  # it has ended, and is started again with what is new
                post.pipe.send(message)

    def _start(self, post: _Post) -> None:
        ours, theirs = _FORKING.Pipe()
        worker = Worker(
            number=post.number,
            count=self._count,
            has_console=len(self._posts) > self._count,
            place=self.place,
            reserved=self._reserved,
            writable=self._writable,
            pipe=theirs,
            turns=self._turns,
        )
        name = "aclog-console" if post.is_console else f"aclog-worker-{post.number}"
        process = _FORKING.Process(target=self._be, args=(worker,), name=name)
        signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
        try:
            process.start()
            post.process, post.pipe, post.stopped = process, ours, None
            post.started_s, post.starts_at_s, post.turns = time.monotonic(), 0.0, None
        except OSError as error:
            if not post.is_console:
                raise
            self._start_again(post, f"it cannot be started: {error.strerror or error}")
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)
        theirs.close()

    def _be(self, worker: Worker) -> None:
        """In the worker's process."""
        os.close(self._life)
        # New settings come from the supervisor.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
        try:
            self._work({name: each.config for name, each in self.settings.items()}, worker, self._lifeline)
        except Exception as error:  # noqa: BLE001 - the supervisor says it
            worker.report(self._explain(error))
        finally:
            if os.getppid() != self._pid:  # it was killed, and has removed nothing
                self.place.remove()

    def _kill_hung_workers(self, now_s: float) -> None:
        """Kill what hangs: `_ended` starts it again.

        While this process stood still, as all of a group may that is stopped, so may they have: a look counts
        for no more than it should have taken.
        """
        passed_s, self._looked_s = min(now_s - self._looked_s, 2 * _POLL_INTERVAL_S), now_s
        hang_s = self.settings[DEFAULT_CLUSTER].config.workers_hang_timeout_ms / 1000
        for post in self._posts:
            if post.process is None or post.turns is None:
                continue
            turns, before = self._turns[post.number], post.turns
            post.turns, post.silent_s = turns, post.silent_s + passed_s if turns == before else 0.0
            if 0 < hang_s < post.silent_s:
                reason = f"it hung: its event loop has not turned for {hang_s:g} s"
                post.stopped, post.turns = WorkerStopping(reason, 70, ""), None
                post.process.kill()

    def _wait(self, timeout_s: float) -> None:
        """Until a worker says something or ends, or a signal comes, or a time has passed."""
        of: dict[object, _Post | None] = {self._hangups: None}
        for post in self._posts:
            if post.process is not None:
                of[post.process.sentinel] = post
                if post.pipe is not None:
                    of[post.pipe] = post
        for ready in wait(list(of), timeout_s):  # type: ignore[arg-type]  # descriptors and pipes
            heard = of[ready]
            if heard is None:
                os.read(self._hangups, 1)
                of_process, *of_clusters = self.settings.values()
                of_process.reload_on_hangup(of_clusters)
            elif ready is not heard.pipe:
                self._ended(heard)
            elif (report := self._read(heard)) is not None:
                self._said.append((heard, report))

    def _read(self, post: _Post) -> Report | None:
        """What it says next; None if it has ended."""
        if post.pipe is None:
            return None
        try:
            report: Report = post.pipe.recv()
        except (EOFError, OSError):
            post.pipe.close()
            post.pipe = None
            return None
        return report

    def _hear(self, post: _Post, report: Report) -> None:
        match report:
            case WorkerStopping():
                post.stopped = report
            case Listening(urls=urls, writable=writable):
                if post.number == WRITER:
                    self._writable = writable
                    if not post.has_reached:
                        log.info("listening", urls=urls, workers=self._count)
                        notify(READY, f"STATUS=listening on {', '.join(urls)}")
                pid = None if post.process is None else post.process.pid
                post.turns, post.silent_s = self._turns[post.number], 0.0
                if post.is_console:
                    self.place.console = self.place.console._replace(is_up=True, reason=None)
                log.info("console_started" if post.is_console else "worker_started", **post.name, pid=pid)
            case LogReady():
                post.has_reached = True
                if post.number == WRITER:
                    for other in self._posts:
                        if other.process is None and not other.starts_at_s:
                            self._start(other)
            case SettingsChange():
                self._say(post, self._put(report))

    def _put(self, asked: SettingsChange) -> SettingsResult:
        try:
            changes = self.settings[asked.cluster].put(asked.texts, asked.by, is_trial=asked.is_trial)
        except (ConfigError, RestartNeededError) as error:
            return SettingsResult([], str(error))
        return SettingsResult(changes, None)

    def _ended(self, post: _Post) -> None:
        process = post.process
        if process is None:
            return
        while (report := self._read(post)) is not None:
            self._said.append((post, report))
        while self._said:
            self._hear(*self._said.popleft())
        process.join()
        code, pid = process.exitcode or 0, process.pid
        process.close()
        post.process = None
        how = signal.Signals(-code).name if code < 0 else None
        if not post.has_reached and how is None and not post.is_console:
            raise WorkerStoppedError(
                post.stopped or WorkerStopping(f"worker {post.number} ended by itself", 70, "")
            )
        if time.monotonic() - post.started_s >= STEADY_S:
            post.backoff.reset()
        self._start_again(post, None if post.stopped is None else post.stopped.message, pid, how)

    def _start_again(
        self, post: _Post, reason: str | None, pid: int | None = None, how: str | None = None
    ) -> None:
        """After a while; ``how``: the signal that has ended it."""
        wait_s = post.backoff.next_s()
        post.starts_at_s = time.monotonic() + wait_s
        if post.is_console:
            said = reason or f"it ended ({how or 'by itself'}) and is started again"
            self.place.console = ConsoleStatus(
                is_up=False, restarts=self.place.console.restarts + 1, reason=said
            )
        else:
            restarts = self.place.restarts
            restarts[post.number] += 1
            self.place.restarts = restarts
        log.error(
            "console_ended" if post.is_console else "worker_ended",
            **post.name,
            pid=pid,
            signal=how,
            reason=reason,
            started_again_in_s=wait_s,
        )


def _directory(config: Config) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="aclog-workers-"))
    except OSError as error:
        raise ConfigError(
            WORKERS if config.workers > 1 else CONSOLE_LISTENERS,
            tempfile.gettempdir() if tempfile.tempdir else "",
            f"a directory for the workers' sockets (TMPDIR): {error.strerror or error}",
        ) from error
