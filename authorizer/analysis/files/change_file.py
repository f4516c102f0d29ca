r"""A file of changes: what is to be added and removed, line by line, in one of these forms.

    command lines     kafka-acls' own, with or without its name: --add ..., --remove ...
    JSON lines        {"acl": "added" | "removed", ...}, as `aclog diff --json` and `aclog review` print
                      them; their other lines are passed by

Lines that begin with # are comments, and \ at the end of a command line goes on with the next. Every other
form is a desired state (``acl_file``).
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from authorizer.analysis.files.acl_file import numbered_acl
from authorizer.analysis.files.kafka_acls_flags import KafkaAclsUsageError, exactly, flags_of
from authorizer.analysis.files.lines import payload_of, wrong_line
from authorizer.api.errors import ApiError
from authorizer.engine.acl_validation import validate_filter
from records.acl import AccessControlEntryFilter, AclBinding, AclBindingFilter
from records.entries import AccessControlEntryRecord
from records.errors import DecodeError
from records.ids import binding_uuid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from authorizer.analysis.files.lines import Line

_COMMANDS: Final = ("kafka-acls", "kafka-acls.sh", "aclog-kafka-acls")
_KINDS: Final = ("added", "removed")
#: Keys of the other lines that `aclog diff`, `aclog plan` and `aclog review` print.
_PASSED_BY: Final = {"counts", "flip", "same", "warning", "review"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one line does, after those before it."""

    line: int
    add: tuple[AccessControlEntryRecord, ...] = ()
    remove: tuple[AccessControlEntryRecord, ...] = ()
    remove_matching: tuple[AclBindingFilter, ...] = ()


def steps_of(lines: Sequence[Line], path: str) -> list[Step] | None:
    """What the lines of a file do; None if it is none of changes.

    Raises:
        DecodeError: naming the line that is wrong.
    """
    kept = [(number, text) for number, text in lines if not text.lstrip().startswith("#")]
    first = kept[0][1].lstrip() if kept else ""
    if first.startswith("{") and _is_change(first):
        return list(_of_json(kept, path))
    if first.startswith("-") or _begins_with_name(first):
        return [_of_command(words, path, number) for number, words in _commands(kept, path)]
    return None


def _is_change(text: str) -> bool:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return document.get("acl") in _KINDS or bool(_PASSED_BY & document.keys())


def _of_json(lines: Sequence[Line], path: str) -> Iterator[Step]:
    for number, line in lines:
        try:
            payload = payload_of(line.encode("utf-8", "surrogatepass"))
        except DecodeError as error:
            raise error.located(source=f"{path} line {number}") from error
        if _PASSED_BY & payload.keys():
            continue
        kind = payload.pop("acl", None)
        if kind not in _KINDS:
            raise wrong_line('`acl` is neither "added" nor "removed"', path, number)
        _, acl = numbered_acl(payload, path, number)
        if kind == "added":
            yield Step(line=number, add=(acl,))
        else:
            yield Step(line=number, remove=(acl,))


def _begins_with_name(text: str) -> bool:
    return text.split(None, 1)[0].rpartition("/")[2] in _COMMANDS if text else False


def _commands(lines: Sequence[Line], path: str) -> Iterator[tuple[int, list[str]]]:
    begun, words = 0, ""
    for number, line in lines:
        begun = begun or number
        words += line.rstrip()
        if words.endswith("\\"):
            words = words[:-1] + " "
            continue
        yield begun, _words(words, path, begun)
        begun, words = 0, ""
    if begun:
        raise wrong_line("the command goes on behind the end of the file", path, begun)


def _words(text: str, path: str, number: int) -> list[str]:
    try:
        found = shlex.split(text, comments=True)
    except ValueError as error:
        raise wrong_line(f"not a command line: {error}", path, number) from error
    return found[1:] if _begins_with_name(text.lstrip()) else found


def _of_command(words: list[str], path: str, number: int) -> Step:
    if not words or not words[0].startswith("-"):
        raise wrong_line("not a command line of kafka-acls", path, number)
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
                AclBindingFilter(where, entry)
                for where, entries in flags.entries_by_resource().items()
                for entry in ([exactly(entry) for entry in entries] or [AccessControlEntryFilter()])
            ]
            for each in filters:
                validate_filter(each)
            return Step(line=number, remove_matching=tuple(filters))
    except (KafkaAclsUsageError, ApiError) as error:
        raise wrong_line(str(error).strip(), path, number) from error
    raise wrong_line("--list changes nothing: --add or --remove is to be there", path, number)
