"""ConfigKey: what is known of one configuration key.

A key's environment variable is ``ACLOG_`` and its name in capitals, dots as underscores, without a leading
``aclog.``: ``ACLOG_LOG_URL`` sets ``aclog.log.url``, ``ACLOG_SUPER_USERS`` sets ``super.users``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from authorizer.api.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

ACLOG_PREFIX: Final = "aclog."
ENVIRONMENT_PREFIX: Final = "ACLOG_"
#: Settings for the Kafka client, passed through as they are.
CLIENT_PREFIX: Final = "aclog.kafka."
#: The same for the producer of decision events.
DECISION_CLIENT_PREFIX: Final = "aclog.decision.log.kafka."
#: Keys below these are a client's.
CLIENT_PREFIXES: Final = (CLIENT_PREFIX, DECISION_CLIENT_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One key.

    Attributes:
        name: in the file.
        type: for people: ``string``, ``list``, ``int``, ...
        default: as it would be written in a file; None means unset.
        allowed: for people and for ConfigError.
        doc: what it is for, in full sentences.
        parse: text to value; ValueError means not allowed.
        environment: whether a variable sets it: ``listeners`` leaves its variable to ``aclog.listeners``.
        dynamic: whether a running node takes a new value (``reconfiguration``).
        of_cluster: whether each cluster of a fleet may have its own (``configuration.clusters``).
    """

    name: str
    type: str
    default: str | None
    allowed: str
    doc: str
    parse: Callable[[str], Any] = str
    environment: bool = True
    dynamic: bool = False
    of_cluster: bool = False

    @property
    def field(self) -> str:
        """The attribute of Config that has its value, if there is one."""
        return self.name.removeprefix(ACLOG_PREFIX).replace(".", "_")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return variable_of(self.name)

    def read(self, text: str | None) -> Any:
        """The value of ``text``, or of the default if there is none.

        Raises:
            ConfigError: with the key, the text and what is allowed.
        """
        text = self.default if text is None else text
        if text is None:
            return None
        try:
            return self.parse(text)
        except ValueError as error:
            raise ConfigError(self.name, text, self.allowed) from error


def variable_of(name: str) -> str:
    """The environment variable of a key, or the beginning of those below a prefix."""
    return ENVIRONMENT_PREFIX + name.removeprefix(ACLOG_PREFIX).upper().replace(".", "_").replace("-", "_")
