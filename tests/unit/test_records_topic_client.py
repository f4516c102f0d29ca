"""records.log.topic: URLs, client settings, and what a topic must be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from records.errors import (
    LogAuthenticationError,
    LogError,
    LogMissingError,
    LogRefusedError,
    LogUnreachableError,
)
from records.ids import Uuid
from records.log.shared_clients import SharedClients
from records.log.topic import TopicLog, topic_admin
from records.log.topic.client import ClientErrors, ClientSettings
from records.log.topic.topic_admin import ClusterClient, TopicAdmin, TopicDescription, check_topic
from records.log.topic.topic_errors import NoLeaderError, TopicErrors
from records.log.url import TopicUrl, parse_topic_url

WHERE = TopicUrl("kafka://h:1/acls", "h:1", "acls")
TOPIC_ID = Uuid(b"t" * 16)


@pytest.mark.parametrize(
    ("url", "servers", "topic"),
    [
        ("kafka://localhost:9092/acls", "localhost:9092", "acls"),
        (
            "KAFKA://a.b:1,[::1]:9093/__cluster_metadata-like.1",
            "a.b:1,[::1]:9093",
            "__cluster_metadata-like.1",
        ),
    ],
)
def test_a_url_names_servers_and_a_topic(url: str, servers: str, topic: str) -> None:
    """As Kafka's clients take them."""
    assert parse_topic_url(url) == TopicUrl(url, servers, topic)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:dir", "is not a topic"),
        ("kafka://", "a server is missing"),
        ("kafka://h/acls", "`h` is not HOST:PORT"),
        ("kafka://h:1,/acls", "a server is missing"),
        ("kafka://user:pw@h:1/acls", "not HOST:PORT"),
        ("kafka://h:0/acls", "no port 0"),
        ("kafka://h:70000/acls", "no port 70000"),
        ("kafka://h:1", "the topic is missing"),
        ("kafka://h:1/", "the topic is missing"),
        ("kafka://h:1/a/b", "cannot be a topic"),
        ("kafka://h:1/a?x", "cannot be a topic"),
        ("kafka://h:1/..", "cannot be a topic"),
    ],
)
def test_an_invalid_url_is_refused(url: str, reason: str) -> None:
    """The error names what is wrong with it."""
    with pytest.raises(LogError, match=reason):
        parse_topic_url(url)


def test_settings_are_passed_through() -> None:
    """To every client; what a log cannot do without is added."""
    settings = ClientSettings(WHERE, {"security.protocol": "SSL", "fetch.wait.max.ms": "50"}, ClientErrors())
    every = [settings.admin(), settings.drainer(), settings.waker(), settings.producer("id")]
    assert {each["security.protocol"] for each in every} == {"SSL"}
    assert {each["bootstrap.servers"] for each in every} == {"h:1"}
    for consumer in every[1:3]:
        assert consumer["isolation.level"] == "read_committed"
        assert consumer["auto.offset.reset"] == "error"
        assert consumer["enable.auto.commit"] is False
    assert settings.waker()["fetch.wait.max.ms"] == "50"
    assert settings.producer("id")["acks"] == "all"


@pytest.mark.parametrize(
    "key", ["bootstrap.servers", "group.id", "isolation.level", "acks", "transactional.id"]
)
def test_reserved_settings_are_refused(key: str) -> None:
    """The error says why."""
    with pytest.raises(LogError, match=rf"aclog\.kafka\.{key} cannot be set: "):
        ClientSettings(WHERE, {key: "x"}, ClientErrors())


