r"""``ssl.principal.mapping.rules``: map the name in a certificate to the name of a principal, as Kafka does.

Source: org.apache.kafka.common.security.ssl.SslPrincipalMapper. Rules are ``DEFAULT``, the name as it is, or
``RULE:pattern/replacement/``, followed by L or U for lower or upper case; ``\/`` is a slash in one. The first
rule that matches the complete name applies. Patterns are Java's regular expressions, matched in linear time
(``records.java_pattern``), because a client chooses the name in its certificate. A pattern that no linear
engine can express is an error at the start, and so is a replacement with a group that the pattern does not
have. A name longer than 4,096 characters, or whose mapping depends on Java's version, has no mapping.
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
        """Return the principal's name; None if this rule does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # Kafka replaces every match in the name, not only the complete one.
        mapped = self.pattern.replace_all(name, self._replaced)
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped

    def _replaced(self, match: re.Match[str]) -> str:  # RE2's match has the same methods
        return "".join(
            part if isinstance(part, str) else (match.group(part) or "") for part in self.replacement
        )


def parse_principal_rules(text: str, *, key: str) -> tuple[PrincipalRule, ...]:
    """Parse rules, in order. Raises ConfigError: an invalid rule, pattern or replacement."""
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
    """Return the result of the first matching rule; None if none matches or the result is uncertain."""
    for rule in rules:
        if rule.pattern is not None and not rule.pattern.covers(name):
            return None  # a later rule might give another principal than on a broker
        mapped = rule.apply(name)
        if mapped is not None:
            return mapped
    return None


def _parts(replacement: str, pattern: JavaPattern) -> tuple[str | int, ...]:
    """Parse a replacement as java.util.regex.Matcher, but a missing group is literal text (Kafka)."""
    parts: list[str | int] = []
    end = 0
    for found in _REPLACEMENT.finditer(replacement):
        parts.append(replacement[end : found.start()])
        end = found.end()
        if found["literal"] is not None:
            parts.append(found["literal"])
        elif found["name"] is not None and found["name"] in pattern.group_numbers:
            parts.append(pattern.group_numbers[found["name"]])
        elif found["number"] is not None:
            parts.extend(_reference(found["number"], pattern.groups))
        else:
            raise ValueError(f"the pattern has no group for `{found[0]}` in the replacement")
    return (*parts, replacement[end:])


def _reference(digits: str, groups: int) -> tuple[str | int, ...]:
    """Return the longest number that is a group's; further digits are text."""
    length = 1
    while length < len(digits) and int(digits[: length + 1]) <= groups:
        length += 1
    if int(digits[:length]) <= groups:
        return int(digits[:length]), digits[length:]
    if groups == 0:
        raise ValueError(f"the pattern has no group for `${digits}` in the replacement")
    return (f"${digits}",)
