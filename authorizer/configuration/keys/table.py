"""Every configuration key in one table: name, type, default, what is allowed, what it is for.

``load.py`` reads values by it, ``reference.py`` writes docs/configuration.md from it.
"""

from __future__ import annotations

from typing import Final

from authorizer.configuration.keys.kafka import KAFKA_KEYS
from authorizer.configuration.keys.limits import LIMIT_KEYS
from authorizer.configuration.keys.node import NODE_KEYS
from authorizer.configuration.keys.sidecar import SIDECAR_KEYS

KEYS: Final = (*KAFKA_KEYS, *SIDECAR_KEYS, *LIMIT_KEYS, *NODE_KEYS)
BY_NAME: Final = {key.name: key for key in KEYS}
BY_VARIABLE: Final = {key.variable: key for key in KEYS if key.environment}
