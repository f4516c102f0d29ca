r"""``ssl.principal.mapping.rules``: from the name in a certificate to the name of a principal, as Kafka does.

Source: org.apache.kafka.common.security.ssl.SslPrincipalMapper. Rules are ``DEFAULT``, the name as it is, or
``RULE:pattern/replacement/`` with L or U behind it for lower or upper case; ``\/`` is a slash in one. The
first that matches the whole name counts. Patterns are Java's regular expressions, matched in linear time
(``records.java_pattern``): a client chooses the name in its certificate, and must not choose how long that
takes. What no linear engine can express is an error at the start, as is a replacement with a group that the
pattern does not have. A name whose mapping Java's version decides, or that is longer than 4,096 characters,
is mapped to nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from authorizer.api.errors import ConfigError
from records.java_pattern import JavaPattern

RULES_ALLOWED: Final = (
    "DEFAULT, or RULE:pattern/replacement/ with L or U behind it, separated by commas, such as "
    "RULE:^CN=([^,]+),.*$/$1/L,DEFAULT; a pattern has no lookaheads, lookbehinds and backreferences; a slash "
    "in a pattern is `\\/` (`\\\\/` in a properties file)"
)

_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)", re.ASCII)
_PARSER: Final = re.compile(_RULE)
_REPLACEMENT: Final = re.compile(
    r"\\(?P<literal>.)|\$(?P<number>\d+)|\$\{(?P<name>\w+)\}|(?P<bad>[$\\])", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class PrincipalRule:
    """One rule.

    Attributes:
        pattern: None for DEFAULT.
        replacement: texts, and numbers of groups.
        case: L, U or neither.
    """

    pattern: JavaPattern | None = None
    replacement: tuple[str | int, ...] = ()
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The principal's name; None if this rule is not about ``name``."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # Kafka replaces every match there is, not the whole that matched.
        mapped = self.pattern.replace_all(name, self._replaced)
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped

    def _replaced(self, match: re.Match[str]) -> str:  # RE2's match, which is alike
        return "".join(
            part if isinstance(part, str) else (match.group(part) or "") for part in self.replacement
        )


def parse_principal_rules(text: str, *, key: str) -> tuple[PrincipalRule, ...]:
    """The rules in order.

    Raises:
        ConfigError: not a rule, or a pattern or a replacement that cannot be.
    """
    rules: list[PrincipalRule] = []
    for found in _SPLITTER.finditer(text.strip()):
        parsed = _PARSER.match(found[1])
        if parsed is None or parsed.end() != len(found[1]):
            raise ConfigError(key, text, f"{RULES_ALLOWED}; `{found[1]}` is none")
        if parsed[1] is not None:
            rules.append(PrincipalRule())
        elif parsed[2] is not None:
            try:
                pattern = JavaPattern.compile(parsed[2])
                rules.append(PrincipalRule(pattern, _parts(parsed[4], pattern), parsed[6]))
            except ValueError as error:
                raise ConfigError(key, text, f"{RULES_ALLOWED}; in `{found[1]}`: {error}") from error
    return tuple(rules)


def mapped_name(rules: tuple[PrincipalRule, ...], name: str) -> str | None:
    """What the first rule that is about ``name`` makes of it; None if none is, or that cannot be known."""
    for rule in rules:
        if rule.pattern is not None and not rule.pattern.covers(name):
            return None  # a later rule might make another principal of it than a broker does
        mapped = rule.apply(name)
        if mapped is not None:
            return mapped
    return None


def _parts(replacement: str, pattern: JavaPattern) -> tuple[str | int, ...]:
    """As java.util.regex.Matcher reads it, but that a group that is not there is its own text (Kafka)."""
    parts: list[str | int] = []
    at = 0
    for found in _REPLACEMENT.finditer(replacement):
        parts.append(replacement[at : found.start()])
        at = found.end()
        if found["literal"] is not None:
            parts.append(found["literal"])
        elif found["name"] is not None and found["name"] in pattern.group_numbers:
            parts.append(pattern.group_numbers[found["name"]])
        elif found["number"] is not None:
            parts.extend(_reference(found["number"], pattern.groups))
        else:
            raise ValueError(f"the pattern has no group for `{found[0]}` in the replacement")
    return (*parts, replacement[at:])


def _reference(digits: str, groups: int) -> tuple[str | int, ...]:
    """The longest number that is a group's; the digits behind it are text."""
    length = 1
    while length < len(digits) and int(digits[: length + 1]) <= groups:
        length += 1
    if int(digits[:length]) <= groups:
        return int(digits[:length]), digits[length:]
    if groups == 0:
        raise ValueError(f"the pattern has no group for `${digits}` in the replacement")
    return (f"${digits}",)
