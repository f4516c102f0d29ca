"""Keys of a file that are probably mistyped, and values that Kafka reads in an unexpected way.

Unknown keys are ignored, because a broker's own file has hundreds. So a mistyped ``super.users`` would switch
it off silently. No key of Kafka 4.4 is as similar to one of ``_CHECKED`` as a mistyped one.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from authorizer.api.errors import ConfigError
from authorizer.api.principal_lists import ALLOW_EVERYONE_CONFIG, SUPER_USERS_CONFIG, parse_allow_everyone
from authorizer.configuration.broker_file import is_broker_file
from authorizer.configuration.keys.key import ACLOG_PREFIX
from authorizer.configuration.keys.names import EARLY_START_LISTENERS, SSL_CLIENT_AUTH, SSL_PRINCIPAL_RULES
from authorizer.configuration.keys.table import BY_NAME

#: Keys that change decisions or callers.
_CHECKED: Final = (
    SUPER_USERS_CONFIG,
    ALLOW_EVERYONE_CONFIG,
    EARLY_START_LISTENERS,
    SSL_CLIENT_AUTH,
    SSL_PRINCIPAL_RULES,
)
#: A less similar name is another key.
SIMILARITY_MIN: Final = 0.85


def refuse_mistyped_keys(properties: Mapping[str, str]) -> None:
    """Raise ConfigError for a key that is almost one of Kafka's, in a file that is not a broker's."""
    if not is_broker_file(properties):
        for name, meant in _mistyped(properties).items():
            raise ConfigError(name, properties[name], f"there is no such key; did you mean `{meant}`?")


def file_notes(properties: Mapping[str, str]) -> dict[str, str]:
    """Return notes by the key that each is about; the key "" stands for the file."""
    if properties and not any(_is_known(name) for name in properties) and not is_broker_file(properties):
        return {"": "none of its keys is a setting of aclog or of a broker"}
    notes = {
        name: f"the broker ignores the key `{name}`; did you mean `{meant}`?"
        for name, meant in _mistyped(properties).items()
    }
    everyone = properties.get(ALLOW_EVERYONE_CONFIG, "false").strip()
    if everyone.lower() != "false" and not parse_allow_everyone(everyone):
        notes[ALLOW_EVERYONE_CONFIG] = (
            f"{ALLOW_EVERYONE_CONFIG}={everyone} is false, as in Kafka: only `true` is true"
        )
    return notes


def _mistyped(properties: Mapping[str, str]) -> dict[str, str]:
    """The key that is meant, by the mistyped one."""
    found = {}
    for name in properties:
        if name in BY_NAME or name.startswith(ACLOG_PREFIX):
            continue
        meant = [known for known in _CHECKED if "." in name and known.startswith(f"{name}.")]
        meant += difflib.get_close_matches(name.lower(), _CHECKED, n=1, cutoff=SIMILARITY_MIN)
        if meant:
            found[name] = meant[0]
    return found


def _is_known(name: str) -> bool:
    return name in BY_NAME or name.startswith(ACLOG_PREFIX)
