"""DescribeConfigs, ListTransactions and DescribeUserScramCredentials: what tools ask for when they start.

There are no configurations and no transactions here: those that the sender may see are answered as empty.
Source: ConfigHelper.handleDescribeConfigsRequest, KafkaApis.handleListTransactionsRequest and
handleDescribeUserScramCredentialsRequest.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from authorizer.admin_server.api import Api
from authorizer.admin_server.handlers.cluster_node import ERROR_MESSAGES
from records.acl import CLUSTER_NAME, AclOperation, ResourceType
from records.topic_name import topic_name_problem

if TYPE_CHECKING:
    from authorizer.admin_server.handlers.cluster_node import ClusterNode
    from authorizer.admin_server.request import AdminRequest
    from authorizer.admin_server.values_encoder import Values

#: ConfigResource.Type: topic, broker, broker logger, client metrics, group.
_TOPIC: Final = 2
_BROKER: Final = 4
_BROKER_LOGGER: Final = 8
_CLIENT_METRICS: Final = 16
_OF_CLUSTER: Final = frozenset({_BROKER, _BROKER_LOGGER, _CLIENT_METRICS})
_GROUP: Final = 32
#: Messages of a broker for a name that must not be empty.
_EMPTY_NAMES: Final = {
    _BROKER_LOGGER: "Broker id must not be empty",
    _CLIENT_METRICS: "Client metrics subscription name must not be empty",
    _GROUP: "Group name must not be empty",
}
_INTEGER: Final = re.compile(r"[+-]?\d{1,40}")
#: Where the right to DescribeConfigs is needed, and the error without it.
_RIGHTS: Final = {
    _TOPIC: (ResourceType.TOPIC, ErrorCode.topic_authorization_failed),
    _GROUP: (ResourceType.GROUP, ErrorCode.group_authorization_failed),
    **dict.fromkeys(_OF_CLUSTER, (ResourceType.CLUSTER, ErrorCode.cluster_authorization_failed)),
}
#: TransactionState.java
_TRANSACTION_STATES: Final = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)
_NO_CREDENTIALS: Final = "aclog does not show credentials; ask a broker of the cluster for its users."


class ConfigHandlers:
    """Answers for one node; ``apis``: of the three requests."""

    def __init__(self, cluster: ClusterNode) -> None:
        self._cluster = cluster
        self.apis = [
            Api(
                key=32,
                schema="describe_configs",
                versions=range(1, 5),
                answer=self.describe_configs,
                error=_configs_error,
            ),
            Api(
                key=50,
                schema="describe_user_scram_credentials",
                versions=range(1),
                answer=self.describe_credentials,
                error=_credentials_error,
            ),
            Api(
                key=66,
                schema="list_transactions",
                versions=range(3),
                answer=self.list_transactions,
                error=lambda _body, code, _message: {"error_code": code, "transaction_states": []},
            ),
        ]

    async def describe_configs(self, request: AdminRequest) -> Values:
        resources = request.body.resources
        if any(each.resource_type not in _RIGHTS for each in resources):
            return _configs_error(request.body, ErrorCode.invalid_request, None)
        allowed: list[Values] = []
        denied: list[Values] = []
        for each in resources:
            resource_type, code = _RIGHTS[each.resource_type]
            name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else each.resource_name
            if self._cluster.allows(request, AclOperation.DESCRIBE_CONFIGS, resource_type, [name])[0]:
                allowed.append(_result(each, *self._found(each)))
            else:
                denied.append(_result(each, code, ERROR_MESSAGES[code]))
        # As a broker: the denied ones are last.
        return {"results": allowed + denied}

    async def describe_credentials(self, request: AdminRequest) -> Values:
        if not self._cluster.allows_on_cluster(request, AclOperation.DESCRIBE):
            return _credentials_error(request.body, ErrorCode.cluster_authorization_failed, None)
        return _credentials_error(request.body, ErrorCode.unsupported_version, _NO_CREDENTIALS)

    async def list_transactions(self, request: AdminRequest) -> Values:
        self._cluster.require_loaded()
        self._cluster.require_ready(request)
        unknown = [each for each in request.body.state_filters if each not in _TRANSACTION_STATES]
        return {"unknown_state_filters": unknown, "transaction_states": []}

    def _found(self, resource: Any) -> tuple[ErrorCode, str]:
        name = resource.resource_name
        if resource.resource_type == _TOPIC:
            if (problem := topic_name_problem(name)) is not None:
                return ErrorCode.invalid_topic_exception, f"Topic name is invalid: {problem}"
            if name not in self._cluster.node.metadata.topics:
                return ErrorCode.unknown_topic_or_partition, ""
        elif (problem := self._name_problem(resource.resource_type, name)) is not None:
            return ErrorCode.invalid_request, problem
        return ErrorCode.none, ""

    def _name_problem(self, resource_type: int, name: str) -> str | None:
        if not name:
            return _EMPTY_NAMES.get(resource_type)
        if resource_type not in {_BROKER, _BROKER_LOGGER}:
            return None
        # As Integer.valueOf: int() also takes spaces and underscores.
        if not _INTEGER.fullmatch(name) or not -(2**31) <= int(name) < 2**31:
            return f"Broker id must be an integer, but it is: {name}"
        if int(name) == self._cluster.id:
            return None
        expected = f"{self._cluster.id}{' or empty string,' if resource_type == _BROKER else ''}"
        return f"Unexpected broker id, expected {expected} but received {name}"


def _result(resource: Any, code: ErrorCode, message: str | None) -> Values:
    return {
        "error_code": code,
        "error_message": message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": [],
    }


def _configs_error(body: Any, code: ErrorCode, _message: str | None) -> Values:
    # As a broker: the message of the code.
    return {"results": [_result(each, code, ERROR_MESSAGES.get(code)) for each in body.resources]}


def _credentials_error(body: Any, code: ErrorCode, message: str | None) -> Values:
    error = {"error_code": code, "error_message": message}
    # As a broker: without the names.
    return {**error, "results": [{**error, "user": "", "credential_infos": []} for _ in body.users or ()]}
