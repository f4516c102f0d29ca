"""The report as PDF: the print file, printed by Chromium without a window."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from authorizer.cli.failure import ExitCode, Failure

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Names the program, instead of one on PATH.
CHROMIUM: Final = "ACLOG_CHROMIUM"
_PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PRINT_TIMEOUT_S: Final = 300
_ERROR_LINES: Final = 3
_WAY_OUT: Final = "Or use --format print, and print that file with any browser."


def chromium() -> str:
    """The program. Failure if there is none."""
    named = os.environ.get(CHROMIUM)
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if found is not None:
        return found
    if named:
        raise Failure(f"{CHROMIUM} names `{named}`, which is no program", ExitCode.USAGE, _WAY_OUT)
    raise Failure(
        f"--format pdf needs Chromium or Chrome: none of {', '.join(_PROGRAMS)} is on PATH",
        ExitCode.USAGE,
        f"Install it (apt-get install chromium), or name the program in {CHROMIUM}. {_WAY_OUT}",
    )


def pdf(pieces: Iterable[bytes], program: str) -> bytes:
    """Print a file without a script. Failure if the program cannot."""
    with tempfile.TemporaryDirectory(prefix="aclog-report-") as directory:
        source, target = Path(directory, "report.html"), Path(directory, "report.pdf")
        with source.open("wb") as file:
            file.writelines(pieces)
        words = [
            program,
            "--headless",
            "--disable-gpu",
            # Containers have a small /dev/shm.
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--no-pdf-header-footer",
            f"--user-data-dir={directory}/profile",
            f"--print-to-pdf={target}",
            source.as_uri(),
        ]
        if os.geteuid() == 0:
            # Chromium's sandbox refuses root. The file has no script and requests nothing.
            words.insert(1, "--no-sandbox")
        try:
            ended = subprocess.run(  # noqa: S603 - the user's browser, without a shell
                words, capture_output=True, timeout=_PRINT_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failure(f"{program} did not print the report: {error}", ExitCode.USAGE, _WAY_OUT) from error
        if ended.returncode or not target.exists():
            lines = ended.stderr.decode(errors="replace").strip().splitlines()[-_ERROR_LINES:]
            reason = " ".join(lines) or "no reason given"
            raise Failure(
                f"{program} did not print the report (exit code {ended.returncode}): {reason}",
                ExitCode.USAGE,
                _WAY_OUT,
            )
        return target.read_bytes()
