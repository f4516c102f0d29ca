"""TopicErrors: translates errors of confluent-kafka to LogError.

    no such topic                            LogNotFoundError; LogMissingError of a log's topic
    an invalid setting or call               LogError
    TLS or SASL failed                       LogAuthenticationError
    not allowed                              LogRefusedError
    others: no answer, busy                  LogUnreachableError

The reader handles offsets out of range, as it knows the range.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from records.errors import (
    LogAuthenticationError,
    LogError,
    LogMissingError,
    LogNotFoundError,
    LogRefusedError,
    LogUnreachableError,
)
from records.log.client_keys import SECURITY_PROTOCOL
from records.log.listener_probe import tls_mismatch
from records.log.topic.client import ClientErrors
from records.log.url import TOPIC_FORM, TopicUrl, parse_bootstrap_servers

_NO_TOPIC: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
_NOT_ALLOWED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_NOT_AUTHENTICATED: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_INVALID: Final = frozenset({KafkaError._INVALID_ARG, KafkaError._CONFLICT})
# Errors of a client without any connection, for whatever reason.
_NO_CONNECTION: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
    }
)

_NO_MECHANISM: Final = "Unsupported SASL mechanism"
_LIBRDKAFKAS_ADVICE: Final = ", verify that ssl.ca.location"


class NoLeaderError(LogUnreachableError):
    """The client knows no leader of the topic."""


class TopicErrors:
    """Translates errors about one topic.

    ``remedy``: what to do if the topic does not exist; empty: it is a log's, so `aclog log create` is.
    """

    def __init__(self, where: TopicUrl, errors: ClientErrors, *, remedy: str = "") -> None:
        self._where = where
        self._errors = errors
        self._remedy = remedy
        self._is_probed = False

    def translate(self, error: KafkaError, doing: str) -> LogError:
        """The error to raise; ``doing``: the failed action, such as `reading`."""
        url, code, text = self._where.text, error.code(), error.str()
        if code in _NO_TOPIC:
            missing = f"{url}: there is no topic `{self._where.topic}` ({doing}: {text})"
            return (
                LogNotFoundError(f"{missing}; {self._remedy}")
                if self._remedy
                else LogMissingError(missing, url)
            )
        if code in _INVALID:
            return LogError(f"{url}: {doing}: {text}; is a setting of the client wrong?")
        if code in _NOT_ALLOWED:
            username = self._errors.username
            principal = "this client's principal" if username is None else f"User:{username}"
            # A broker's own text may be its request object: Request(processor=2, ...).
            text = KafkaError(code).str()
            return LogRefusedError(f"{url}: {doing}: {text}; the cluster must allow it to {principal}")
        if code in _NO_CONNECTION and self._errors.last is not None:
            error, text = self._errors.last, f"{text}: {self._errors.last.str()}"
        is_connection_error = code in _NO_CONNECTION or code in _NOT_AUTHENTICATED
        if is_connection_error and (mismatch := self._tls_mismatch()) is not None:
            return LogAuthenticationError(f"{url}: {doing}: {mismatch}")
        if error.code() in _NOT_AUTHENTICATED:
            # Without the timeout that it led to, and without advice by librdkafka's keys.
            why = error.str().partition(_LIBRDKAFKAS_ADVICE)[0]
            return LogAuthenticationError(f"{url}: {doing}: {why}; {self._advice(error)}")
        if code == KafkaError._NOENT:
            return self.no_leader(doing)
        # A broker that refuses a connection, or is not there, has another last error.
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self._errors.mechanism is None:
            named = self._errors.keys.named(SECURITY_PROTOCOL)
            text += f"; if they require a login, set {named} to SASL_SSL or SASL_PLAINTEXT"
        return LogUnreachableError(f"{url}: {doing}: {text}")

    def _advice(self, error: KafkaError) -> str:
        """What to change if TLS or SASL failed."""
        keys = self._errors.keys
        if error.code() == KafkaError._SSL:
            return keys.tls_advice(error.str())
        if error.code() == KafkaError.UNSUPPORTED_SASL_MECHANISM or _NO_MECHANISM in error.str():
            return f"set {keys.named('sasl.mechanism')} to one that the listener has"
        return keys.login_advice(self._errors.mechanism)

    def _tls_mismatch(self) -> str | None:
        """The explanation if only one side uses TLS. Probed once, as a port does not change."""
        if self._is_probed:
            return None
        self._is_probed = True
        setting = self._errors.keys.named(SECURITY_PROTOCOL)
        for address in parse_bootstrap_servers(self._where.text, self._where.bootstrap_servers, TOPIC_FORM):
            found = tls_mismatch(address, has_tls=self._errors.has_tls, setting=setting)
            if found is not None:
                return found
        return None

    def no_answer(self, doing: str, timeout_s: float) -> LogError:
        """The cluster did not answer in time."""
        why = "" if self._errors.last is None else f": {self._errors.last.str()}"
        return LogUnreachableError(f"{self._where.text}: {doing}: no answer within {timeout_s:g} s{why}")

    def no_leader(self, doing: str) -> LogError:
        return NoLeaderError(f"{self._where.text}: {doing}: the topic has no leader that can be reached")

    @contextmanager
    def translated(self, doing: str) -> Iterator[None]:
        """Translate the errors that the clients raise inside the block."""
        try:
            yield
        except KafkaException as exception:
            raise self.translate(exception.args[0], doing) from exception
