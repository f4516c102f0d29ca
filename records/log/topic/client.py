"""Settings of the Kafka clients: the user's ``aclog.kafka.*``, and what a log cannot do without.

librdkafka's own names (security.protocol, sasl.*, ssl.*, ...). A setting on which correctness depends is
ours; asking for another value is an error that says why. Clients write no lines of their own: what matters is
in the errors that they report. ``aclog.kafka.log_level`` and ``aclog.kafka.debug`` make them talk, on stderr.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError

from records.errors import LogError
from records.log.topic.url import TopicUrl

#: What users write before each setting.
PREFIX: Final = "aclog.kafka."
#: A writer that died in a transaction holds up every reader for so long.
TRANSACTION_TIMEOUT_MS: Final = 10_000
#: The broker answers a fetch at the log's end after this time: soon, as the answer says that this is the end.
_DRAIN_WAIT_MS: Final = 1
#: The same for the consumer that waits for something new, and for nothing else.
_WAKE_WAIT_MS: Final = 500
_FETCH_BYTES: Final = 8 * 1024 * 1024
_WAKE_FETCH_BYTES: Final = 1024

_PROTOCOL: Final = "security.protocol"
_GROUP: Final = "the log is read by assignment, not by a group; this is a random name without members"
_READING: Final = "what is read must be committed and complete"
_WRITING: Final = "an operation is written whole and once, or not at all"
#: Why a setting is not the user's.
_OURS: Final[Mapping[str, str]] = {
    "bootstrap.servers": "the log's URL says where the cluster is",
    "metadata.broker.list": "the log's URL says where the cluster is",
    "group.id": _GROUP,
    "group.instance.id": _GROUP,
    "group.protocol": _GROUP,
    "enable.auto.commit": _GROUP,
    "enable.auto.offset.store": _GROUP,
    "auto.offset.reset": "an offset that is not there is an error, never a jump",
    "isolation.level": _READING,
    "enable.partition.eof": _READING,
    "check.crcs": _READING,
    "allow.auto.create.topics": "a topic is made with `aclog log create`, with the settings that a log needs",
    "acks": _WRITING,
    "request.required.acks": _WRITING,
    "enable.idempotence": _WRITING,
    "enable.gapless.guarantee": _WRITING,
    "transactional.id": _WRITING,
}


class ClientErrors:
    """What the clients said last about their connections: the reason behind a timeout.

    Attributes:
        last: the error; None for none.
        has_tls: whether the clients' settings ask for TLS.
    """

    def __init__(self, client: Mapping[str, str] | None = None) -> None:
        self.last: KafkaError | None = None
        self.has_tls = (client or {}).get(_PROTOCOL, "").lower() in ("ssl", "sasl_ssl")

    def __call__(self, error: KafkaError) -> None:
        # "All brokers down" follows the error that says why, and says less.
        if self.last is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last = error


class ClientSettings:
    """The settings of each kind of client.

    Raises:
        LogError: a user's value for something that is not the user's.
    """

    def __init__(
        self, where: TopicUrl, client: Mapping[str, str], errors: Callable[[KafkaError], None]
    ) -> None:
        for key in client:
            if key in _OURS:
                raise LogError(f"{PREFIX}{key} cannot be set: {_OURS[key]}")
        self._base: dict[str, Any] = {
            "log_level": 0,
            "reconnect.backoff.max.ms": 1000,
            # An admin client would wait for the controller that it knows, a dead broker, for five minutes.
            "topic.metadata.refresh.interval.ms": 1000,
            # librdkafka's default for producers is true: the next refresh would bring a deleted topic back,
            # not compacted, on a broker that creates topics by itself (Kafka's default).
            "allow.auto.create.topics": False,
            **client,
            "bootstrap.servers": where.bootstrap_servers,
            "error_cb": errors,
        }
        self._user = frozenset(client)

    @property
    def is_plaintext(self) -> bool:
        """Whether any program may connect as these clients do."""
        return str(self._base.get(_PROTOCOL, "plaintext")).lower() == "plaintext"

    def admin(self) -> dict[str, Any]:
        """For the client that asks about the topic."""
        return self._base

    def drainer(self) -> dict[str, Any]:
        """For the consumer that reads to the end, quickly, and then stops."""
        settings = self._consumer()
        for key, value in (("max.partition.fetch.bytes", _FETCH_BYTES), ("queued.min.messages", 200_000)):
            if key not in self._user:
                settings[key] = value
        settings["fetch.wait.max.ms"] = _DRAIN_WAIT_MS
        return settings

    def waker(self) -> dict[str, Any]:
        """For the consumer that only notices that there is more."""
        settings = self._consumer()
        if "fetch.wait.max.ms" not in self._user:
            settings["fetch.wait.max.ms"] = _WAKE_WAIT_MS
        return settings | {"max.partition.fetch.bytes": _WAKE_FETCH_BYTES}

    def uncommitted_reader(self) -> dict[str, Any]:
        """For the consumer that looks at what is not committed."""
        return self._consumer() | {"isolation.level": "read_uncommitted"}

    def producer(self, transactional_id: str) -> dict[str, Any]:
        """For the one that writes."""
        settings = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, **self._base}
        return settings | {"transactional.id": transactional_id, "enable.idempotence": True, "acks": "all"}

    def group(self, name: str) -> dict[str, Any]:
        """For the consumer that only keeps a position, as the offset of a group without members."""
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
