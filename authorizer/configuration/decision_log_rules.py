"""``aclog.decision.log.rules``: which decisions become events, and of how many one.

    drop principal=User:probe; keep result=DENIED; 1/100 resource_type=TOPIC resource_name=logs-*

The first rule whose conditions all hold decides: ``keep`` makes an event, ``drop`` none, ``1/N`` one for N
decisions on average. What no rule is about is kept. Conditions are an event's own fields (``FIELDS``); a
text that ends with ``*`` is a prefix; quotes as in a shell hold what has spaces or semicolons.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from authorizer.api.authorizer_api import HttpRequestContext
from authorizer.api.errors import ConfigError
from records.acl import AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext

#: What conditions may be about.
FIELDS: Final = ("principal", "caller", "operation", "resource_type", "resource_name", "result")
RULES_ALLOWED: Final = (
    "rules, separated by semicolons: `keep`, `drop` or `1/N`, then conditions FIELD=VALUE; the fields are "
    + ", ".join(FIELDS)
)

_ONE_IN: Final = re.compile(r"1/([1-9][0-9]{0,8})")
_ANY: Final = "*"
_RESULTS: Final = {"ALLOWED": True, "DENIED": False}

#: Of a rule, and of no rule: how many decisions an event stands for.
DROP: Final = 0
KEEP: Final = 1


@dataclass(frozen=True, slots=True)
class _Text:
    """A text, or the beginning of it."""

    text: str
    is_prefix: bool

    def fits(self, text: str) -> bool:
        return text.startswith(self.text) if self.is_prefix else text == self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; None: no condition.

    Attributes:
        one_in: DROP, KEEP, or of how many decisions one is an event.
    """

    one_in: int
    principal: _Text | None = None
    caller: _Text | None = None
    operation: AclOperation | None = None
    resource_type: ResourceType | None = None
    resource_name: _Text | None = None
    is_allowed: bool | None = None

    def fits(
        self, principal: str, context: AuthorizableRequestContext, action: Action, *, is_allowed: bool
    ) -> bool:
        """Whether all conditions hold; ``principal`` is the context's, as text."""
        pattern = action.resource_pattern
        return (
            (self.is_allowed is None or self.is_allowed is is_allowed)
            and (self.operation is None or self.operation is action.operation)
            and (self.resource_type is None or self.resource_type is pattern.resource_type)
            and (self.resource_name is None or self.resource_name.fits(pattern.name))
            and (self.principal is None or self.principal.fits(principal))
            and (self.caller is None or self.caller.fits(_caller(context)))
        )


def one_in(
    rules: Sequence[Rule],
    principal: str,
    context: AuthorizableRequestContext,
    action: Action,
    *,
    is_allowed: bool,
) -> int:
    """Of how many such decisions one is an event; DROP: none."""
    for rule in rules:
        if rule.fits(principal, context, action, is_allowed=is_allowed):
            return rule.one_in
    return KEEP


def parse_rules(text: str, *, key: str) -> tuple[Rule, ...]:
    """The rules of a text.

    Raises:
        ConfigError: naming the word that is wrong, and what it may be.
    """
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
    said: dict[str, _Text | AclOperation | ResourceType | bool] = {}
    for condition in conditions:
        field, equals, value = condition.partition("=")
        if field not in FIELDS or not equals or not value:
            allowed = f"a condition is FIELD=VALUE, and FIELD one of {', '.join(FIELDS)}"
            raise ConfigError(key, condition, allowed)
        name = "is_allowed" if field == "result" else field
        if name in said:
            raise ConfigError(key, condition, f"a second {field} in one rule: write two rules")
        said[name] = _value(field, value, key)
    return Rule(one_in=_one_in(action, key), **said)  # type: ignore[arg-type]  # each by its field


def _one_in(word: str, key: str) -> int:
    if word in ("keep", "drop"):
        return KEEP if word == "keep" else DROP
    found = _ONE_IN.fullmatch(word)
    if found is None:
        raise ConfigError(key, word, "a rule begins with `keep`, `drop` or `1/N`, such as 1/100")
    return int(found[1])


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
    """Who sent the question: over HTTP that is not whom it is about."""
    return str(context.caller if isinstance(context, HttpRequestContext) else context.principal)
