"""Connection settings of the client of Kafka's protocol beside librdkafka."""

from __future__ import annotations

import pytest

from records.errors import LogError
from records.log.protocol.settings import settings_beside_client


def test_settings_of_librdkafka_alone_are_ignored() -> None:
    """As far as they do not decide whether the connection is secure."""
    settings = settings_beside_client(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "reader",
            "sasl.password": "secret",
            "queued.min.messages": "5",
            "debug": "protocol",
            "socket.timeout.ms": "60000",
        }
    )
    assert (settings.protocol, settings.mechanism, settings.username) == (
        "sasl_ssl",
        "SCRAM-SHA-512",
        "reader",
    )
    assert settings.timeout_s == 3


@pytest.mark.parametrize(
    "client",
    [
        {"security.protocol": "SASL_SSL", "sasl.mechanisms": "GSSAPI"},
        {"security.protocol": "SSL", "ssl.keystore.location": "client.p12"},
        {"security.protocol": "SSL", "ssl.ca.certificate.stores": "Root"},
    ],
)
def test_security_that_only_librdkafka_supports_is_refused(client: dict[str, str]) -> None:
    """A connection with less would be another principal's, or not secure."""
    with pytest.raises(LogError):
        settings_beside_client(client)
