"""ACLs as JSON lines, which `aclog diff` and similar commands read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def acl(name: str, principal: str = "User:alice", **other: str) -> dict[str, str]:
    """An ACL to read a topic; ``other`` fields by their names in JSON."""
    usual = {
        "resourceType": "TOPIC",
        "resourceName": name,
        "patternType": "LITERAL",
        "principal": principal,
        "host": "*",
        "operation": "READ",
        "permissionType": "ALLOW",
    }
    return usual | other


def json_lines(path: Path, *objects: dict[str, Any]) -> Path:
    """A file with one object on each line."""
    path.write_text("".join(json.dumps(each) + "\n" for each in objects), encoding="utf-8")
    return path