def test_a_denial_has_the_name_of_its_error_and_not_the_brokers_request() -> None:
    """A broker answers some denied requests with the text of its request object."""
    raw = "Request Request(processor=2, connectionId=10.0.0.1:9093-1, session=...) is not authorized."
    denied = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, raw)
    message = str(TopicErrors(WHERE, ClientErrors()).translate(denied, "creating the topic"))
    assert "creating the topic: Broker: Cluster authorization failed; the cluster must allow it" in message
    assert "Request(" not in message


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, LogMissingError, "there is no topic `acls`"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, LogRefusedError, "must allow it"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, LogAuthenticationError, "aclog.kafka.sasl"),
        (KafkaError._INVALID_ARG, LogError, "is a setting of the client wrong"),
        (KafkaError.NOT_LEADER_FOR_PARTITION, LogUnreachableError, "reading"),
    ],
)
def test_kafkas_errors_become_ours(code: int, kind: type[LogError], text: str) -> None:
    """By what the reader can do about them; the URL is in all."""
    error = TopicErrors(WHERE, ClientErrors()).translate(KafkaError(code), "reading")
    assert type(error) is kind
    assert text in str(error)
    assert str(error).startswith(WHERE.text)


def test_a_timeout_says_why() -> None:
    """The connections' last error is the reason, not the one that says that there is none left."""
    errors = ClientErrors()
    errors(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    errors(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    error = TopicErrors(WHERE, errors).translate(KafkaError(KafkaError._TIMED_OUT, "timed out"), "reading")
    assert isinstance(error, LogRefusedError)
    assert "reading: wrong password; check the user and password in aclog.kafka.sasl.username" in str(error)


def test_a_silent_cluster_is_unreachable() -> None:
    """Nobody raised anything: no answer came, or there is nobody to give one."""
    errors = ClientErrors()
    errors(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    topic_errors = TopicErrors(WHERE, errors)
    silent, headless = topic_errors.no_answer("reading", 10), topic_errors.no_leader("reading")
    assert (type(silent), type(headless)) == (LogUnreachableError, NoLeaderError)
    assert str(silent).endswith("reading: no answer within 10 s: connection refused")


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        (TopicDescription(TOPIC_ID, 3, "compact", 1, 1), "has 3 partitions"),
        (
            TopicDescription(TOPIC_ID, 1, "delete", 1, 1),
            r"cleanup.policy is `delete`.*--add-config cleanup.policy=compact",
        ),
        (TopicDescription(TOPIC_ID, 1, "compact,delete", 1, 1), "deletes ACLs that are in force"),
        (TopicDescription(TOPIC_ID, 1, "compact", 0, 1), "deletes removals immediately"),
    ],
)
def test_a_topic_that_cannot_hold_a_log(topic: TopicDescription, reason: str) -> None:
    """The error says what it has, and the command that mends it."""
    with pytest.raises(LogError, match=reason):
        check_topic(WHERE, topic)
    check_topic(WHERE, TopicDescription(TOPIC_ID, 1, "compact", 86_400_000, 1))


def test_topics_of_one_cluster_share_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each cluster and its settings; a log without shared clients makes its own."""
    made: list[str] = []

    class Client(AdminClient):
        def __init__(self, settings: dict[str, Any]) -> None:
            made.append(settings["bootstrap.servers"])
            super().__init__(settings)

    monkeypatch.setattr(topic_admin, "AdminClient", Client)
    shared = SharedClients()
    urls = ["kafka://127.0.0.1:1/a", "kafka://127.0.0.1:1/b", "kafka://127.0.0.1:2/a"]
    for url in urls:
        TopicLog.open(url, lazily=True, shared=shared).close()
    assert made == ["127.0.0.1:1", "127.0.0.1:2"]
    TopicLog.open(urls[0], client={"client.id": "c"}, lazily=True, shared=shared).close()
    TopicLog.open(urls[0], lazily=True).close()
    assert made[2:] == ["127.0.0.1:1", "127.0.0.1:1"]


def test_the_id_of_a_cluster_is_queried_again_when_a_topic_was_replaced() -> None:
    """One query serves many topics; a changed topic may be on another cluster at the same address."""
    ids = iter(["first", "second"])
    admin = cast("TopicAdmin", SimpleNamespace(cluster_id=lambda: next(ids)))
    cluster = ClusterClient(WHERE, None)
    assert [cluster.cluster_id(admin, 3600), cluster.cluster_id(admin, 3600)] == ["first", "first"]
    assert [cluster.cluster_id(admin, 0), cluster.cluster_id(admin, 3600)] == ["second", "second"]
