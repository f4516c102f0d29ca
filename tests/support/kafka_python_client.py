"""A program that sends requests with kafka-python's KafkaAdminClient, as the one in Go does.

Usage: python -m support.kafka_python_client ADDRESS LOGIN. It is a separate process because the library uses
what Python 3.11 has deprecated, and a warning fails a test.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from support.login import Login

_TOPIC_FIELDS: Final = itemgetter("error_code", "topic_id", "is_internal", "authorized_operations")


def _answer(client: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return _execute(client, request)
    except KafkaError as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _execute(client: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    match request["do"]:
        case "create":
            results = client.create_acls([_binding(request["acl"])])
            return {"error": "".join(each.__name__ for each in results["failed"])}
        case "delete":
            ((_filter, deleted, error),) = client.delete_acls([_filter_of(request["acl"])])
            return {"acls": _fields(deleted), "error": error.__name__}
        case "describe":
            found, error = client.describe_acls(_filter_of(request["acl"]))
            return {"acls": _fields(found), "error": error.__name__}
        case "metadata":
            topics = client.describe_topics(request["names"])
            return {"described": {each["name"]: _comparable(_TOPIC_FIELDS(each)) for each in topics}}
        case "cluster":
            cluster = client.describe_cluster()
            described = cluster["cluster_id"], len(cluster["brokers"]), cluster["authorized_operations"]
            return {"described": {"cluster": _comparable(described)}}
    return {"described": client.describe_groups(request["names"])}


def _comparable(values: Sequence[Any]) -> list[Any]:
    # Operations are a set.
    return [sorted(each) if isinstance(each, list) else each for each in values]


def _binding(acl: Mapping[str, Any]) -> Any:
    pattern = ResourcePattern(
        ResourceType(acl["resource_type"]), acl["resource_name"], ACLResourcePatternType(acl["pattern_type"])
    )
    return ACL(*_access(acl), pattern)


def _filter_of(acl: Mapping[str, Any]) -> Any:
    pattern = ResourcePatternFilter(
        ResourceType(acl["resource_type"]), acl["resource_name"], ACLResourcePatternType(acl["pattern_type"])
    )
    return ACLFilter(*_access(acl), pattern)


def _access(acl: Mapping[str, Any]) -> tuple[Any, ...]:
    operation, permission = ACLOperation(acl["operation"]), ACLPermissionType(acl["permission_type"])
    return acl["principal"], acl["host"], operation, permission


def _fields(acls: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        {
            "resource_type": int(each.resource_pattern.resource_type),
            "resource_name": each.resource_pattern.resource_name,
            "pattern_type": int(each.resource_pattern.pattern_type),
            "principal": each.principal,
            "host": each.host,
            "operation": int(each.operation),
            "permission_type": int(each.permission_type),
        }
        for each in acls
    ]


class _Token(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    def __init__(self, text: str) -> None:
        self._text = text

    def token(self) -> str:
        return self._text


def _connection(login: Login) -> dict[str, Any]:
    settings = {
        "security_protocol": login.protocol,
        "ssl_cafile": login.authority,
        "ssl_certfile": login.certificate,
        "ssl_keyfile": login.certificate,
        "sasl_mechanism": login.mechanism,
        "sasl_plain_username": login.user,
        "sasl_plain_password": login.password,
        "sasl_oauth_token_provider": _Token(login.token) if login.token else None,
    }
    return {name: value for name, value in settings.items() if value}


if __name__ == "__main__":
    opened = KafkaAdminClient(bootstrap_servers=sys.argv[1], **_connection(Login.of_text(sys.argv[2])))
    for line in sys.stdin:
        print(json.dumps(_answer(opened, json.loads(line)), default=str))
    opened.close()
