"""Kafka's command line tools, run from the jars, and a parser of kafka-dump-log's output."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from support.class_archives import jvm_options
from support.kafka_jars import KAFKA_VERSION, SHELL, TOOLS_OF, kafka_libs

DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
ACLS = "org.apache.kafka.tools.AclCommand"
STORAGE = "kafka.tools.StorageTool"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
BROKER = "kafka.Kafka"
METADATA_SHELL = "org.apache.kafka.shell.MetadataShell"

SHELL_PROMPT = ">> "
SHELL_TRIES = 5

JVM_OPTIONS = jvm_options("kafka")
# Whatever the locale is (Java 17 asks it).
UTF_8 = ("-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
BATCH_LINE = re.compile(r"baseOffset: \d+ ")
RECORD_LINE = re.compile(
    r"\| offset: (?P<offset>\d+) (?:CreateTime|LogAppendTime): (?P<timestamp>-?\d+) .*?"
    r"headerKeys: \[[^\]]*\] (?P<kind>\w+):? (?P<value>\{.*\})$"
)
PAIR = re.compile(r"(\w+): (\S+)")

TOOL_RUNNER = Path(__file__).with_name("RunTools.java")


class KafkaToolError(Exception):
    """A tool exited with a code other than 0, or its output cannot be parsed."""


def java_command(
    main_class: str,
    *args: str | Path,
    libs: Path | None = None,
    more_libs: Sequence[Path] = (),
    heap: str = "256m",
    log_level: str = "warn",
    options: Sequence[str] = (),
) -> list[str]:
    """The command that runs a main class of Kafka; Kafka's logging goes to stderr."""
    return [
        "java",
        f"-Xmx{heap}",
        *JVM_OPTIONS,
        *UTF_8,
        *options,
        f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}",
        "-cp",
        os.pathsep.join(f"{each}/*" for each in (libs or kafka_libs(), *more_libs)),
        main_class,
        *map(str, args),
    ]


def run_java(
    main_class: str,
    *args: str | Path,
    libs: Path | None = None,
    heap: str = "256m",
    timeout_s: float = 120,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a main class of Kafka; with `check` KafkaToolError is raised unless it exits with 0."""
    command = java_command(main_class, *args, libs=libs, heap=heap)
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=timeout_s, check=False
    )
    if check and done.returncode != 0:
        raise KafkaToolError(f"{main_class} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def dump_log(*files: Path, libs: Path | None = None) -> list[dict[str, Any]]:
    """Every record of some metadata segments or checkpoints, in order, as kafka-dump-log decodes it.

    A record is {"file", "offset", "timestamp", "type", "version", "data"}; a control record is {"file",
    "offset", "timestamp", "control", "value"}. So is a line of dump.jsonl under tests/data/oracle/logs.
    """
    return list(parse_records(dump_log_text(*files, libs=libs)))


def dump_batches(*files: Path, libs: Path | None = None) -> list[dict[str, Any]]:
    """Every batch header of some segments or checkpoints, in order.

    A header is "file" and kafka-dump-log's own names, with numbers and booleans converted; "isvalid" is
    Kafka's check of the CRC.
    """
    return list(parse_batches(dump_log_text(*files, libs=libs)))


def dump_log_text(*files: Path, libs: Path | None = None) -> str:
    """What `kafka-dump-log --cluster-metadata-decoder --print-data-log` prints."""
    names = ",".join(map(str, files))
    return run_java(
        DUMP_LOG, "--cluster-metadata-decoder", "--print-data-log", "--files", names, libs=libs
    ).stdout


def metadata_shell(checkpoint: Path, commands: Sequence[str]) -> list[str]:
    """What kafka-metadata-shell prints for each of these commands, typed one after the other."""
    command = java_command(
        METADATA_SHELL, "--snapshot", checkpoint, more_libs=[kafka_libs(SHELL)], log_level="off"
    )
    typed = "".join(f"{each}\n" for each in ("cat /image/provenance", *commands))
    # Its prompt may come before the image is published.
    for _ in range(SHELL_TRIES):
        done = subprocess.run(
            command, input=typed, capture_output=True, text=True, encoding="utf-8", timeout=120, check=True
        )
        _, provenance, *printed, _ = done.stdout.split(SHELL_PROMPT)
        if "offset -1," not in provenance:
            return printed
    raise KafkaToolError(f"{METADATA_SHELL} published nothing of {checkpoint}")


def parse_records(text: str) -> Iterator[dict[str, Any]]:
    """The record lines of kafka-dump-log."""
    for file, line in lines_of_files(text):
        if not line.startswith("| "):
            continue
        match = RECORD_LINE.match(line)
        if match is None:  # a payload that the tool could not decode, say
            raise KafkaToolError(f"kafka-dump-log printed for {file}: {line}")
        head = {"file": file, "offset": int(match["offset"]), "timestamp": int(match["timestamp"])}
        value = json.loads(match["value"])
        yield head | (value if match["kind"] == "payload" else {"control": match["kind"], "value": value})


def parse_batches(text: str) -> Iterator[dict[str, Any]]:
    """The batch lines of kafka-dump-log."""
    for file, line in lines_of_files(text):
        if BATCH_LINE.match(line):
            yield {"file": file} | {name: plain(value) for name, value in PAIR.findall(line)}


def lines_of_files(text: str) -> Iterator[tuple[str, str]]:
    """(file name, line); a new file begins with "Dumping <path>".

    Lines end with a newline only: names in records may hold what str.splitlines() also splits at.
    """
    file = ""
    for line in text.split("\n"):
        if line.startswith("Dumping "):
            file = Path(line.removeprefix("Dumping ")).name
        else:
            yield file, line


def plain(text: str) -> int | bool | str:
    """A number or a boolean where the text is one."""
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else text


class ToolRun(NamedTuple):
    """What a tool printed, and its exit code."""

    exit: int
    out: str
    err: str


def run_tools(
    tool: str, lines: Sequence[Sequence[str]], *, version: str = KAFKA_VERSION, timeout_s: float = 120
) -> list[ToolRun]:
    """Run a tool with each of these command lines, one after another, in one JVM (RunTools.java)."""
    questions = [{"tool": tool, "args": list(args)} for args in lines]
    answers = run_program(TOOL_RUNNER, questions, version=version, timeout_s=timeout_s)
    return [ToolRun(**answer) for answer in answers]


def run_program(
    program: Path,
    questions: Iterable[Any],
    *,
    version: str = KAFKA_VERSION,
    timeout_s: float = 120,
    options: Sequence[str] = (),
) -> list[Any]:
    """Answers of a Java program of tests/support, which reads and writes JSON lines, on a release's jars."""
    more_libs = [kafka_libs(TOOLS_OF[version])] if version in TOOLS_OF else []
    done = subprocess.run(
        java_command(
            str(program), libs=kafka_libs(version), more_libs=more_libs, log_level="off", options=options
        ),
        input="".join(json.dumps(question) + "\n" for question in questions),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout_s,
        check=False,
    )
    if done.returncode != 0:
        raise KafkaToolError(f"{program.name} ended with {done.returncode}:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]
