"""Kafka's own jars, for tests that run the real broker and the real tools.

They are resolved from Maven's central repository by the Ivy jar inside the pyspark install, so nothing but
Java and the project's own environment is needed. What arrives must equal `kafka_jars.sha256`, name by name
and byte by byte. The first call takes about half a minute; later ones only compare checksums, offline.

As a program: `python tests/support/kafka_jars.py` fetches and prints the directory; `--write-checksums`
writes `kafka_jars.sha256` from what Maven gives now (for a new KAFKA_VERSION).
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KAFKA_VERSION = "4.3.1"
SLF4J_VERSION = "1.7.36"  # of the slf4j-api that Kafka 4.3.1 resolves to
CHECKSUMS = Path(__file__).with_name("kafka_jars.sha256")
ROOT = Path(__file__).resolve().parents[2]
FETCH_TIMEOUT_S = 900

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


class KafkaJarsError(Exception):
    """The jars are not there and could not be fetched, or are not the ones that were reviewed."""


@functools.cache
def kafka_libs() -> Path:
    """The directory with all of Kafka's jars, fetched if need be; for a class path `<it>/*`.

    It is `.cache/kafka/<version>/libs` in the repository, or what ACLOG_KAFKA_LIBS names. Any number of
    processes may ask at once: one fetches, the others wait. Raises KafkaJarsError.
    """
    override = os.environ.get("ACLOG_KAFKA_LIBS")
    libs = Path(override) if override else ROOT / ".cache" / "kafka" / KAFKA_VERSION / "libs"
    expected = read_checksums()
    if not differences(libs, expected):
        return libs
    with locked(libs.with_name(f"{libs.name}.lock")):
        problems = differences(libs, expected)  # another process may have been quicker
        if problems:
            if override and libs.exists():
                msg = f"ACLOG_KAFKA_LIBS={libs} does not hold Kafka {KAFKA_VERSION}: {summary(problems)}"
                raise KafkaJarsError(msg)
            install(libs, expected)
    return libs


def install(libs: Path, expected: dict[str, str]) -> None:
    """Fetch into a directory beside `libs`, check it, and rename it into place."""
    with tempfile.TemporaryDirectory(dir=libs.parent, prefix=".fetch-") as scratch:
        fetched = Path(scratch) / "libs"
        fetch(fetched, ivy_cache=Path(scratch) / "ivy")
        problems = differences(fetched, expected)
        if problems:
            raise KafkaJarsError(
                f"what Maven gave for Kafka {KAFKA_VERSION} is not what {CHECKSUMS.name} lists: "
                f"{summary(problems)}"
            )
        if libs.exists():  # an older or damaged one
            libs.rename(Path(scratch) / "replaced")
        fetched.rename(libs)


def fetch(target: Path, *, ivy_cache: Path) -> None:
    """Resolve IVY_XML and put every jar into `target`."""
    if shutil.which("java") is None:
        raise KafkaJarsError("java is not on PATH; Java 17 or newer is needed")
    ivy_cache.mkdir(parents=True)
    module = ivy_cache / "ivy.xml"
    module.write_text(IVY_XML, encoding="utf-8")
    command = [
        "java", "-jar", str(ivy_jar()), "-ivy", str(module), "-cache", str(ivy_cache), "-confs", "default",
        "-types", "jar", "bundle", "-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise KafkaJarsError(f"Ivy did not fetch Kafka {KAFKA_VERSION} within {FETCH_TIMEOUT_S} s") from None
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
        raise KafkaJarsError(f"Ivy could not fetch Kafka {KAFKA_VERSION} (exit {done.returncode}):\n{tail}")


def ivy_jar() -> Path:
    """Ivy as pyspark brings it; pyspark itself is not imported."""
    spec = importlib.util.find_spec("pyspark")
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [jar for folder in folders for jar in sorted(Path(folder, "jars").glob("ivy-*.jar"))]
    if not found:
        raise KafkaJarsError("no Ivy jar: pyspark is not installed here; run `make setup`")
    return found[-1]


def read_checksums() -> dict[str, str]:
    """File name -> SHA-256, from the committed list (the format of sha256sum)."""
    lines = CHECKSUMS.read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}


def checksums(libs: Path) -> dict[str, str]:
    """File name -> SHA-256 of every jar in `libs`."""
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(libs.glob("*.jar"))}


def differences(libs: Path, expected: dict[str, str]) -> list[str]:
    """What is missing from `libs`, damaged or too much; empty when all is as committed."""
    actual = checksums(libs)
    common = expected.keys() & actual.keys()
    missing = [f"{name} is missing" for name in expected.keys() - common]
    unexpected = [f"{name} is unexpected" for name in actual.keys() - common]
    different = [f"{name} is different" for name in common if expected[name] != actual[name]]
    return sorted(missing + unexpected + different)


def summary(problems: list[str]) -> str:
    """The first few of them."""
    shown = ", ".join(problems[:5])
    return shown if len(problems) <= 5 else f"{shown} and {len(problems) - 5} more"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an advisory lock on `path` among processes; it ends with the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(argv: list[str]) -> int:
    """Fetch and check; or write the checksums."""
    try:
        if argv == ["--write-checksums"]:
            with tempfile.TemporaryDirectory() as scratch:
                fetch(Path(scratch) / "libs", ivy_cache=Path(scratch) / "ivy")
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
    except KafkaJarsError as error:
        print(f"kafka_jars: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
