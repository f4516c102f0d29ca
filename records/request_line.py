"""Request lines: an authorizer's log lines about requests, parsed.

There are three forms:

    Kafka's line    Principal = User:a is Allowed operation = READ from host = 10.0.0.1 on resource =
                    Topic:LITERAL:orders for request = Fetch with resourceRefCount = 1 based on rule ...
                    with any text before it, which may have its time, and any text after it
    audit line      the same facts in JSON, as `aclog serve` logs them
    decision event  a CloudEvent (docs/decision-log.md), which may count many decisions, or a sample of them

Kafka's line is text without quotes, and clients choose some of it. A line that can be parsed in two ways,
because a name in it looks like a part of the line, is rejected. The ACL in the line is ignored: which ACLs
allow a request is computed from the ACLs.

Source: StandardAuthorizerData.buildAuditMessage; AclAuthorizer before it wrote ``Operation``, and no rule.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from records.acl import AclOperation, ResourceType
from records.errors import DecodeError

#: Value of the key ``logger`` in audit lines.
AUDIT_LOGGER_NAME: Final = "kafka.authorizer.logger"
#: Type of decision events.
EVENT_TYPE: Final = "aclog.decision.v1"

#: The start of Kafka's line, and a part that occurs once, after the resource's name.
BEGIN: Final = "Principal = "
COUNT: Final = " with resourceRefCount = "
#: A time as it may be written: date, time of day, fraction of a second, zone.
TIME: Final = r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?"

SUPER_USER: Final = "SuperUser"
DEFAULT_ALLOW: Final = "DefaultAllow"

_REQUEST: Final = re.compile(
    r"Principal = (.*) is (Allowed|Denied) [oO]peration = (\w+) from host = (\S*) "
    r"on resource = (\w+):\w+:(.*) for request = \S+ with resourceRefCount = (\d+)(?: based on rule (\w+))?",
    re.DOTALL,
)
#: Occurs once before COUNT, after the principal.
_FROM: Final = " from host = "
#: The relevant part after COUNT.
_TAIL: Final = re.compile(r"\d+(?: based on rule \w+)?")
_TAIL_LENGTH: Final = 64
_TWO_WAYS: Final = "a name in it looks like a part of the line, so that it can be read in two ways"
_TIME: Final = re.compile(TIME, re.ASCII)
_RESULTS: Final = {"Allowed": True, "ALLOWED": True, "Denied": False, "DENIED": False}
_OPERATIONS: Final = {name: each for each in AclOperation for name in (each.name, each.title)}
_RESOURCE_TYPES: Final = {name: each for each in ResourceType for name in (each.name, each.title)}


class Request(NamedTuple):
    """A request: principal (``Type:name``), host, operation and resource."""

    principal: str
    host: str
    operation: AclOperation
    resource_type: ResourceType
    resource_name: str


class Logged(NamedTuple):
    """What lines about equal requests have in common.

    Attributes:
        rule: what allowed or denied it: ``MatchingAcl``, ``SuperUser``, ...; empty if the line has none.
        is_probe: it names no resource of the request: Kafka uses an invented name to check whether a
            principal may do this on any resource of the type (KIP-679).
    """

    request: Request
    is_allowed: bool
    rule: str
    is_probe: bool


class RequestLine(NamedTuple):
    """The content of one line.

    Attributes:
        first_ms: since the epoch; a time without a zone counts as UTC. None if the line has none.
        is_sampled: others like it were left out.
    """

    logged: Logged
    decisions: int
    first_ms: int | None
    last_ms: int | None
    is_sampled: bool


class RequestLines:
    """Parses lines; Kafka's texts that occur again are cached."""

    def __init__(self) -> None:
        self._known: dict[str, Logged] = {}

    def read(self, line: bytes) -> RequestLine | None:
        """Return the content of a line; None if it is not about a request.

        Raises:
            DecodeError: it is, or seems to be, and cannot be parsed.
        """
        if line.startswith(b"{"):
            return _of_json(line)
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"not UTF-8: byte {line[error.start]:#04x} at {error.start}") from error
        begin = text.find(BEGIN)
        if begin < 0:
            return None
        request = shortened(text, begin)
        logged = self._known.get(request)
        if logged is None:
            logged = self._known[request] = logged_of(request)
        at_ms = _ms(text[:begin])
        return RequestLine(logged, 1, at_ms, at_ms, False)


def shortened(text: str, begin: int) -> str:
    """Return Kafka's line without the parts that differ between equal requests.

    Raises:
        DecodeError: it is truncated, or can be parsed in two ways.
    """
    at = text.find(COUNT, begin)
    tail = None if at < 0 else _TAIL.match(text[at + len(COUNT) : at + len(COUNT) + _TAIL_LENGTH])
    if tail is None:
        raise DecodeError("the line is truncated")
    if text.find(COUNT, at + 1) >= 0:
        raise DecodeError(_TWO_WAYS)
    return text[begin : at + len(COUNT)] + tail[0]


