"""FindCoordinator, DescribeGroups and ConsumerGroupDescribe: the sender's operations on groups (KIP-430).

There are no groups here: each is answered as one that a broker does not know. This node is the coordinator of
all groups, because it answers these requests; of transactions and shares there is none.

Source: KafkaApis.handleFindCoordinatorRequest, handleDescribeGroupsRequest, handleConsumerGroupDescribe.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from authorizer.admin_server.api import Api
from authorizer.admin_server.handlers.cluster_node import ERROR_MESSAGES, NOT_REQUESTED
from records.acl import AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.admin_server.handlers.cluster_node import ClusterNode
    from authorizer.admin_server.request import AdminRequest
    from authorizer.admin_server.values_encoder import Values

_DESCRIBE_GROUPS: Final = 15
#: FindCoordinatorRequest.CoordinatorType
_GROUP: Final = 0
_TRANSACTION: Final = 1
#: From this version on FindCoordinator has several keys.
_WITH_KEYS: Final = 4
#: From this version on an unknown group is an error (KIP-1043).
_UNKNOWN_IS_ERROR: Final = 6
_DENIED: Final = {
    _GROUP: ErrorCode.group_authorization_failed,
    _TRANSACTION: ErrorCode.transactional_id_authorization_failed,
}


class GroupHandlers:
    """Answers for one node; ``apis``: of the three requests."""

    def __init__(self, cluster: ClusterNode) -> None:
        self._cluster = cluster
        self.apis = [
            Api(
                key=10,
                schema="find_coordinator",
                versions=range(7),
                answer=self.find_coordinator,
                error=_coordinator_error,
            ),
            Api(
                key=_DESCRIBE_GROUPS,
                schema="describe_groups",
                versions=range(7),
                answer=self.describe,
                error=lambda body, code, _message: _groups_error(body.groups, code),
            ),
            Api(
                key=69,
                schema="consumer_group_describe",
                versions=range(2),
                answer=self.describe_consumer_groups,
                error=lambda body, code, _message: _groups_error(body.group_ids, code),
            ),
        ]

    async def find_coordinator(self, request: AdminRequest) -> Values:
        body = request.body
        kind = getattr(body, "key_type", _GROUP)
        if request.header.api_version >= _WITH_KEYS:
            keys = body.coordinator_keys
            return {"coordinators": self._coordinators(request, kind, keys)}
        (found,) = self._coordinators(request, kind, [body.key])
        code = found["error_code"]
        return {**found, "error_message": ERROR_MESSAGES[code]}

    def _coordinators(self, request: AdminRequest, kind: int, keys: Sequence[str]) -> list[Values]:
        if kind not in _DENIED:
            return [_no_coordinator(key, ErrorCode.invalid_request) for key in keys]
        resource_type = ResourceType.GROUP if kind == _GROUP else ResourceType.TRANSACTIONAL_ID
        found: list[Values] = []
        allowed = self._cluster.allows(request, AclOperation.DESCRIBE, resource_type, keys)
        for key, is_allowed in zip(keys, allowed, strict=True):
            if not is_allowed:
                found.append({**_no_coordinator(key, _DENIED[kind]), "error_message": ""})
            elif kind == _TRANSACTION:
                found.append(_no_coordinator(key, ErrorCode.coordinator_not_available))
            else:
                node = self._cluster.broker(request)
                found.append({"key": key, "error_code": ErrorCode.none, "error_message": "", **node})
        return found

    async def describe(self, request: AdminRequest) -> Values:
        is_error = request.header.api_version >= _UNKNOWN_IS_ERROR
        return {
            "groups": [
                self._group(request, group, allowed=allowed, is_error=is_error)
                for group, allowed in self._allowed(request, request.body.groups)
            ]
        }

    async def describe_consumer_groups(self, request: AdminRequest) -> Values:
        return {
            "groups": [
                self._group(request, group, allowed=allowed, is_error=True)
                if group
                else _group(group, ErrorCode.invalid_group_id)
                for group, allowed in self._allowed(request, request.body.group_ids)
            ]
        }

    def _allowed(self, request: AdminRequest, groups: Sequence[str]) -> list[tuple[str, bool]]:
        allowed = self._cluster.allows(request, AclOperation.DESCRIBE, ResourceType.GROUP, groups)
        # As brokers do: those that are denied come first.
        return sorted(zip(groups, allowed, strict=True), key=itemgetter(1))

    def _group(self, request: AdminRequest, group: str, *, allowed: bool, is_error: bool) -> Values:
        if not allowed:
            return _group(group, ErrorCode.group_authorization_failed)
        if is_error:
            # As a broker: without operations.
            state = "Dead" if request.header.api_key == _DESCRIBE_GROUPS else ""
            return _group(group, ErrorCode.group_id_not_found, f"Group {group} not found.", state=state)
        operations = NOT_REQUESTED
        if getattr(request.body, "include_authorized_operations", False):
            operations = self._cluster.operations(request, ResourceType.GROUP, group)
        return _group(group, ErrorCode.none, state="Dead", operations=operations)


def _group(
    group: str,
    code: ErrorCode,
    message: str | None = None,
    *,
    state: str = "",
    operations: int = NOT_REQUESTED,
) -> Values:
    return {
        "error_code": code,
        "error_message": message,
        "group_id": group,
        "group_state": state,
        "protocol_type": "",
        "protocol_data": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
        "authorized_operations": operations,
    }


def _groups_error(groups: Sequence[str], code: ErrorCode) -> Values:
    return {"groups": [_group(group, code) for group in groups]}


def _no_coordinator(key: str, code: ErrorCode) -> Values:
    message = ERROR_MESSAGES.get(code, "")
    return {"key": key, "error_code": code, "error_message": message, "node_id": -1, "host": "", "port": -1}


def _coordinator_error(body: Any, code: ErrorCode, _message: str | None) -> Values:
    keys = getattr(body, "coordinator_keys", None)
    if keys is not None:
        return {"coordinators": [_no_coordinator(key, code) for key in keys]}
    return _no_coordinator("", code)
