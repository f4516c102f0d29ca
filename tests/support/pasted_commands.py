"""The commands of a page, as a reader pastes them into one shell, and the output that the page shows.

A block of text after a block of commands shows their output; one whose first line is a command shows that
of this command. In both, `...` stands for lines, or for the rest of a line, that are left out. What differs
from run to run is not compared: ids of 22 characters, times, durations, sizes, process ids, addresses of this
machine, and spaces.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path

#: Minutes on an idle machine, most of them Spark's start.
TIMEOUT_S = 1800
# Machines without curl: the README uses only `curl -s URL -d DATA`.
CURL = """\
command -v curl > /dev/null || curl() {
    "$PYTHON" -c 'import sys, urllib.request as http
_, url, _, data = sys.argv[1:]
print(http.urlopen("http://" + url, data.encode()).read().decode())' "$@"
}"""


_VARYING = (
    (r"\d{4}-\d\d-\d\dT[\d:]+Z|\b\d{13}\b", "TIME"),
    (r"(?<![\w-])[\w-]{22}(?![\w-])", "ID"),
    (r"(?:127\.0\.0\.1|localhost):\d+", "ADDRESS"),
    (r"\bkill \d+", "kill PROCESS"),
    (r"\b[\d.,]+ (?:ms|s|bytes)\b", "AMOUNT"),
    (r"[ \t]+", " "),
)


def commands(text: str) -> list[str]:
    """The commands after ``$`` in indented blocks, with their continuation lines."""
    found = re.findall(r"^    \$ (.+(?:\n    (?!\$ ).+)*)", text, re.MULTILINE)
    return [re.sub(r"^    ", "", command, flags=re.MULTILINE) for command in found]


def shown_outputs(text: str) -> list[tuple[list[str], list[str]]]:
    """For each block of text the commands whose output it shows, and its lines."""
    found = []
    for block in re.finditer(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        lines = block[1].splitlines()
        if lines[0].startswith("$ "):
            found.append(([lines[0].removeprefix("$ ")], lines[1:]))
        else:
            before = text[: block.start()].rstrip().rpartition("\n\n")[2]
            found.append((commands(before), lines))
    return found


def differences(shown: list[str], printed: str) -> list[str]:
    """How the printed text differs from the shown lines; empty if it does not."""
    lines = [line for line in map(_comparable, printed.splitlines()) if line]
    wanted = [line for line in map(_comparable, shown) if line]
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
        for line in wanted
    )
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)):
        return []
    return list(unified_diff(wanted, lines, "shown", "printed", lineterm=""))


def _comparable(line: str) -> str:
    for pattern, name in _VARYING:
        line = re.sub(pattern, name, line)
    return line.strip()


def section(text: str, heading: str) -> str:
    """The text below a heading of the second level."""
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def script(lines: list[str]) -> str:
    """One shell script; it prints the number and exit code of each command, and ends the last node."""
    parts = [CURL, "exec 2>&1"]
    for number, line in enumerate(lines):
        parts += [line, f"code=$?; echo; echo '#{number}' $code"]
    return "\n".join([*parts, "kill $node"])


def run_pasted(lines: list[str], directory: Path, address: str) -> tuple[dict[str, int], list[str]]:
    """Run the commands in one shell; a node that they start listens at the address.

    Returns:
        The exit code of each command, and what a terminal would show of each.
    """
    done = subprocess.run(
        ["bash", "-c", script(lines)],
        cwd=directory,
        env={
            **os.environ,
            "ACLOG_LISTENERS": f"PLAINTEXT://{address}",
            "PYTHON": sys.executable,
        },
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    parts = re.split(r"^#(\d+) (\d+)$\n?", done.stdout, flags=re.MULTILINE)
    codes = {lines[int(number)]: int(code) for number, code in zip(parts[1::3], parts[2::3], strict=True)}
    return codes, parts[0::3]
