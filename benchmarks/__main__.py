"""The command: ``python -m benchmarks``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click
import msgspec

from authorizer.configuration.log_setup import setup_logging
from benchmarks.anchor import ROOT, AnchorError
from benchmarks.arena import Arena, DecisionsDifferError
from benchmarks.cases import CASES, MAIN
from benchmarks.figures import Row
from benchmarks.machine import describe_machine
from benchmarks.report import missed, put_between_markers, to_markdown, to_text
from benchmarks.run import Run, combined, read_runs, write_runs
from benchmarks.settings import Settings, progress

DOCUMENT = ROOT / "docs" / "performance-tables.md"
RESULTS = {
    MAIN: ROOT / "benchmarks" / "latest.json",
    "spark": ROOT / "benchmarks" / "latest-spark.json",
    "quorum": ROOT / "benchmarks" / "latest-quorum.json",
    "console": ROOT / "benchmarks" / "latest-console.json",
    "admin": ROOT / "benchmarks" / "latest-admin.json",
    "findings": ROOT / "benchmarks" / "latest-findings.json",
}
_NAMES = tuple(case.name for case in CASES)
# Measured whenever a run is kept: without it one cannot say what a difference between two runs means.
_NOISE = "noise"
_IN_MAIN = frozenset(case.name for case in CASES if case.section == MAIN)
_EPILOG = """\
\b
Examples:
  python -m benchmarks --runs 3                         everything; writes docs/performance-tables.md
  python -m benchmarks --quick                          everything, shorter; only prints
  python -m benchmarks --only authorize --workloads w3 --quick
  python -m benchmarks --only update --only acls --rounds 9
  python -m benchmarks --only spark --write                 10 minutes; has its own place in the page
  python -m benchmarks --only quorum --write                10 minutes, four JVMs; so has this
  python -m benchmarks --only console --write               10 minutes, a real browser; so has this
  python -m benchmarks --only findings --write              two minutes; so has this
  python -m benchmarks --only admin --only metadata --write  Kafka's protocol, so has this
  python -m benchmarks --combine 1.json --combine 2.json --combine 3.json --write
"""


@click.command(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", "names", multiple=True, type=click.Choice(_NAMES), help="One part; may be repeated.")
@click.option(
    "--workloads",
    metavar="A,B",
    help="On these, instead of each part's own: w3, w1s, w1, w2, tenant-1000, ...",
)
@click.option("--quick", is_flag=True, help="Fewer and shorter rounds: for a first look.")
@click.option("--rounds", type=click.IntRange(1), help="Rounds of each measurement.")
@click.option(
    "--runs",
    "count",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Measure it all this many times; the table has the medians of the runs and their spread.",
)
@click.option(
    "--combine",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Measure nothing: make one table of the runs in this file of --json; may be repeated.",
)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), help="Write every round's figure here, too."
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    default=ROOT / ".cache" / "benchmarks",
    show_default=".cache/benchmarks",
    help="Where workloads, logs and snapshots are kept; 2 GB. Safe to delete.",
)
@click.option("--write", is_flag=True, help="Write docs/performance-tables.md even if not all is measured.")
def main(  # noqa: PLR0913 - a command takes its options as arguments
    *,
    names: tuple[str, ...],
    workloads: str | None,
    quick: bool,
    rounds: int | None,
    count: int,
    files: tuple[Path, ...],
    json_file: Path | None,
    cache: Path,
    write: bool,
) -> None:
    """Measure aclog and Kafka's StandardAuthorizer alternately, in CPU time.

    The first run fetches Kafka's jars and makes the workloads. A complete run takes about 40 minutes on two
    cores, 12 with --quick, and needs 8 GB of memory; without spark, quorum and console. Exit code 1:
    decisions differ, or a goal was missed.
    """
    setup_logging("console", "ERROR")
    runs: list[Run] = []
    if files:
        try:
            runs = [run for file in files for run in read_runs(file)]
        except msgspec.DecodeError as error:
            raise click.BadParameter(f"not a file of --json: {error}", param_hint="--combine") from error
    else:
        write = write or not (names or workloads or quick)
        wanted = set(names or _IN_MAIN)
        if write and wanted & _IN_MAIN:
            wanted.add(_NOISE)
        settings = Settings.quick(cache) if quick else Settings.full(cache)
        if rounds is not None:
            settings = replace(settings, rounds=rounds)
        try:
            if count == 1:
                runs = [measure(settings, wanted, workloads.split(",") if workloads else None)]
            else:
                options = ["--quick"] if quick else []
                options += [f"--workloads={workloads}"] if workloads else []
                options += [f"--rounds={settings.rounds}", f"--cache={cache}"]
                runs = measure_apart(count, wanted, options, json_file)
            if json_file is not None:
                write_runs(json_file, runs)
        except (AnchorError, DecisionsDifferError) as error:
            print(f"benchmarks: {error}", file=sys.stderr)
            raise SystemExit(1) from error
    run = combined(runs)
    print(to_text(run))
    if write:
        for section, file in RESULTS.items():
            of_section = [of_cases(each, section) for each in runs]
            if any(each.rows for each in of_section):
                put_between_markers(DOCUMENT, section, to_markdown(combined(of_section)))
                write_runs(file, of_section)
    if missed(run):
        raise SystemExit(1)


def measure(settings: Settings, names: set[str], chosen: list[str] | None) -> Run:
    """All cases on one workload, then the next workload: each is loaded once."""
    machine = describe_machine()
    began_s = time.monotonic()
    cases = [case for case in CASES if case.name in names]
    rows: dict[str, list[Row]] = {case.name: [] for case in cases}
    for workload in chosen or dict.fromkeys(workload for case in cases for workload in case.workloads):
        progress(f"{workload}: preparing")
        with closing(Arena(workload, settings)) as arena:
            for case in cases:
                if chosen or workload in case.workloads:
                    rows[case.name] += case.measure(arena)
    for case in cases:
        in_order = case.workloads if chosen is None else chosen
        rows[case.name].sort(key=lambda row: in_order.index(row.workload))
    return Run(machine | {"took": f"{(time.monotonic() - began_s) / 60:.0f} min"}, rows)


def measure_apart(count: int, names: set[str], options: list[str], json_file: Path | None) -> list[Run]:
    """``count`` runs, each in a process of its own.

    In one process the requests of a later run are allocated in the fragmented memory that an earlier one left
    free. A small workload, whose ACLs stay in the processor's caches, is then up to 1.8 times as slow.

    Raises:
        SystemExit: a run failed; what it printed says why.
    """
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as directory:
        for number in range(count):
            progress(f"run {number + 1} of {count}")
            file = Path(directory) / f"{number}.json"
            command = [sys.executable, "-m", "benchmarks", f"--json={file}", *options]
            command += [f"--only={name}" for name in sorted(names)]
            subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)  # 1: a goal was missed
            if not file.exists():
                raise SystemExit(1)
            runs += read_runs(file)
            if json_file is not None:  # after each run, since a later run may be interrupted
                write_runs(json_file, runs)
    return runs


def of_cases(run: Run, section: str) -> Run:
    """The cases of one section of a run."""
    names = {case.name for case in CASES if case.section == section}
    return replace(run, rows={name: rows for name, rows in run.rows.items() if name in names})


if __name__ == "__main__":
    main()
