"""Kafka's jars: broker and tools of KAFKA_VERSION, and the brokers of other releases.

They are fetched like those of the Spark jobs (session.ivy) and must match the names and checksums in
`kafka_jars.sha256`; later calls only compare checksums, offline. `python tests/support/kafka_jars.py` fetches
all and prints the directory of KAFKA_VERSION. `--write-checksums` resolves the dependencies by the Ivy in the
pyspark wheel, on Java, and writes the lists anew, for example for a new KAFKA_VERSION.
"""

from __future__ import annotations

import functools
import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from snapshot.errors import SparkJarsError
from snapshot.jobs.session.ivy import Jar, ivy_jar, jar_directory, java_command

KAFKA_VERSION = "4.3.1"
#: Of these, all but the tools.
OTHER_VERSIONS = ("3.9.2", "4.0.2", "4.1.2", "4.2.1", "4.4.0")
#: Beside those of KAFKA_VERSION, for its kafka-metadata-shell.
SHELL = "shell"
#: The jar with AclCommand, beside those of these releases.
TOOLS_OF = {version: f"tools-{version}" for version in ("4.0.2", "4.4.0")}
BESIDE = (SHELL, *TOOLS_OF.values())
SLF4J_VERSION = "1.7.36"  # of the slf4j-api that Kafka 4.3.1 resolves to
ROOT = Path(__file__).resolve().parents[2]

IVY_XML = """\
<ivy-module version="2.0">
  <info organisation="aclog" module="kafka-for-tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""
BROKER = f"""\
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{{version}}" conf="default->runtime,master"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="{SLF4J_VERSION}" conf="default->runtime,master"/>
"""
# Each without what it depends on besides (Connect, Jetty): DumpLogSegments and AclCommand; MetadataShell.
ALONE = '<dependency org="{}" name="{}" rev="{}" conf="default->master" transitive="false"/>\n'
TOOLS = ALONE.format("org.apache.kafka", "kafka-tools", "{}")
SHELL_JARS = ALONE.format("org.apache.kafka", "kafka-shell", KAFKA_VERSION) + ALONE.format(
    "org.jline", "jline", "3.30.4"
)


@functools.cache
def kafka_libs(version: str = KAFKA_VERSION) -> Path:
    """The directory with Kafka's jars, fetched if need be; for a class path `<it>/*`.

    It is `.cache/kafka/<version>/libs` in the repository, or what ACLOG_KAFKA_LIBS names (of another release
    than KAFKA_VERSION ACLOG_KAFKA_LIBS_4_4_0, say; of SHELL ACLOG_KAFKA_LIBS_SHELL).
    Raises SparkJarsError.
    """
    default = ROOT / ".cache" / "kafka" / version / "libs"
    suffix = "" if version == KAFKA_VERSION else "_" + re.sub(r"[.-]", "_", version).upper()
    return jar_directory(default, f"ACLOG_KAFKA_LIBS{suffix}", read_jars(version), f"Kafka {version}")


def checksums_file(version: str) -> Path:
    """Lines of sha256sum, their files named by their path in Maven's repository."""
    name = "kafka_jars" if version == KAFKA_VERSION else f"kafka_jars-{version}"
    return Path(__file__).with_name(f"{name}.sha256")


def read_jars(version: str) -> list[Jar]:
    """The committed list."""
    lines = checksums_file(version).read_text(encoding="ascii").splitlines()
    return [Jar(path, digest) for digest, path in (line.split(maxsplit=1) for line in lines)]


def ivy_xml(version: str) -> str:
    """What is wanted of a release."""
    if version == SHELL:
        return IVY_XML.format(dependencies=SHELL_JARS)
    if version in TOOLS_OF.values():
        return IVY_XML.format(dependencies=TOOLS.format(version.removeprefix("tools-")))
    tools = TOOLS.format(version) if version == KAFKA_VERSION else ""
    return IVY_XML.format(dependencies=BROKER.format(version=version) + tools)


def resolved_jars(version: str) -> list[Jar]:
    """What Kafka's modules and their dependencies are now, fetched for its checksums."""
    with tempfile.TemporaryDirectory() as scratch:
        module, found = Path(scratch, "ivy.xml"), Path(scratch, "found")
        module.write_text(ivy_xml(version), encoding="utf-8")
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
            for version in (KAFKA_VERSION, *BESIDE, *OTHER_VERSIONS):
                jars, file = resolved_jars(version), checksums_file(version)
                file.write_text("".join(f"{jar.sha256}  {jar.path}\n" for jar in jars), encoding="ascii")
                print(f"{file}: {len(jars)} jars")
            return 0
        if argv:
            print("usage: kafka_jars.py [--write-checksums]", file=sys.stderr)
            return 2
        for version in (*BESIDE, *OTHER_VERSIONS):
            kafka_libs(version)
        print(kafka_libs())
    except SparkJarsError as error:
        print(f"kafka_jars: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
