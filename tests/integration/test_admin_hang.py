"""An event loop of Kafka's protocol that hangs is seen, as HTTP's is."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from pathlib import Path

import httpx
import pytest

from authorizer.listeners.durations import Durations
from authorizer.listeners.loop_pulse import LoopPulse
from authorizer.sidecar.http.limits import LoadLimiter
from records.log.directory import DirectoryLog
from support.admin_sockets import API_VERSIONS, framed, receive
from support.nodes import SOON_S, config_of
from support.serving_workers import Serving, serving_workers
from support.waiting import wait_until

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "hanging_admin.py"


def settings_of(tmp_path: Path) -> dict[str, str]:
    DirectoryLog.open(tmp_path / "log", mode="create").close()
    return {"aclog.admin.listeners": "PLAINTEXT://127.0.0.1:0", "aclog.workers.hang.timeout.ms": "2000"}


def ask(serving: Serving) -> socket.socket:
    """A connection whose request hangs."""
    address = wait_until(lambda: serving.events("admin_listening"))[0]["addresses"][0]
    host, _, port = address.rpartition(":")
    opened = socket.create_connection((host, int(port)), SOON_S)
    opened.settimeout(SOON_S)
    opened.sendall(framed(API_VERSIONS))
    return opened


def test_a_worker_whose_loop_of_kafkas_protocol_hangs_is_restarted(tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    command = (sys.executable, str(PROGRAM), str(hangs), "serve")
    with serving_workers(tmp_path, tmp_path / "log", settings_of(tmp_path), command=command) as serving:
        serving.wait_until_ready()
        before = serving.pids()
        hangs.touch()
        with ask(serving):
            ended = wait_until(lambda: serving.events("worker_ended"))[0]
        hangs.unlink()
        assert ended["reason"] == "it hung: an event loop has not turned for 2 s"
        assert ended["pid"] in before.values()
        wait_until(lambda: serving.pids() != before)
        serving.wait_until_ready()
        with ask(serving) as opened:
            assert receive(opened) is not None


def test_livez_of_one_process_fails_while_it_hangs(tmp_path: Path) -> None:
    """An orchestrator restarts it; systemd's watchdog gets no sign of life."""
    hangs = tmp_path / "hangs"
    command = (sys.executable, str(PROGRAM), str(hangs), "serve")
    settings = settings_of(tmp_path)
    with serving_workers(tmp_path, tmp_path / "log", settings, command=command, workers=1) as serving:
        serving.wait_until_ready()
        live = f"{serving.urls[0]}/livez"
        assert httpx.get(live, timeout=SOON_S).json() == {"live": True}
        hangs.touch()
        with ask(serving) as opened:
            wait_until(lambda: httpx.get(live, timeout=SOON_S).status_code == 503)
            answer = httpx.get(live, timeout=SOON_S).json()
            assert answer["live"] is False
            assert "the event loop of Kafka's protocol has not turned for" in answer["reason"]
            hangs.unlink()
            assert receive(opened) is not None
        wait_until(lambda: httpx.get(live, timeout=SOON_S).status_code == 200)


@pytest.mark.parametrize(("silent_s", "is_sent"), [(0.0, True), (2.0, False)])
def test_no_sign_of_life_is_sent_while_another_loop_hangs(silent_s: float, *, is_sent: bool) -> None:
    """Neither systemd's watchdog nor the supervisor gets one."""
    load = LoadLimiter(config_of())
    load.connections.by_listener["http"] = 1
    load.other_loop = pulse = LoopPulse()
    signs: list[bool] = []

    async def run() -> None:
        pulse._beaten_at_s = time.monotonic() - silent_s
        watching = asyncio.create_task(load.watch(Durations(), lambda: signs.append(True)))
        await asyncio.sleep(0.35)
        watching.cancel()

    asyncio.run(run())
    assert bool(signs) is is_sent
