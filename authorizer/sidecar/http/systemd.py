"""What a service says to systemd (sd_notify(3)): that it answers, that it lives, that it ends."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Final

#: It answers: what is ordered after it may start. It may still be loading; /readyz says that.
READY: Final = "READY=1"
#: It lives; systemd restarts a service with WatchdogSec= that has not said so for as long.
ALIVE: Final = "WATCHDOG=1"
STOPPING: Final = "STOPPING=1"


def notify(*states: str) -> None:
    """Say it, if this process was started by a unit with Type=notify; it is never waited for."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    # A manager that is gone or busy is no reason to stop.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto("\n".join(states).encode(), address)


def notify_alive() -> None:
    """Say that it lives, if systemd waits for that."""
    if "WATCHDOG_USEC" in os.environ:
        notify(ALIVE)
