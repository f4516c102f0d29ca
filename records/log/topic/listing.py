"""Which topics of a cluster have a name of some form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from records.log.servers import parse_servers
from records.log.topic.admin import REQUEST_TIMEOUT_S
from records.log.topic.client import ClientErrors, ClientSettings
from records.log.topic.failure import Failure
from records.log.topic.url import FORM, SCHEME, TopicUrl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from records.java_pattern import JavaPattern


def matching_topics(bootstrap_servers: str, pattern: JavaPattern, client: Mapping[str, str]) -> list[str]:
    """Names that match as a whole, sorted; Kafka's internal topics are not among them.

    Args:
        bootstrap_servers: ``HOST:PORT[,HOST:PORT...]``.
        pattern: of names.
        client: settings for the Kafka client: ``aclog.kafka.*`` without that prefix.

    Raises:
        LogError: the servers or a client setting make no sense.
        LogUnreachableError, LogRefusedError: the cluster is out of reach, or does not let us in.
    """
    url = f"{SCHEME}{bootstrap_servers}"
    parse_servers(url, bootstrap_servers, FORM)
    errors = ClientErrors(client)
    where = TopicUrl(url, bootstrap_servers, "")
    failure = Failure(where, errors)
    settings = ClientSettings(where, client, errors).admin()
    with failure.translated("listing the topics"):
        admin = AdminClient(settings)
        try:
            names = sorted(filter(pattern.fullmatch, admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics))
            if not names:
                return []
            found = admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_TIMEOUT_S)
            return [name for name in names if not found[name].result().is_internal]
        except KafkaException:
            admin.poll(0)  # what went wrong with the connections comes here
            raise
