"""Kafka's kafka-acls, run from the jars against ACLs held in memory (RecordAclCommand.java)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.kafka_tools import run_program

RECORDER = Path(__file__).with_name("RecordAclCommand.java")

Acl = dict[str, str]


@dataclass(frozen=True, slots=True)
class KafkaAclsRun:
    """One kafka-acls command line and the ACLs that exist before it."""

    args: tuple[str, ...]
    existing: tuple[Acl, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of kafka-acls: exit code, stdout, first line of stderr, and the ACLs afterwards."""

    exit: int
    out: str
    err: str
    acls: list[Acl]


def ask_kafka_acls(runs: Sequence[KafkaAclsRun]) -> list[Answer]:
    """Run all command lines in one JVM, which takes about a second after a compilation."""
    questions = [{"args": run.args, "existing": run.existing} for run in runs]
    return [Answer(**answer) for answer in run_program(RECORDER, questions)]


def blocks(text: str) -> set[tuple[str, frozenset[str]]]:
    """kafka-acls' output without its order: (title, its indented lines) of each block."""
    found: dict[str, set[str]] = {}
    title = ""
    for line in re.split(r"\n", text):
        if line.startswith(("\t", " \t")):
            found[title].add(line.strip())
        elif line.strip():
            title = line
            found.setdefault(title, set())
    return {(title, frozenset(lines)) for title, lines in found.items()}


def listed_commands(text: str) -> list[tuple[tuple[str, ...], str, int]]:
    """A recorded kafka-acls-list.txt: (arguments, output, exit code) of each ``$ kafka-acls ...``."""
    found = []
    for piece in re.split(r"^\$ kafka-acls ", text, flags=re.MULTILINE)[1:]:
        args, _, rest = piece.partition("\n")
        output, _, code = rest.rpartition("[exit ")
        found.append((tuple(args.split(" ")), output, int(code.strip().rstrip("]"))))
    return found
