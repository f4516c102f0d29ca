"""Changes of a live cluster's ACLs by Kafka's own requests: CreateAcls and DeleteAcls.

librdkafka has no names for delegation tokens and users as resources, nor for the operations on them and for
TWO_PHASE_COMMIT, and cannot write such ACLs. That is an error here, before anything is written.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka import admin as kafka

from records.acl import AclOperation, ResourceType
from records.errors import EncodeError, LogOutcomeUnknownError, LogUnreachableError
from records.log.bootstrap_servers import parse_bootstrap_servers
from records.log.topic.client import ClientErrors, ClientSettings
from records.log.topic.topic_admin import REQUEST_TIMEOUT_S
from records.log.topic.topic_errors import TopicErrors
from records.log.topic.url import FORM, TopicUrl

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_T = TypeVar("_T")

#: What an ACL says, in the order of its record's fields.
_Content = tuple[int, str, int, str, str, int, int]


class ClusterAcls:
    """One cluster.

    Args:
        bootstrap_servers: ``HOST:PORT[,HOST:PORT...]``.
        client: settings for the Kafka client: ``aclog.kafka.*`` without that prefix.

    Raises:
        LogError: as TopicErrors says; from every method too.
    """

    def __init__(self, bootstrap_servers: str, client: Mapping[str, str]) -> None:
        self.url: Final = f"describe://{bootstrap_servers}"  # by which its ACLs are read
        parse_bootstrap_servers(self.url, bootstrap_servers, FORM)
        errors = ClientErrors(client)
        where = TopicUrl(self.url, bootstrap_servers, "")
        self._topic_errors = TopicErrors(where, errors)
        with self._topic_errors.translated("making a client"):
            self._client = kafka.AdminClient(dict(ClientSettings(where, client, errors).admin()))

    def cluster_id(self) -> str:
        """Which cluster it is."""
        found: Any = self._client.describe_cluster(request_timeout=REQUEST_TIMEOUT_S)
        return str(self._result(found, "asking which cluster it is").cluster_id)

    def require_writable(self, acls: Iterable[_Content]) -> None:
        """EncodeError for an ACL that the client has no names for."""
        for acl in acls:
            _client_binding(kafka.AclBinding, acl)

    def create(self, acls: Sequence[_Content]) -> None:
        """Create them, by one request; those that are there already stay."""
        self._carry_out(
            self._client.create_acls,
            [_client_binding(kafka.AclBinding, each) for each in acls],
            "creating ACLs",
        )

    def delete(self, acls: Sequence[_Content]) -> None:
        """Remove exactly these, by one request; one that is not there is no error."""
        self._carry_out(
            self._client.delete_acls,
            [_client_binding(kafka.AclBindingFilter, each) for each in acls],
            "removing ACLs",
        )

    def _carry_out(self, send: Any, items: list[Any], doing: str) -> None:
        try:
            for future in send(items, request_timeout=REQUEST_TIMEOUT_S).values():
                self._result(future, doing)
        except LogUnreachableError as error:
            raise LogOutcomeUnknownError(str(error)) from error

    def _result(self, future: Future[_T], doing: str) -> _T:
        try:
            return future.result(2 * REQUEST_TIMEOUT_S)
        except TimeoutError as error:
            raise self._topic_errors.no_answer(doing, 2 * REQUEST_TIMEOUT_S) from error
        except KafkaException as exception:
            self._client.poll(0)  # what went wrong with the connections comes here
            raise self._topic_errors.translate(exception.args[0], doing) from exception


def _client_binding(kind: type[_T], acl: _Content) -> _T:
    resource_type, name, pattern_type, principal, host, operation, permission = acl
    make: Any = kind
    try:
        # The codes of the client library are those of the protocol.
        made: _T = make(
            kafka.ResourceType(resource_type),
            name,
            kafka.ResourcePatternType(pattern_type),
            principal,
            host,
            kafka.AclOperation(operation),
            kafka.AclPermissionType(permission),
        )
    except ValueError as error:
        what = f"{AclOperation.from_code(operation).name} on {ResourceType.from_code(resource_type).name}"
        raise EncodeError(
            f"the Kafka client has no name for {what}, so the ACL of {principal} on `{name}` cannot be "
            "written by it: use kafka-acls"
        ) from error
    return made
