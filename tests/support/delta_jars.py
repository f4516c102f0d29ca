"""Delta Lake's jars, for the test that writes its tables.

They come as those of the Spark jobs do (snapshot.jobs.ivy), and must be the ones below. A user has Spark
fetch them: delta_lake.PACKAGE. What else that package names, Spark brings, or nothing here needs it.

As a program: `python tests/support/delta_jars.py` fetches and prints the directory.
"""

from __future__ import annotations

import sys
from pathlib import Path

from snapshot.errors import SparkJarsError
from snapshot.jobs.ivy import jar_directory

DELTA_VERSION = "4.4.0"
JARS = {
    "delta-spark_4.2_2.13": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "delta-storage": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
}
ROOT = Path(__file__).resolve().parents[2]

_DEPENDENCIES = "\n".join(
    f'    <dependency org="io.delta" name="{name}" rev="{DELTA_VERSION}" conf="default->master" '
    'transitive="false"/>'
    for name in JARS
)
IVY_XML = f"""\
<ivy-module version="2.0">
  <info organisation="aclog" module="delta-for-tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{_DEPENDENCIES}
  </dependencies>
</ivy-module>
"""


def delta_jars() -> list[Path]:
    """The jars, fetched if need be: in `.cache/delta/<version>`, or where ACLOG_DELTA_JARS says.

    Raises SparkJarsError.
    """
    files = {f"{name}-{DELTA_VERSION}.jar": digest for name, digest in JARS.items()}
    default = ROOT / ".cache" / "delta" / DELTA_VERSION
    directory = jar_directory(default, "ACLOG_DELTA_JARS", files, IVY_XML, f"Delta Lake {DELTA_VERSION}")
    return [directory / name for name in files]


if __name__ == "__main__":
    try:
        print(delta_jars()[0].parent)
    except SparkJarsError as error:
        sys.exit(f"delta_jars: {error}")