def logged_of(request: str) -> Logged:
    """Parse a shortened line, or a JSON object with only what equal requests have in common.

    Raises:
        DecodeError: it cannot be parsed.
    """
    if request.startswith("{"):
        line = _of_json(request.encode("utf-8", "surrogatepass"))
        if line is None:
            raise DecodeError("not about a request")
        return line.logged
    if request.count(_FROM) > 1:
        raise DecodeError(_TWO_WAYS)
    found = _REQUEST.match(request)
    if found is None:
        raise DecodeError("not a line as Kafka's authorizer logs it")
    principal, result, operation, host, resource_type, name, count, rule = found.groups()
    return _logged(result, principal, host, operation, resource_type, name, count == "0", rule or "")


def _logged(
    result: str,
    principal: str,
    host: str,
    operation: str,
    resource_type: str,
    name: str,
    is_probe: bool,
    rule: str,
) -> Logged:
    try:
        request = Request(principal, host, _OPERATIONS[operation], _RESOURCE_TYPES[resource_type], name)
        is_allowed = _RESULTS[result]
    except KeyError as error:
        raise DecodeError(f"`{error.args[0]}` is no result, operation or resource type") from None
    if ":" not in principal:
        raise DecodeError(f"`{principal}` is no principal")
    return Logged(request, is_allowed, rule, is_probe)


def event_line(logged: Logged, decisions: int, first_ms: int | None, last_ms: int | None) -> bytes:
    """Return a decision event with what `RequestLines` reads of it, and a line end; None: without a time."""
    (principal, host, operation, resource_type, name), is_allowed, rule, is_probe = logged
    event = {
        "specversion": "1.0",
        "type": EVENT_TYPE,
        "time": _time_text(first_ms),
        "data": {
            "result": "ALLOWED" if is_allowed else "DENIED",
            "principal": principal,
            "host": host,
            "operation": operation.name,
            "resource_type": resource_type.name,
            "resource_name": name,
            "resource_reference_count": 0 if is_probe else 1,
            "rule": rule,
            "count": decisions,
            "last_time": _time_text(last_ms),
        },
    }
    # Escapes to ASCII: a name may have half a surrogate pair.
    return json.dumps(event).encode("ascii") + b"\n"


def _time_text(at_ms: int | None) -> str | None:
    if at_ms is None:
        return None
    seconds, ms = divmod(at_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ms:03}Z"


class _Facts(msgspec.Struct, gc=False):
    """Keys of an audit line, and of a decision event's data. Values may have any type."""

    result: Any = None
    principal: Any = None
    host: Any = None
    operation: Any = None
    resource_type: Any = None
    resource_name: Any = None
    rule: Any = ""
    resource_reference_count: Any = 1
    count: Any = 1
    last_time: Any = None


class _Line(_Facts, gc=False):
    logger: Any = None
    timestamp: Any = None
    type: Any = None
    time: Any = None
    sampledrate: Any = None
    data: Any = None


_decode: Final = msgspec.json.Decoder(_Line).decode


def _of_json(line: bytes) -> RequestLine | None:
    try:
        found = _decode(line)
    except msgspec.DecodeError:
        try:  # only this decoder accepts a lone surrogate
            found = msgspec.convert(json.loads(line), _Line)
        except (ValueError, RecursionError) as error:
            raise DecodeError(f"not JSON: {error}") from error
    facts: _Facts = found
    at, last = found.timestamp, None
    if found.type == EVENT_TYPE:
        try:
            facts = msgspec.convert(found.data, _Facts)
        except msgspec.ValidationError as error:
            raise DecodeError(f"a decision event without its data: {error}") from error
        at, last = found.time, facts.last_time
    elif found.logger != AUDIT_LOGGER_NAME:
        if BEGIN.encode() in line:
            raise DecodeError("JSON, but neither an audit line nor a decision event of aclog's")
        return None
    texts = (
        *(facts.result, facts.principal, facts.host, facts.operation, facts.resource_type),
        facts.resource_name,
    )
    if not all(isinstance(text, str) for text in (*texts, facts.rule)) or type(facts.count) is not int:
        raise DecodeError("a key of the line is missing, or no text")
    # An audit line's rule names the ACL.
    rule = facts.rule.partition("(")[0]
    logged = _logged(*texts, facts.resource_reference_count == 0, rule)
    first_ms = _ms(at) if isinstance(at, str) else None
    last_ms = _ms(last) if isinstance(last, str) else None
    return RequestLine(
        logged, facts.count, first_ms, first_ms if last_ms is None else last_ms, bool(found.sampledrate)
    )


def _ms(text: str) -> int | None:
    """The first time in a text."""
    found = _TIME.search(text)
    if found is None:
        return None
    date, time, fraction, zone = found.groups()
    try:
        at = datetime.fromisoformat(f"{date}T{time}{zone or 'Z'}")
    except ValueError:
        return None
    return int(at.astimezone(UTC).timestamp()) * 1000 + int((fraction or "0")[:3].ljust(3, "0"))
