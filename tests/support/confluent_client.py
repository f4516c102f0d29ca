"""A program that sends requests with confluent-kafka's AdminClient (librdkafka), as the one in Go does.

Usage: python -m support.confluent_client ADDRESS LOGIN.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from support.login import Login

_ANSWER_S: Final = 60.0


def _answer(client: AdminClient, request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return _execute(client, request)
    except KafkaException as error:
        return {"error": _text(error)}


def _execute(client: AdminClient, request: Mapping[str, Any]) -> dict[str, Any]:
    match request["do"]:
        case "create":
            acl = AclBinding(*_fields(request["acl"]))
            client.create_acls([acl])[acl].result(_ANSWER_S)
            return {}
        case "delete":
            wanted = AclBindingFilter(*_fields(request["acl"]))
            return {"acls": _described(client.delete_acls([wanted])[wanted].result(_ANSWER_S))}
        case "describe":
            return {
                "acls": _described(
                    client.describe_acls(AclBindingFilter(*_fields(request["acl"]))).result(_ANSWER_S)
                )
            }
        case "cluster":
            cluster = client.describe_cluster(include_authorized_operations=True).result(_ANSWER_S)
            described = cluster.cluster_id, len(cluster.nodes), _operations(cluster)
            return {"described": {"cluster": described}}
        case "metadata":
            topics = TopicCollection(request["names"])
            found = client.describe_topics(topics, include_authorized_operations=True)
            return {
                "described": _each(
                    found, lambda topic: [str(topic.topic_id), topic.is_internal, _operations(topic)]
                )
            }
    found = client.describe_consumer_groups(request["names"], include_authorized_operations=True)
    return {"described": _each(found, lambda group: [group.state.name, _operations(group)])}


def _each(found: Mapping[str, Any], describe: Any) -> dict[str, Any]:
    described = {}
    for name, future in found.items():
        try:
            described[name] = describe(future.result(_ANSWER_S))
        except KafkaException as error:
            described[name] = _text(error)
    return described


def _operations(described: Any) -> list[str] | None:
    found = described.authorized_operations
    return None if found is None else sorted(each.name for each in found)


def _text(error: KafkaException) -> str:
    return f"{error.args[0].name()}: {error.args[0].str()}"


def _fields(acl: Mapping[str, Any]) -> tuple[Any, ...]:
    pattern = (
        ResourceType(acl["resource_type"]),
        acl["resource_name"],
        ResourcePatternType(acl["pattern_type"]),
    )
    access = AclOperation(acl["operation"]), AclPermissionType(acl["permission_type"])
    return *pattern, acl["principal"], acl["host"], *access


def _described(acls: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        {
            "resource_type": each.restype.value,
            "resource_name": each.name,
            "pattern_type": each.resource_pattern_type.value,
            "principal": each.principal,
            "host": each.host,
            "operation": each.operation.value,
            "permission_type": each.permission_type.value,
        }
        for each in acls
    ]


def _client(address: str, login: Login) -> AdminClient:
    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "security.protocol": login.protocol,
        "ssl.ca.location": login.authority,
        "ssl.certificate.location": login.certificate,
        "ssl.key.location": login.certificate,
        "sasl.mechanism": login.mechanism,
        "sasl.username": login.user,
        "sasl.password": login.password,
        "oauth_cb": (lambda _config: (login.token, 2**33)) if login.token else None,
    }
    client = AdminClient({"log_level": 0, **{name: value for name, value in settings.items() if value}})
    client.poll(0)  # the first token
    return client


if __name__ == "__main__":
    opened = _client(sys.argv[1], Login.of_text(sys.argv[2]))
    for line in sys.stdin:
        print(json.dumps(_answer(opened, json.loads(line))), flush=True)
