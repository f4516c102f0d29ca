"""The commands of a page, as a reader pastes them into one shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TIMEOUT_S = 600
# A reader needs time to type the next command, in which a node becomes ready.
UNTIL_READY = """\
for _ in $(seq 300); do
    "$PYTHON" -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1])' "$READY" 2> /dev/null && break
    sleep 0.2
done"""
# Machines without curl: the README uses only `curl -s URL -d DATA`.
CURL = """\
command -v curl > /dev/null || curl() {
    "$PYTHON" -c 'import sys, urllib.request as http
_, url, _, data = sys.argv[1:]
print(http.urlopen("http://" + url, data.encode()).read().decode())' "$@"
}"""


def commands(text: str) -> list[str]:
    """The commands after ``$`` in indented blocks, with their continuation lines."""
    found = re.findall(r"^    \$ (.+(?:\n    (?!\$ ).+)*)", text, re.MULTILINE)
    return [re.sub(r"^    ", "", command, flags=re.MULTILINE) for command in found]


def section(text: str, heading: str) -> str:
    """The text below a heading of the second level."""
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def script(lines: list[str]) -> str:
    """One shell script with job control; it prints the number and exit code of each command."""
    parts = [CURL, "set -m"]
    for number, line in enumerate(lines):
        parts += [line, f"code=$?; echo; echo '#{number}' $code"]
        if line.rstrip().endswith("&"):
            parts.append(UNTIL_READY)
    return "\n".join([*parts, "kill $(jobs -p)", "wait"])


def run_pasted(lines: list[str], directory: Path, address: str) -> tuple[dict[str, int], list[str], str]:
    """Run the commands in one shell; a node that they start listens at the address.

    Returns:
        The exit code of each command, the output of each, and stderr.
    """
    done = subprocess.run(
        ["bash", "-c", script(lines)],
        cwd=directory,
        env={
            **os.environ,
            "ACLOG_LISTENERS": f"PLAINTEXT://{address}",
            "PYTHON": sys.executable,
            "READY": f"http://{address}/readyz",
        },
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    parts = re.split(r"^#(\d+) (\d+)$\n?", done.stdout, flags=re.MULTILINE)
    codes = {lines[int(number)]: int(code) for number, code in zip(parts[1::3], parts[2::3], strict=True)}
    return codes, parts[0::3], done.stderr
