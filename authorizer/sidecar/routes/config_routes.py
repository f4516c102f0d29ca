"""``/v1/config``: the settings of a running node, shown and changed as a broker's are (KIP-226).

The rules:

- Kafka's ACLs guard it: DescribeConfigs on the cluster to see them, AlterConfigs on it to change them. Keys
  that give callers rights without an ACL take Alter on the cluster as well, as ACLs do.
- What is put is taken by this node while it runs, and written nowhere (``reconfiguration``).
- Values of secret keys are never shown.
- Of a fleet's cluster only what may be its own: no cluster's ACLs guard what is the process's.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from authorizer.api.errors import ConfigError, RestartNeededError
from authorizer.api.http.answers.node import Setting, SettingChange, SettingChanges, Settings
from authorizer.api.http.error_code import ErrorCode
from authorizer.api.principal_lists import ALLOW_EVERYONE_CONFIG, SUPER_USERS_CONFIG
from authorizer.api.secret_keys import is_secret
from authorizer.configuration.keys.names import DESCRIBE_PRINCIPALS
from authorizer.configuration.keys.table import BY_NAME
from authorizer.node.reconfiguration import shown_text
from authorizer.sidecar.auth.caller_authorization import Caller
from authorizer.sidecar.http.errors import HttpError
from authorizer.sidecar.http.request_decoding import decode_body
from authorizer.sidecar.http.request_response import json_response, origin_of, read_body, require_no_browser
from authorizer.sidecar.routes.endpoint import GUARD_ERRORS, declare_endpoint
from authorizer.sidecar.routes.request_state import ready_state
from records.acl import AclOperation

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from authorizer.node.node import Node
    from authorizer.sidecar.routes.node_routes import NodePeers

CONFIG_PATH: Final = "/v1/config"

#: By them callers get rights.
_RIGHTS_KEYS: Final = frozenset({SUPER_USERS_CONFIG, ALLOW_EVERYONE_CONFIG, DESCRIBE_PRINCIPALS})


class ConfigChange(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a PUT.

    Attributes:
        configs: texts by key, as in a file; null undoes the earlier PUT of a key.
        validate_only: return what would change, and change nothing.
    """

    configs: dict[str, str | None]
    validate_only: bool = False


class ConfigRoutes:
    """The handlers of one node."""

    def __init__(self, node: Node, peers: NodePeers | None = None) -> None:
        """``peers``: the other workers, which get the same settings."""
        self._node = node
        self._put = node.reconfiguration.put if peers is None else peers.put

    @declare_endpoint(
        "GET",
        CONFIG_PATH,
        "Show the current settings; values of secrets are hidden",
        Settings,
        errors=GUARD_ERRORS,
    )
    async def describe(self, request: Request) -> Response:
        caller = self._caller(request, "DescribeConfigs")
        caller.require_on_cluster(AclOperation.DESCRIBE_CONFIGS)
        config = self._node.config
        configs = [
            Setting(
                key.name,
                shown_text(key.name, config),
                config.sources.get(key.name, "default"),
                key.is_dynamic,
                is_secret(key.name),
            )
            for key in BY_NAME.values()
            if config.cluster is None or key.is_per_cluster
        ]
        return json_response(Settings(configs))

    @declare_endpoint(
        "PUT",
        CONFIG_PATH,
        "Change settings of the running node, all of them or none",
        SettingChanges,
        description="The changes; they are not written to the file, and last until it is read again or the "
        "process ends",
        request=ConfigChange,
        example={"configs": {"aclog.max.lag.ms": "60000"}, "validate_only": True},
        errors=(*GUARD_ERRORS, ErrorCode.INVALID_CONFIG),
    )
    async def change(self, request: Request) -> Response:
        require_no_browser(request)
        caller = self._caller(request, "AlterConfigs")
        caller.require_on_cluster(AclOperation.ALTER_CONFIGS)
        change = decode_body(await read_body(request), ConfigChange, CONFIG_PATH)
        if not _RIGHTS_KEYS.isdisjoint(change.configs):
            caller.require_on_cluster(AclOperation.ALTER)
        context = caller.context
        by = f"{context.caller} at {context.caller_address} on listener {context.listener_name}"
        try:
            # It reads the file.
            changes = await asyncio.to_thread(self._put, change.configs, by, is_trial=change.validate_only)
        except (ConfigError, RestartNeededError) as error:
            raise HttpError(ErrorCode.INVALID_CONFIG, str(error)) from error
        return json_response(SettingChanges([SettingChange(*change) for change in changes], persisted=False))

    def _caller(self, request: Request, name: str) -> Caller:
        return Caller(self._node, ready_state(self._node), origin_of(request), name)
