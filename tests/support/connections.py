"""TCP connections of a process, by /proc."""

from __future__ import annotations

from pathlib import Path

_ESTABLISHED = "01"


def connected_ports(pid: int | str, port: int) -> set[int]:
    """Local ports of a process's connections to a port over IPv4; ``pid``: or "self"."""
    inodes = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(str(each.readlink()))
        except FileNotFoundError:
            continue
    ports = set()
    for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]:
        fields = line.split()
        is_its = f"socket:[{fields[9]}]" in inodes and fields[3] == _ESTABLISHED
        if is_its and fields[2].endswith(f":{port:04X}"):
            ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports
