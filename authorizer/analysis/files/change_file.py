r"""File of changes: ACLs to add and remove, line by line, in one of these forms.

    command lines     of kafka-acls, with or without its name: --add ..., --remove ...
    JSON lines        {"acl": "added" | "removed", ...}, as `aclog diff --json` and `aclog review` print
                      them; their other lines are ignored

Lines that begin with # are comments. A command line that ends with \ continues on the next line. Every other
form is a desired state (``acl_file``).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from authorizer.analysis.files.acl_file import numbered_acl
from authorizer.analysis.files.kafka_acls_flags import KafkaAclsUsageError, exactly, flags_of
from authorizer.analysis.files.parsing import Line, line_error, parse_json_object
from authorizer.api.errors import ApiError
from authorizer.engine.acl_validation import validate_filter
from records.acl import AccessControlEntryFilter, AclBinding, AclBindingFilter
from records.entries import AccessControlEntryRecord
from records.errors import DecodeError
from records.ids import binding_uuid

_COMMANDS: Final = ("kafka-acls", "kafka-acls.sh", "aclog-kafka-acls")
_KINDS: Final = ("added", "removed")
#: Keys of the other lines that `aclog diff`, `aclog plan` and `aclog review` print.
_IGNORED: Final = {"counts", "flip", "same", "warning", "review"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The changes of one line."""

    line: int
    add: tuple[AccessControlEntryRecord, ...] = ()
    remove: tuple[AccessControlEntryRecord, ...] = ()
    remove_matching: tuple[AclBindingFilter, ...] = ()


def parse_steps(lines: Sequence[Line], path: str) -> list[Step] | None:
    """Return the steps in a file; None if it is not a file of changes. A DecodeError names the wrong line."""
    uncommented = [(number, text) for number, text in lines if not text.lstrip().startswith("#")]
    first = uncommented[0][1].lstrip() if uncommented else ""
    if first.startswith("{") and _is_change(first):
        return list(_steps_of_json(uncommented, path))
    if first.startswith("-") or _begins_with_name(first):
        return [_step_of_command(words, path, number) for number, words in _commands(uncommented, path)]
    return None


def _is_change(text: str) -> bool:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return document.get("acl") in _KINDS or bool(_IGNORED & document.keys())


def _steps_of_json(lines: Sequence[Line], path: str) -> Iterator[Step]:
    for number, line in lines:
        try:
            payload = parse_json_object(line.encode("utf-8", "surrogatepass"))
        except DecodeError as error:
            raise error.located(source=f"{path} line {number}") from error
        if _IGNORED & payload.keys():
            continue
        kind = payload.pop("acl", None)
        if kind not in _KINDS:
            raise line_error('`acl` is neither "added" nor "removed"', path, number)
        _, acl = numbered_acl(payload, path, number)
        if kind == "added":
            yield Step(line=number, add=(acl,))
        else:
            yield Step(line=number, remove=(acl,))


def _begins_with_name(text: str) -> bool:
    return text.split(None, 1)[0].rpartition("/")[2] in _COMMANDS if text else False


def _commands(lines: Sequence[Line], path: str) -> Iterator[tuple[int, list[str]]]:
    first, words = 0, ""
    for number, line in lines:
        first = first or number
        words += line.rstrip()
        if words.endswith("\\"):
            words = words[:-1] + " "
            continue
        yield first, _words(words, path, first)
        first, words = 0, ""
    if first:
        raise line_error("the command continues after the end of the file", path, first)


def _words(text: str, path: str, number: int) -> list[str]:
    try:
        found = shlex.split(text, comments=True)
    except ValueError as error:
        raise line_error(f"not a command line: {error}", path, number) from error
    return found[1:] if _begins_with_name(text.lstrip()) else found


def _step_of_command(words: list[str], path: str, number: int) -> Step:
    if not words or not words[0].startswith("-"):
        raise line_error("not a command line of kafka-acls", path, number)
    try:
        flags = flags_of(words)
        if flags.add:
            bindings = [
                AclBinding(pattern, entry)
                for pattern, entries in flags.bindings_to_add().items()
                for entry in entries
            ]
            return Step(
                line=number,
                add=tuple(
                    AccessControlEntryRecord.from_binding(binding_uuid(each), each) for each in bindings
                ),
            )
        if flags.remove:
            filters = [
                AclBindingFilter(pattern, entry)
                for pattern, entries in flags.entries_by_resource().items()
                for entry in ([exactly(entry) for entry in entries] or [AccessControlEntryFilter()])
            ]
            for each in filters:
                validate_filter(each)
            return Step(line=number, remove_matching=tuple(filters))
    except (KafkaAclsUsageError, ApiError) as error:
        raise line_error(str(error).strip(), path, number) from error
    raise line_error("--list changes nothing: use --add or --remove", path, number)
