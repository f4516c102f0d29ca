"""Kafka's own StandardAuthorizer, in a Java process that obeys commands (java/Anchor.java)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_PROGRAM = Path(__file__).with_name("java") / "Anchor.java"
_JARS = ROOT / "tests" / "support" / "kafka_jars.py"

#: A million parsed ACLs take about half of it.
HEAP = "4g"
# The collector of a broker (kafka-run-class.sh), and a locale that does not matter.
_JVM_OPTIONS = (
    f"-Xmx{HEAP}",
    "-XX:+UseG1GC",
    "-Dfile.encoding=UTF-8",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    # As Kafka's own log4j2.yaml has it: what is denied, with the time.
    "-Dorg.slf4j.simpleLogger.log.kafka.authorizer.logger=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
)


class AnchorError(Exception):
    """Java is missing, or a command failed; the message says what it printed."""


def kafka_libs() -> Path:
    """The directory with Kafka's jars; fetched on the first call."""
    done = subprocess.run([sys.executable, str(_JARS)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise AnchorError("Kafka's jars could not be fetched")
    return Path(done.stdout.strip())


class Anchor:
    """One Java process. ``tell`` is one command and its answer."""

    def __init__(self) -> None:
        command = ["java", *_JVM_OPTIONS, "-cp", f"{kafka_libs()}/*", str(_PROGRAM)]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
            )
        except FileNotFoundError as error:
            raise AnchorError("java is not on PATH; Java 17 or newer is needed") from error

    def tell(self, do: str, **arguments: object) -> dict[str, Any]:
        """Raises AnchorError when the command failed, or the process has ended."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise AnchorError("the process has no pipes")
        try:
            process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise AnchorError(f"`{do}`: the Java process ended with {process.wait()}; its stderr says why")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise AnchorError(f"`{do}`: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the process: it ends with its input. Idempotent."""
        with self._process:
            pass
