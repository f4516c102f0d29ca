"""Settings of the decision log: destinations and rules (``aclog.decision.log``, ``...rules``).

    drop principal=User:probe; keep result=DENIED; 1/100 resource_type=TOPIC resource_name=logs-*

The first rule whose conditions all hold decides: ``keep`` makes an event, ``drop`` none, ``1/N`` one for N
decisions on average. A decision that no rule matches becomes an event. Conditions are fields of the event
(``FIELDS``); a text that ends with ``*`` is a prefix; a text with spaces or semicolons needs quotes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from authorizer.api.authorizer_api import Action, AuthorizableRequestContext, HttpRequestContext
from authorizer.api.errors import ConfigError
from records.acl import AclOperation, ResourceType
from records.topic_name import is_topic_name

DESTINATIONS_ALLOWED: Final = (
    "`stdout`, `file:PATH`, `kafka:TOPIC` on the log's own cluster, "
    "`kafka://HOST:PORT[,HOST:PORT...]/TOPIC`, separated by semicolons"
)


class DestinationKind(Enum):
    """Kind of destination of events."""

    STDOUT = "stdout"
    FILE = "file"
    TOPIC = "kafka"


@dataclass(frozen=True, slots=True)
class DestinationSettings:
    """One destination of events; ``location``: a file's path; a topic's name or URL; empty for stdout."""

    kind: DestinationKind
    location: str
    text: str


def parse_destinations(text: str) -> tuple[DestinationSettings, ...]:
    """Parse destinations, separated by semicolons. Raises ValueError for an unknown or repeated one."""
    destinations = tuple(_destination(part) for part in filter(None, map(str.strip, text.split(";"))))
    if len({(each.kind, each.location) for each in destinations}) < len(destinations):
        raise ValueError(text)
    return destinations


def _destination(text: str) -> DestinationSettings:
    kind, colon, location = text.partition(":")
    match kind, colon, location:
        case "stdout", "", "":
            return DestinationSettings(DestinationKind.STDOUT, "", text)
        case "file", ":", path if path:
            return DestinationSettings(DestinationKind.FILE, str(Path(path)), text)
        case "kafka", ":", url if url.startswith("//") and url.rpartition("/")[2]:
            return DestinationSettings(DestinationKind.TOPIC, text, text)
        case "kafka", ":", topic if is_topic_name(topic):
            return DestinationSettings(DestinationKind.TOPIC, topic, text)
    raise ValueError(text)


#: Fields of conditions.
FIELDS: Final = ("principal", "caller", "operation", "resource_type", "resource_name", "result")
RULES_ALLOWED: Final = (
    "rules, separated by semicolons: `keep`, `drop` or `1/N`, then conditions FIELD=VALUE; the fields are "
    + ", ".join(FIELDS)
)

_SAMPLE: Final = re.compile(r"1/([1-9][0-9]{0,8})")
_ANY: Final = "*"
_RESULTS: Final = {"ALLOWED": True, "DENIED": False}

#: Sampling intervals: how many decisions an event represents.
DROP: Final = 0
KEEP: Final = 1


@dataclass(frozen=True, slots=True)
class _Text:
    """A text or a prefix."""

    text: str
    is_prefix: bool

    def matches(self, text: str) -> bool:
        return text.startswith(self.text) if self.is_prefix else text == self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; None: no condition. ``interval``: DROP, KEEP or N, for one event in N decisions."""

    interval: int
    principal: _Text | None = None
    caller: _Text | None = None
    operation: AclOperation | None = None
    resource_type: ResourceType | None = None
    resource_name: _Text | None = None
    is_allowed: bool | None = None

    def matches(
        self, principal: str, context: AuthorizableRequestContext, action: Action, *, is_allowed: bool
    ) -> bool:
        """Whether all conditions hold; ``principal`` is the context's principal as text."""
        pattern = action.resource_pattern
        return (
            (self.is_allowed is None or self.is_allowed is is_allowed)
            and (self.operation is None or self.operation is action.operation)
            and (self.resource_type is None or self.resource_type is pattern.resource_type)
            and (self.resource_name is None or self.resource_name.matches(pattern.name))
            and (self.principal is None or self.principal.matches(principal))
            and (self.caller is None or self.caller.matches(_caller(context)))
        )


def sampling_interval(
    rules: Sequence[Rule],
    principal: str,
    context: AuthorizableRequestContext,
    action: Action,
    *,
    is_allowed: bool,
) -> int:
    """Return N, for one event in N such decisions; DROP: none."""
    for rule in rules:
        if rule.matches(principal, context, action, is_allowed=is_allowed):
            return rule.interval
    return KEEP


def parse_rules(text: str, *, key: str) -> tuple[Rule, ...]:
    """Parse rules, separated by semicolons. A ConfigError names the invalid word, and what is allowed."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise ConfigError(key, text, f"{RULES_ALLOWED}; {str(error).lower()}") from error
    rules: list[list[str]] = [[]]
    for word in words:
        if word.strip(";"):
            rules[-1].append(word)
        else:
            rules.append([])
    return tuple(_rule(rule, key) for rule in rules if rule)


def _rule(words: Sequence[str], key: str) -> Rule:
    action, *conditions = words
    values: dict[str, _Text | AclOperation | ResourceType | bool] = {}
    for condition in conditions:
        field, equals, value = condition.partition("=")
        if field not in FIELDS or not equals or not value:
            allowed = f"a condition is FIELD=VALUE, and FIELD one of {', '.join(FIELDS)}"
            raise ConfigError(key, condition, allowed)
        name = "is_allowed" if field == "result" else field
        if name in values:
            raise ConfigError(key, condition, f"a second {field} in one rule: write two rules")
        values[name] = _value(field, value, key)
    return Rule(interval=_interval(action, key), **values)  # type: ignore[arg-type]  # each by its field


def _interval(word: str, key: str) -> int:
    if word in ("keep", "drop"):
        return KEEP if word == "keep" else DROP
    matched = _SAMPLE.fullmatch(word)
    if matched is None:
        raise ConfigError(key, word, "a rule begins with `keep`, `drop` or `1/N`, such as 1/100")
    return int(matched[1])


def _value(field: str, value: str, key: str) -> _Text | AclOperation | ResourceType | bool:
    match field:
        case "result":
            if value.upper() not in _RESULTS:
                raise ConfigError(key, f"{field}={value}", "ALLOWED or DENIED")
            return _RESULTS[value.upper()]
        case "operation" | "resource_type":
            kind = AclOperation if field == "operation" else ResourceType
            code = kind.from_name(value)
            if code <= kind.ANY:
                known = ", ".join(member.name for member in kind if member > kind.ANY)
                raise ConfigError(key, f"{field}={value}", f"one of {known}")
            return code
        case _:
            return _Text(value.removesuffix(_ANY), value.endswith(_ANY))


def _caller(context: AuthorizableRequestContext) -> str:
    """Return the sender of the request; over HTTP it may differ from the principal."""
    return str(context.caller if isinstance(context, HttpRequestContext) else context.principal)
