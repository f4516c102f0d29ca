"""deploy/systemd: systemd takes the unit, and `aclog serve` says to systemd what the unit relies on."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.certificates import Authority
from support.cli_commands import parsed_command
from support.data import real_log
from support.nodes import SOON_S

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "systemd" / "aclog.service"
#: Of 10 for a service without any of it to 0; a plain unit has 9.2.
EXPOSURE_TENTHS_MAX = 20
SECTIONS = {"Unit", "Service", "Install"}
#: What MemoryDenyWriteExecute= does, by the kernel's own prctl (PR_SET_MDWE, since 6.3; older ones pass it
#: by), for the command that follows.
DENY_WRITE_EXECUTE = (
    sys.executable,
    "-c",
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(65, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])",
)


def directives() -> dict[str, list[str]]:
    """Of the unit, each with its values in order; every line is a section, a remark, or one of these."""
    found: dict[str, list[str]] = {}
    sections = []
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        if section := re.fullmatch(r"\[(\w+)\]", line):
            sections.append(section[1])
        elif line and not line.startswith("#"):
            directive = re.fullmatch(r"([A-Z][A-Za-z]+)=(.*)", line)
            assert directive is not None, line
            found.setdefault(directive[1], []).append(directive[2])
    assert set(sections) == SECTIONS
    assert len(sections) == len(SECTIONS)
    return found


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """Where systemd is, by itself: it knows all directives, and the service can do little else."""
    if shutil.which("systemd-analyze") is None:
        return  # the other tests need no systemd
    unit = tmp_path / UNIT.name
    text = UNIT.read_text(encoding="utf-8")
    unit.write_text(text.replace("/opt/aclog/bin/aclog", sys.executable), encoding="utf-8")
    for command in (
        ["verify", str(unit)],
        ["security", "--offline=yes", f"--threshold={EXPOSURE_TENTHS_MAX}", str(unit)],
    ):
        done = subprocess.run(["systemd-analyze", *command], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_unit_starts_an_existing_command() -> None:
    """aclog takes the arguments; the configuration is where the unit lets it read."""
    found = directives()
    (start,) = found["ExecStart"]
    program, *words = shlex.split(start)
    assert program == "/opt/aclog/bin/aclog"
    command = parsed_command(words)
    assert command.info_name == "serve"
    assert words[-2:] == ["--config", "/etc/aclog/sidecar.properties"]
    assert found["ConfigurationDirectory"] == ["aclog"]
    assert found["EnvironmentFile"] == ["-/etc/aclog/environment"]


def test_the_unit_restarts_only_after_errors_that_a_restart_can_fix() -> None:
    """Exit code 4 stays; nothing else does, however often; it has the time to end in order."""
    found = directives()
    assert found["Restart"] == ["on-failure"]
    assert found["RestartPreventExitStatus"] == ["4"]
    assert found["StartLimitIntervalSec"] == ["0"]
    assert int(found["TimeoutStopSec"][0]) >= 40
    assert found["Type"] == ["notify"]


def test_reload_applies_dynamic_settings() -> None:
    """SIGHUP to the process that has read the file: with several workers, the one that sees to them."""
    assert directives()["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


def test_the_unit_has_no_option_that_breaks_it() -> None:
    """Callers at a Unix socket are known by their user, and /proc says when the process began."""
    found = directives()
    assert not {"PrivateUsers", "ProcSubset", "PrivateNetwork", "DynamicUser"} & found.keys()
    assert "AF_UNIX" in found["RestrictAddressFamilies"][0]


@contextmanager
def served(
    tmp_path: Path, *, hardened: bool = False, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """`aclog serve` on a real log, with a listener that has TLS; its log is in a file."""
    identity = Authority().issue("CN=localhost").write(tmp_path / "server.pem")
    config = tmp_path / "sidecar.properties"
    config.write_text(
        "aclog.listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0\n"
        f"ssl.keystore.location={identity}\n"
        f"aclog.snapshot.store={tmp_path / 'snapshots'}\naclog.snapshot.max.bytes=1\n"
    )
    command = [sys.executable, "-m", "authorizer.cli", "serve", "--config", str(config)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*(DENY_WRITE_EXECUTE if hardened else ()), *command, "--log", str(real_log("kraft-small"))],
            cwd=ROOT,
            stderr=log,
            env={**os.environ, **environment},
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(params=["file", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """systemd's socket, and how NOTIFY_SOCKET names it."""
    name = str(tmp_path / "notify") if request.param == "file" else f"@aclog-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name.replace("@", "\0", 1))
        listening.settimeout(SOON_S)
        yield listening, name


@pytest.mark.slow
def test_systemd_is_notified_of_readiness_watchdog_and_stop(
    manager: tuple[socket.socket, str], tmp_path: Path
) -> None:
    """READY once the listeners answer; then that the loop turns; STOPPING before it ends. With hardening."""
    listening, name = manager
    with served(tmp_path, hardened=True, NOTIFY_SOCKET=name, WATCHDOG_USEC="60000000") as process:
        message = listening.recv(4096).decode()
        while message == "WATCHDOG=1":  # the event loop may report before all listeners are ready
            message = listening.recv(4096).decode()
        ready, status = message.splitlines()
        assert ready == "READY=1"
        url = re.fullmatch(r"STATUS=listening on (http://\S+), https://\S+", status)
        assert url is not None, status
        answer = subprocess.run(["curl", "-sf", f"{url[1]}/livez"], check=True, capture_output=True)
        assert b"true" in answer.stdout
        assert listening.recv(4096) == b"WATCHDOG=1"
        process.send_signal(signal.SIGTERM)
        while (message := listening.recv(4096).decode()) == "WATCHDOG=1":
            pass
        assert message == "STOPPING=1"
        assert process.wait(SOON_S) == 0, (tmp_path / "log").read_text()


@pytest.mark.slow
def test_without_systemd_no_notification_is_sent(tmp_path: Path) -> None:
    """Nor where its socket is gone: no reason to stop."""
    with served(tmp_path, NOTIFY_SOCKET=str(tmp_path / "gone")) as process:
        while (
            b'"event": "listening"' not in (log := (tmp_path / "log").read_bytes())
            and b"listening" not in log
        ):
            assert process.poll() is None, log
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON_S) == 0


def test_the_documentation_shows_how_to_install_the_unit() -> None:
    """The user, the directories and the unit that the commands there make are the unit's."""
    found = directives()
    text = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")
    section = text.partition("\n## systemd\n")[2].partition("\n## ")[0]
    assert (
        f"useradd --system --home-dir /var/lib/aclog --shell /usr/sbin/nologin {found['User'][0]}" in section
    )
    assert "deploy/systemd/aclog.service /etc/systemd/system/" in section
