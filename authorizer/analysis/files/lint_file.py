"""File of lint rules, in TOML.

principal_types = ["User", "Group"]     # the types of principals; default: User only
off = ["idle-deny"]                     # disabled rules

[[accept]]
rules = ["broader-twin", "redundant"]   # default: all
principal = "User:legacy-*"             # patterns with * and ?
resource_type = "Topic"
resource_name = "pii-*"
reason = "guards, ticket 1234"          # a comment
"""

from __future__ import annotations

import msgspec

from authorizer.analysis.files.parsing import FileFormatError
from authorizer.analysis.lint.rules import RULES, USUAL_TYPES, AcceptedAcls, LintRules, Rule
from records.acl import ResourceType


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    rules: tuple[Rule, ...] = RULES
    principal: str = "*"
    resource_type: str | None = None
    resource_name: str = "*"
    reason: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    principal_types: frozenset[str] = USUAL_TYPES
    off: frozenset[Rule] = frozenset()
    accept: list[_Entry] = []


def parse_rules(content: bytes, path: str) -> LintRules:
    """Parse the content of a file. A FileFormatError names ``path`` and the wrong entry."""
    try:
        file = msgspec.toml.decode(content, type=_File)
        accepted = tuple(_accepted(number, entry) for number, entry in enumerate(file.accept, 1))
    except (msgspec.DecodeError, ValueError) as error:
        raise FileFormatError(f"{path}: {error}") from error
    return LintRules(principal_types=file.principal_types, off=file.off, accepted=accepted)


def _accepted(number: int, entry: _Entry) -> AcceptedAcls:
    kind = None if entry.resource_type is None else ResourceType.from_name(entry.resource_type)
    if kind in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise ValueError(f"[[accept]] {number}: `{entry.resource_type}` is no resource type")
    return AcceptedAcls(frozenset(entry.rules), entry.principal, kind, entry.resource_name, entry.reason)
