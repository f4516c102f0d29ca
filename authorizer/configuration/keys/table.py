"""Table of all configuration keys, in the order of docs/configuration.md."""

from __future__ import annotations

from typing import Final

from authorizer.configuration.keys.admin import AdminKeys
from authorizer.configuration.keys.kafka import KafkaKeys
from authorizer.configuration.keys.key import keys_of
from authorizer.configuration.keys.limits import LimitKeys
from authorizer.configuration.keys.node import NodeKeys
from authorizer.configuration.keys.sidecar import SidecarKeys


class ConfigKeys(KafkaKeys, SidecarKeys, AdminKeys, LimitKeys, NodeKeys):
    """All keys; ``load.Config`` has their values."""


KEYS: Final = tuple(
    key for group in (KafkaKeys, SidecarKeys, AdminKeys, LimitKeys, NodeKeys) for key in keys_of(group)
)
BY_NAME: Final = {key.name: key for key in KEYS}
BY_VARIABLE: Final = {key.variable: key for key in KEYS if key.environment}
