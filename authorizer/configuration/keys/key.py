"""ConfigKey: one configuration key and, as a class attribute, its typed value in a Config.

A key's environment variable is ``ACLOG_`` and its name in capitals, dots as underscores, without a leading
``aclog.``: ``ACLOG_LOG_URL`` sets ``aclog.log.url``, ``ACLOG_SUPER_USERS`` sets ``super.users``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Self, TypeVar, cast, overload

from authorizer.api.errors import ConfigError

_T = TypeVar("_T")

ACLOG_PREFIX: Final = "aclog."
ENVIRONMENT_PREFIX: Final = "ACLOG_"
#: Settings for the Kafka client, passed through as they are.
CLIENT_PREFIX: Final = "aclog.kafka."
#: The same for the producer of decision events.
DECISION_CLIENT_PREFIX: Final = "aclog.decision.log.kafka."
#: Keys below these are a client's.
CLIENT_PREFIXES: Final = (CLIENT_PREFIX, DECISION_CLIENT_PREFIX)

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class ConfigKey(Generic[_T]):
    """The single definition of a key, for reading, validation and docs/configuration.md.

    Attributes:
        type_name: for people: ``string``, ``list``, ``int``, ...
        default: as text of a file; None means unset.
        allowed: for people and for ConfigError.
        parse: converts the text to the value; raises ValueError if it is not allowed.
        environment: whether a variable sets it: ``listeners`` leaves its variable to ``aclog.listeners``.
        is_dynamic: whether a running node accepts a new value (``reconfiguration``).
        is_per_cluster: whether each cluster of a fleet may have a different value (``clusters``).
    """

    name: str
    type_name: str
    default: str | None
    allowed: str
    doc: str
    parse: Callable[[str], _T]
    environment: bool = True
    is_dynamic: bool = False
    is_per_cluster: bool = False
    attribute: str = field(default="", init=False)

    @overload
    def __get__(self, config: None, group: type) -> Self: ...
    @overload
    def __get__(self, config: KeyGroup, group: type) -> _T: ...
    def __get__(self, config: KeyGroup | None, group: type) -> Self | _T:
        # For type checkers: at run time a group has no attributes for its keys.
        raise NotImplementedError

    @property
    def variable(self) -> str:
        return variable_of(self.name)

    def read(self, text: str | None) -> _T:
        """Return the value of ``text``, or of the default if it is None; ConfigError: not allowed."""
        text = self.default if text is None else text
        if text is None:
            return cast("_T", None)  # only an OptionalKey has no default
        try:
            return self.parse(text)
        except ValueError as error:
            raise ConfigError(self.name, text, self.allowed) from error


@dataclass(frozen=True, kw_only=True)
class OptionalKey(ConfigKey[_T | None]):
    """A key without a default: its value is None if it is unset."""

    default: str | None = field(default=None, init=False)


class _KeyGroupType(type):
    """Takes the keys out of a group's attributes, and finds them again when the class is asked for one.

    A class attribute would slow down each read of a value: the interpreter caches only attributes that the
    class does not have.
    """

    keys: dict[str, ConfigKey[Any]]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _KeyGroupType:
        keys = {attribute: key for attribute, key in namespace.items() if isinstance(key, ConfigKey)}
        attributes = {attribute: value for attribute, value in namespace.items() if attribute not in keys}
        group = super().__new__(mcs, name, bases, attributes)
        group.keys = keys
        for attribute, key in keys.items():
            object.__setattr__(key, "attribute", attribute)
        return group

    def __getattr__(cls, attribute: str) -> ConfigKey[Any]:
        for group in cls.__mro__:
            if isinstance(group, _KeyGroupType) and attribute in group.keys:
                return group.keys[attribute]
        raise AttributeError(attribute)


class KeyGroup(metaclass=_KeyGroupType):
    """Base class of groups of keys: ``Config.log_mode`` is the key, ``config.log_mode`` its value."""


def keys_of(group: type[KeyGroup]) -> tuple[ConfigKey[Any], ...]:
    """Return the keys of a group, in the order of their declaration."""
    return tuple(group.keys.values())


def integer_key(
    name: str,
    default: int,
    doc: str,
    *,
    minimum: int,
    maximum: int = _INT64_MAX,
    unit: str = "",
    is_dynamic: bool = False,
    is_per_cluster: bool = False,
) -> ConfigKey[int]:
    """Return the key of a whole number of ``unit`` in a range."""

    def parse(text: str) -> int:
        value = int(text.strip())
        if not minimum <= value <= maximum:
            raise ValueError(text)
        return value

    allowed_range = f"{minimum} or more" if maximum >= _INT32_MAX else f"{minimum} to {maximum}"
    return ConfigKey(
        name=name,
        type_name="long" if unit else "int",
        default=str(default),
        allowed=f"a whole number{unit and f' of {unit}'}, {allowed_range}",
        doc=doc,
        parse=parse,
        is_dynamic=is_dynamic,
        is_per_cluster=is_per_cluster,
    )


def choice_key(
    name: str,
    choices: Sequence[str],
    default: str,
    doc: str,
    *,
    is_dynamic: bool = False,
    is_per_cluster: bool = False,
) -> ConfigKey[str]:
    """Return the key of one of ``choices``, in any case."""
    return ConfigKey(
        name=name,
        type_name="string",
        default=default,
        allowed=f"one of {', '.join(choices)}",
        doc=doc,
        parse=_choice(choices),
        is_dynamic=is_dynamic,
        is_per_cluster=is_per_cluster,
    )


def boolean_key(name: str, doc: str, *, allowed: str = "true or false") -> ConfigKey[bool]:
    """Return the key of ``true`` or ``false``, in any case; the default is ``false``."""
    choice = _choice(("true", "false"))
    return ConfigKey(
        name=name,
        type_name="boolean",
        default="false",
        allowed=allowed,
        doc=doc,
        parse=lambda text: choice(text) == "true",
    )


def list_key(
    name: str,
    allowed: str,
    doc: str,
    parse: Callable[[str], _T],
    *,
    default: str = "",
    is_dynamic: bool = False,
    is_per_cluster: bool = False,
) -> ConfigKey[_T]:
    """Return the key of several values in one text."""
    return ConfigKey(
        name=name,
        type_name="list",
        default=default,
        allowed=allowed,
        doc=doc,
        parse=parse,
        is_dynamic=is_dynamic,
        is_per_cluster=is_per_cluster,
    )


def text_key(
    name: str,
    allowed: str,
    doc: str,
    *,
    type_name: str = "string",
    is_per_cluster: bool = False,
) -> OptionalKey[str]:
    """Return an optional key of any text; a blank text is None."""
    return OptionalKey(
        name=name,
        type_name=type_name,
        allowed=allowed,
        doc=doc,
        parse=lambda text: text.strip() or None,
        is_per_cluster=is_per_cluster,
    )


def variable_of(name: str) -> str:
    """Return the environment variable of a key, or the beginning of those below a prefix."""
    return ENVIRONMENT_PREFIX + name.removeprefix(ACLOG_PREFIX).upper().replace(".", "_").replace("-", "_")


def _choice(choices: Sequence[str]) -> Callable[[str], str]:
    by_lower = {choice.lower(): choice for choice in choices}

    def parse(text: str) -> str:
        try:
            return by_lower[text.strip().lower()]
        except KeyError:
            raise ValueError(text) from None

    return parse
