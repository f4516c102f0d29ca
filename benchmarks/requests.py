"""Lists of requests, as both sides read them, and what else is derived from a workload.

Beside the lists of `benchmarks.workload` each workload gets

    bulk           requests with 500 actions each, as when a client asks for the metadata of 500 topics
    principals     one request of each principal that has ACLs, aimed at one of them
    audited        ``distinct``, with the flags that an action has unless it says otherwise: the audit log is
                   asked to say what was decided
    updates.jsonl  ACLs that are not among its own
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

import msgspec

from authorizer.api.authorizer_api import Action, RequestContext, SecurityProtocol
from benchmarks.shapes.drawing import ALL, DESCRIBE, LITERAL, PREFIXED, READ, TOPIC
from records.acl import WILDCARD, AclOperation, PatternType, ResourcePattern, ResourceType
from records.principal import WILDCARD_PRINCIPAL, parse_kafka_principal

BULK = "bulk"
BULK_ACTIONS = 500
# Few enough for the requests to stay in the processor's caches, as one that was just parsed.
_BULK_REQUESTS = 20
_UPDATES = 2_000

PRINCIPALS = "principals"
AUDITED = "audited"
# Where a principal asks from whose ACL is for any host.
_HOST = "10.9.0.1"


@dataclass(frozen=True, slots=True)
class Request:
    """One call of ``authorize``."""

    context: RequestContext
    actions: list[Action]


class _Query(msgspec.Struct):
    principal: str
    host: str
    operation: int
    resourceType: int  # noqa: N815 - Kafka's name
    resourceName: str  # noqa: N815


class _Acl(msgspec.Struct):
    resourceType: int  # noqa: N815
    resourceName: str  # noqa: N815
    patternType: int  # noqa: N815
    principal: str
    host: str
    operation: int


class _AclLine(msgspec.Struct):
    data: _Acl


def read_requests(workload: Path, name: str) -> list[Request]:
    """Read a list of requests of one action each, or of BULK_ACTIONS each if it is ``bulk``."""
    queries = _read_queries(list_file(workload, name))
    size = actions_per_request(name)
    requests = []
    for start in range(0, len(queries), size):
        caller = queries[start]
        context = RequestContext(
            parse_kafka_principal(caller.principal),
            caller.host,
            listener_name="CLIENTS",
            security_protocol=SecurityProtocol.SASL_SSL,
            request_type=3,
            request_version=1,
            client_id="benchmark",
            correlation_id=1,
        )
        actions = [_action(query, audited=name == AUDITED) for query in queries[start : start + size]]
        requests.append(Request(context, actions))
    return requests


def actions_per_request(name: str) -> int:
    return BULK_ACTIONS if name == BULK else 1


def list_file(workload: Path, name: str) -> Path:
    """The file with a list; those that are derived are written on the first call."""
    file = workload / f"{'distinct' if name == AUDITED else name}.jsonl"
    if name in _DERIVED and not file.exists():
        _DERIVED[name](workload, file)
    return file


def updates_file(workload: Path) -> Path:
    """ACLs like those of the workload, on names that have none yet; written on the first call."""
    file = workload / "updates.jsonl"
    if not file.exists():
        _write_updates(workload, file)
    return file


def _read_queries(file: Path) -> list[_Query]:
    decode = msgspec.json.Decoder(_Query).decode
    with file.open("rb") as lines:
        return [decode(line) for line in lines]


def _action(query: _Query, *, audited: bool) -> Action:
    pattern = ResourcePattern(ResourceType(query.resourceType), query.resourceName, PatternType.LITERAL)
    # Where decisions alone are measured, whether to log is decided, and nothing is written.
    return Action(AclOperation(query.operation), pattern, 1, log_if_allowed=audited, log_if_denied=audited)


def _write_bulk(workload: Path, file: Path) -> None:
    random = Random(500)
    queries = _read_queries(list_file(workload, "distinct"))
    topics = sorted({query.resourceName for query in queries if query.resourceType == TOPIC})
    lines = []
    for _ in range(_BULK_REQUESTS):
        caller = random.choice(queries)
        names: Sequence[str] = random.sample(topics, min(BULK_ACTIONS, len(topics)))
        names = [names[i % len(names)] for i in range(BULK_ACTIONS)]
        lines += [
            json.dumps(
                {
                    "principal": caller.principal,
                    "host": caller.host,
                    "operation": DESCRIBE,
                    "resourceType": TOPIC,
                    "resourceName": name,
                }
            )
            + "\n"
            for name in names
        ]
    _write(file, lines)


def _write_principals(workload: Path, file: Path) -> None:
    random = Random(5)
    aims: dict[str, _Acl] = {}
    seen: Counter[str] = Counter()
    decode = msgspec.json.Decoder(_AclLine).decode
    with (workload / "acls.jsonl").open("rb") as lines:
        for line in lines:
            acl = decode(line).data
            seen[acl.principal] += 1
            if random.randrange(seen[acl.principal]) == 0:  # each of its ACLs is as likely in the end
                aims[acl.principal] = acl
    aims.pop(WILDCARD_PRINCIPAL, None)
    callers = sorted(aims)
    random.shuffle(callers)
    _write(file, [json.dumps(_query_at(aims[caller])) + "\n" for caller in callers])


def _query_at(acl: _Acl) -> dict[str, object]:
    """What the ACL answers, unless another one does."""
    name = acl.resourceName
    if acl.patternType == PREFIXED:
        name += ".any"
    elif name == WILDCARD:
        name = "any"
    return {
        "principal": acl.principal,
        "host": _HOST if acl.host == WILDCARD else acl.host,
        "operation": READ if acl.operation == ALL else acl.operation,
        "resourceType": acl.resourceType,
        "resourceName": name,
    }


def _write_updates(workload: Path, file: Path) -> None:
    random = Random(7)
    with (workload / "acls.jsonl").open(encoding="ascii") as lines:
        acls = [json.loads(line) for line in islice(lines, 0, None, 97)]
    new = []
    for number in range(_UPDATES):
        acl = random.choice(acls)
        data = acl["data"] | {
            "id": base64.urlsafe_b64encode(random.randbytes(16)).decode("ascii").rstrip("="),
            "resourceName": f"{acl['data']['resourceName']}.new{number}",
            "patternType": LITERAL,
        }
        new.append(json.dumps(acl | {"data": data}) + "\n")
    _write(file, new)


def _write(file: Path, lines: Sequence[str]) -> None:
    """All or nothing: what is there is taken to be complete."""
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text("".join(lines), encoding="ascii")
    unfinished.rename(file)


_DERIVED: dict[str, Callable[[Path, Path], None]] = {BULK: _write_bulk, PRINCIPALS: _write_principals}
