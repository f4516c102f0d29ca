"""Notifications to systemd (sd_notify(3)): the service is ready, alive or stopping."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Final

#: It accepts requests, so that dependent units may start. It may still load; see /readyz.
READY: Final = "READY=1"
#: systemd restarts a service with WatchdogSec= that does not send this in time.
ALIVE: Final = "WATCHDOG=1"
STOPPING: Final = "STOPPING=1"


def notify(*states: str) -> None:
    """Send states to systemd, if a unit with Type=notify started this process. Never blocks."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    # The service must not fail because the manager does not receive.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto("\n".join(states).encode(), address)


def notify_alive() -> None:
    """Send a sign of life, if the unit has a watchdog."""
    if "WATCHDOG_USEC" in os.environ:
        notify(ALIVE)
