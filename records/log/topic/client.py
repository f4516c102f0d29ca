"""Settings of the Kafka clients: the user's, and those that a log requires.

Keys are librdkafka's (security.protocol, sasl.*, ssl.*, ...). The user cannot set a key on which correctness
depends. The clients write no log lines, as their errors have what matters; ``aclog.kafka.log_level`` and
``aclog.kafka.debug`` enable lines on stderr.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError

from records.errors import LogError
from records.log.client_keys import SECURITY_PROTOCOL, keys_of
from records.log.url import TopicUrl

#: A writer that dies in a transaction blocks all readers for this time.
TRANSACTION_TIMEOUT_MS: Final = 10_000
#: The broker answers a fetch at the log's end after this time. It is short, as the answer marks the end.
_DRAIN_WAIT_MS: Final = 1
#: The same for the consumer that only waits for new messages.
_WAKE_WAIT_MS: Final = 500
_FETCH_BYTES: Final = 8 * 1024 * 1024
_WAKE_FETCH_BYTES: Final = 1024

_GROUP: Final = "the log is read by assignment, not by a group; this is a random name without members"
_READING: Final = "only committed and complete records may be read"
_WRITING: Final = "an operation is written completely and once, or not at all"
#: Why the user cannot set it.
_OURS: Final[Mapping[str, str]] = {
    "bootstrap.servers": "the log's URL has the servers",
    "metadata.broker.list": "the log's URL has the servers",
    "group.id": _GROUP,
    "group.instance.id": _GROUP,
    "group.protocol": _GROUP,
    "enable.auto.commit": _GROUP,
    "enable.auto.offset.store": _GROUP,
    "auto.offset.reset": "a missing offset is an error, never a jump",
    "isolation.level": _READING,
    "enable.partition.eof": _READING,
    "check.crcs": _READING,
    "allow.auto.create.topics": "`aclog log create` creates a topic, with the settings that a log needs",
    "acks": _WRITING,
    "request.required.acks": _WRITING,
    "enable.idempotence": _WRITING,
    "enable.gapless.guarantee": _WRITING,
    "transactional.id": _WRITING,
}


class ClientErrors:
    """The last error of the clients' connections, which is the reason of a timeout.

    ``keys``: of the settings, as the user wrote them.
    """

    def __init__(self, client: Mapping[str, str] | None = None) -> None:
        self.last: KafkaError | None = None
        settings = client or {}
        self.has_tls = settings.get(SECURITY_PROTOCOL, "").lower() in ("ssl", "sasl_ssl")
        self.mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms"))
        self.username = settings.get("sasl.username")
        self.keys = keys_of(settings)

    def __call__(self, error: KafkaError) -> None:
        # "All brokers down" follows an error with the reason.
        if self.last is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last = error


class ClientSettings:
    """The settings of each kind of client. Raises LogError: a key that the user cannot set."""

    def __init__(
        self, where: TopicUrl, client: Mapping[str, str], errors: Callable[[KafkaError], None]
    ) -> None:
        for key in client:
            if key in _OURS:
                raise LogError(f"{keys_of(client).named(key)} cannot be set: {_OURS[key]}")
        self._base: dict[str, Any] = {
            "log_level": 0,
            "reconnect.backoff.max.ms": 1000,
            # Else an admin client would wait for a dead controller for five minutes.
            "topic.metadata.refresh.interval.ms": 1000,
            # librdkafka's default for producers is true: the next refresh would create a deleted topic again,
            # not compacted, on a broker that creates topics automatically (Kafka's default).
            "allow.auto.create.topics": False,
            **client,
            "bootstrap.servers": where.bootstrap_servers,
            "error_cb": errors,
        }
        #: The user's settings.
        self.user: Final = dict(client)

    def admin(self) -> dict[str, Any]:
        return self._base

    def drainer(self) -> dict[str, Any]:
        """For the consumer that reads quickly up to the end."""
        settings = self._consumer()
        for key, value in (("max.partition.fetch.bytes", _FETCH_BYTES), ("queued.min.messages", 200_000)):
            if key not in self.user:
                settings[key] = value
        settings["fetch.wait.max.ms"] = _DRAIN_WAIT_MS
        return settings

    def waker(self) -> dict[str, Any]:
        """For the consumer that only detects new messages."""
        settings = self._consumer()
        if "fetch.wait.max.ms" not in self.user:
            settings["fetch.wait.max.ms"] = _WAKE_WAIT_MS
        return settings | {"max.partition.fetch.bytes": _WAKE_FETCH_BYTES}

    def uncommitted_reader(self) -> dict[str, Any]:
        """For the consumer of uncommitted messages."""
        return self._consumer() | {"isolation.level": "read_uncommitted"}

    def producer(self, transactional_id: str) -> dict[str, Any]:
        settings = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, **self._base}
        return settings | {"transactional.id": transactional_id, "enable.idempotence": True, "acks": "all"}

    def group(self, name: str) -> dict[str, Any]:
        """For the consumer that only stores a position, as the offset of a group without members."""
        return self._consumer() | {"group.id": name}

    def _consumer(self) -> dict[str, Any]:
        return self._base | {
            "group.id": f"aclog-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "check.crcs": True,
        }
