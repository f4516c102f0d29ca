"""Stand-ins for the base images of the Dockerfile and of the tests, where no registry can be reached.

As a program (`make stand-in-images`, as root) it makes a Debian with Python and Java by debootstrap, from
the mirror that is its argument or debootstrap's own, and gives it the names that the Dockerfile and
`kafka_broker` use: for Kafka with the jars of `kafka_jars`, and a script that reads KAFKA_ variables as
Kafka's own image does. They behave like the real ones only as far as our tests need it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from support.containers import docker
from support.kafka_broker import IMAGE, IMAGE_DATA
from support.kafka_jars import ROOT, kafka_libs

PACKAGES = (
    "python3", "python3-venv", "python-is-python3", "ca-certificates", "openjdk-17-jre-headless",
)  # fmt: skip
SUITE = "bookworm"
CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")

DOCKERFILE = f"""\
FROM {{base}}
RUN useradd --uid 1000 appuser && install --directory --owner=appuser {IMAGE_DATA}
COPY libs /opt/kafka/libs
COPY run /etc/kafka/docker/run
USER appuser
CMD ["bash", "/etc/kafka/docker/run"]
"""

RUN = """\
set -eu
# KAFKA_NODE_ID is node.id.
env | sed --quiet '/^KAFKA_HEAP_OPTS=/d; s/^KAFKA_//p' | while IFS='=' read -r name value; do
    name="${name,,}"
    echo "${name//_/.}=$value"
done > /tmp/server.properties
export CLASSPATH='/opt/kafka/libs/*'
cd /tmp
java kafka.tools.StorageTool format --ignore-formatted --cluster-id "$CLUSTER_ID" --config server.properties
exec java ${KAFKA_HEAP_OPTS:-} -Dorg.slf4j.simpleLogger.defaultLogLevel=info kafka.Kafka server.properties
"""


def python_image() -> str:
    """The base image of the Dockerfile."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    [image] = set(re.findall(r"^FROM (\S+)", text, re.MULTILINE))
    return image


def make_python(mirror: list[str]) -> None:
    """Build the image, with this machine's certificates, which a proxy may need."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "root")
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, root, *mirror],
            check=True,
        )
        if (Path("/") / CERTIFICATES).exists():
            shutil.copyfile(Path("/") / CERTIFICATES, root / CERTIFICATES)
        packed = Path(scratch, "root.tar")
        subprocess.run(
            ["tar", "--create", "--file", packed, "--directory", root, "--exclude=./var/cache/apt/*", "."],
            check=True,
        )
        docker("import", f"--change=ENV PIP_CERT=/{CERTIFICATES}", packed, python_image())


def make_kafka() -> None:
    with tempfile.TemporaryDirectory() as context:
        Path(context, "Dockerfile").write_text(DOCKERFILE.format(base=python_image()), encoding="utf-8")
        Path(context, "run").write_text(RUN, encoding="utf-8")
        shutil.copytree(kafka_libs(), Path(context, "libs"))
        docker("build", "--tag", IMAGE, context)


if __name__ == "__main__":
    make_python(sys.argv[1:])
    make_kafka()
    print(f"made {python_image()} and {IMAGE}")
