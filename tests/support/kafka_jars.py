"""Kafka's own jars, for tests that run the real broker and the real tools.

They come as those of the Spark jobs do (session.ivy), and must equal `kafka_jars.sha256`, name by
name and byte by byte. The first call fetches them; later ones only compare checksums, offline.

As a program: `python tests/support/kafka_jars.py` fetches and prints the directory; `--write-checksums`
writes `kafka_jars.sha256` from what Maven gives now (for a new KAFKA_VERSION): what Kafka depends on is
worked out by the Ivy in the pyspark wheel, on Java.
"""

from __future__ import annotations

import functools
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from snapshot.errors import SparkJarsError
from snapshot.jobs.session.ivy import Jar, ivy_jar, jar_directory, java_command

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
    return jar_directory(default, "ACLOG_KAFKA_LIBS", read_jars(), WHAT)


def read_jars() -> list[Jar]:
    """The committed list: lines of sha256sum, their files named by their path in Maven's repository."""
    lines = CHECKSUMS.read_text(encoding="ascii").splitlines()
    return [Jar(path, digest) for digest, path in (line.split(maxsplit=1) for line in lines)]


def resolved_jars() -> list[Jar]:
    """What Kafka's modules and their dependencies are now, fetched for its checksums."""
    with tempfile.TemporaryDirectory() as scratch:
        module, found = Path(scratch, "ivy.xml"), Path(scratch, "found")
        module.write_text(IVY_XML, encoding="utf-8")
        pattern = f"{found}/[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"
        subprocess.run(
            [java_command(), "-jar", ivy_jar(), "-ivy", module, "-cache", Path(scratch, "cache"),
             "-confs", "default", "-types", "jar", "bundle", "-retrieve", pattern],
            check=True,
        )  # fmt: skip
        return [
            Jar(maven_path(jar.relative_to(found)), hashlib.sha256(jar.read_bytes()).hexdigest())
            for jar in sorted(found.rglob("*.jar"), key=lambda jar: jar.name)
        ]


def maven_path(retrieved: Path) -> str:
    """An organisation is a folder for each of its parts."""
    organisation, *rest = retrieved.parts
    return "/".join([*organisation.split("."), *rest])


def main(argv: list[str]) -> int:
    """Fetch and check; or write the checksums."""
    try:
        if argv == ["--write-checksums"]:
            jars = resolved_jars()
            CHECKSUMS.write_text("".join(f"{jar.sha256}  {jar.path}\n" for jar in jars), encoding="ascii")
            print(f"{CHECKSUMS}: {len(jars)} jars")
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
