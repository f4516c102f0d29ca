"""``aclog spark pack``: an archive of the packages that executors import."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from authorizer.cli.command import Command
from authorizer.cli.output_file import OutputFile, output_file
from authorizer.cli.rendering.output import answer, print_json, shown
from authorizer.cli.spark.requirements import require_pyspark


@click.command("pack", cls=Command)
@click.option(
    "--output",
    type=OutputFile("compressed"),
    required=True,
    metavar="FILE",
    help="The archive, *.tar.gz or *.tgz.",
)
@click.option(
    "--package",
    "packages",
    metavar="NAME",
    multiple=True,
    help="Also add this installed package and what it requires, such as a file system for fsspec (gcsfs, "
    "adlfs). Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the archive's manifest as JSON.")
def pack_command(*, output: Path, packages: tuple[str, ...], as_json: bool) -> None:
    """Pack what Spark's executors need, so that aclog need not be installed on them.

    Writes an archive of aclog and the installed packages that it requires, for --archives of the Spark jobs.
    It has no interpreter and no pyspark: the hosts need a Python of the same version (3.11 for 3.11) and the
    same platform as this one. The jobs and `aclog spark doctor` compare its versions with theirs.

    \b
    Examples:
      aclog spark pack --output aclog.tar.gz
      aclog spark changes --log file:DIR --output DIR --master spark://HOST:7077 \\
          --archives aclog.tar.gz --once
    """
    from snapshot.jobs.session.archive import SUFFIXES, write_archive

    if not output.name.endswith(SUFFIXES):
        raise click.BadParameter(
            f"`{output}`: Spark unpacks *{' and *'.join(SUFFIXES)}", param_hint="'--output'"
        )
    require_pyspark()
    with output_file(output, is_noted=not as_json) as file:
        manifest = write_archive(file, packages)
    if as_json:
        print_json({"archive": str(output), **msgspec.to_builtins(manifest)})
        return
    answer(
        f"{shown(str(output))}: aclog {manifest.packages['aclog']} and {len(manifest.packages) - 1} other "
        f"packages for Python {manifest.python} on {manifest.platform}, pyspark {manifest.pyspark}"
    )
