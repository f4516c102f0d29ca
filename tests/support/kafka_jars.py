"""Kafka's own jars, for tests that run the real broker and the real tools.

They come as those of the Spark jobs do (snapshot.jobs.ivy), and must equal `kafka_jars.sha256`, name by name
and byte by byte. The first call takes about half a minute; later ones only compare checksums, offline.

As a program: `python tests/support/kafka_jars.py` fetches and prints the directory; `--write-checksums`
writes `kafka_jars.sha256` from what Maven gives now (for a new KAFKA_VERSION).
"""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path

from snapshot.errors import SparkJarsError
from snapshot.jobs.ivy import checksums, fetch, jar_directory

KAFKA_VERSION = "4.3.1"
SLF4J_VERSION = "1.7.36"  # of the slf4j-api that Kafka 4.3.1 resolves to
CHECKSUMS = Path(__file__).with_name("kafka_jars.sha256")
ROOT = Path(__file__).resolve().parents[2]
WHAT = f"Kafka {KAFKA_VERSION}"

# kafka-tools adds DumpLogSegments and AclCommand; what it depends on besides (Connect, Jetty) is not needed.
IVY_XML = f"""\
<ivy-module version="2.0">
  <info organisation="aclog" module="kafka-for-tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}"
                conf="default->runtime,master"/>
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{KAFKA_VERSION}"
                conf="default->master" transitive="false"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="{SLF4J_VERSION}" conf="default->runtime,master"/>
  </dependencies>
</ivy-module>
"""


@functools.cache
def kafka_libs() -> Path:
    """The directory with all of Kafka's jars, fetched if need be; for a class path `<it>/*`.

    It is `.cache/kafka/<version>/libs` in the repository, or what ACLOG_KAFKA_LIBS names.
    Raises SparkJarsError.
    """
    default = ROOT / ".cache" / "kafka" / KAFKA_VERSION / "libs"
    return jar_directory(default, "ACLOG_KAFKA_LIBS", read_checksums(), IVY_XML, WHAT)


def read_checksums() -> dict[str, str]:
    """File name -> SHA-256, from the committed list (the format of sha256sum)."""
    lines = CHECKSUMS.read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}


def main(argv: list[str]) -> int:
    """Fetch and check; or write the checksums."""
    try:
        if argv == ["--write-checksums"]:
            with tempfile.TemporaryDirectory() as scratch:
                fetch(Path(scratch) / "libs", IVY_XML, WHAT)
                found = checksums(Path(scratch) / "libs")
            CHECKSUMS.write_text(
                "".join(f"{found[name]}  {name}\n" for name in sorted(found)), encoding="ascii"
            )
            print(f"{CHECKSUMS}: {len(found)} jars")
            return 0
        if argv:
            print("usage: kafka_jars.py [--write-checksums]", file=sys.stderr)
            return 2
        print(kafka_libs())
    except SparkJarsError as error:
        print(f"kafka_jars: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
