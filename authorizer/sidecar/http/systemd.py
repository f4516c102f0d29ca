"""Notifications to systemd (sd_notify(3)): the service is ready, alive or stopping."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

#: The manager's socket; one whose name begins with @ has an abstract address.
NOTIFY_SOCKET: Final = "NOTIFY_SOCKET"
#: systemd restarts a service with WatchdogSec= that does not send this in time.
ALIVE: Final = "WATCHDOG=1"
STOPPING: Final = "STOPPING=1"
#: Begins the URL of a listener of Kafka's protocol.
KAFKA_SCHEME: Final = "kafka://"
_READY: Final = "READY=1"
_LISTENING: Final = "STATUS=listening on "


def notify(*states: str) -> None:
    """Send states to systemd, if a unit with Type=notify started this process. Never blocks."""
    address = os.environ.get(NOTIFY_SOCKET, "")
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    # The service must not fail because the manager does not receive.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto("\n".join(states).encode(), address)


def notify_listening(urls: Sequence[str]) -> None:
    """Report that requests are accepted: dependent units may start. It may still load; see /readyz."""
    notify(_READY, f"{_LISTENING}{', '.join(urls)}")


def urls_of_notice(notice: bytes) -> list[str]:
    """The URLs that `notify_listening` reported; empty for another notice."""
    lines = notice.decode().split("\n")
    return [
        url
        for each in lines
        if each.startswith(_LISTENING)
        for url in each.removeprefix(_LISTENING).split(", ")
    ]


def notify_alive() -> None:
    """Send a sign of life, if the unit has a watchdog."""
    if "WATCHDOG_USEC" in os.environ:
        notify(ALIVE)
