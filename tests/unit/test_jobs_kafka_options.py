"""aclog.kafka.* translated to the Java client; unknown settings are refused, without their values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.errors import LogError
from records.ids import Uuid
from records.log.base import LogIdentity
from snapshot.jobs.sources.kafka_options import connector_options
from snapshot.jobs.sources.logs import FollowedLog
from snapshot.jobs.sources.topic_source import source_options

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nBBBB\n-----END PRIVATE KEY-----\n"
SECRET = "s3cr3t-hunter2"


def translated(client: dict[str, str], **options: str) -> dict[str, str]:
    return connector_options(client, options)


def test_no_settings_give_no_options() -> None:
    assert translated({}) == {}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
        ("scram-sha-512", "org.apache.kafka.common.security.scram.ScramLoginModule"),
    ],
)
@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_login_with_a_password(name: str, mechanism: str, module: str) -> None:
    """Both of librdkafka's names for the mechanism; Java takes upper case only."""
    client = {"security.protocol": "sasl_ssl", name: mechanism, "sasl.username": "u", "sasl.password": SECRET}
    assert translated(client) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism.upper(),
        "sasl.jaas.config": f'{module} required username="u" password="{SECRET}";',
    }


def read_back(text: str) -> str:
    """What java.io.StreamTokenizer makes of a quoted text: backslashes, and no line end."""
    assert text.startswith('"')
    assert text.endswith('"')
    found, characters = [], iter(text[1:-1])
    for character in characters:
        assert character not in '"\n\r'
        found.append(
            {"n": "\n", "r": "\r"}.get(escaped := next(characters), escaped)
            if character == "\\"
            else character
        )
    return "".join(found)


@given(st.text(st.sampled_from('ab"\\\n\r; =é0'), max_size=12))
def test_any_password_survives_quoting(password: str) -> None:
    client = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": password}
    config = translated(client)["sasl.jaas.config"]
    assert read_back(config.partition("password=")[2].removesuffix(";")) == password


@pytest.mark.parametrize(
    "client",
    [
        {"sasl.mechanism": "PLAIN", "sasl.username": "u"},
        {"sasl.mechanism": "OAUTHBEARER", "sasl.username": "u", "sasl.password": SECRET},
        {"sasl.username": "u", "sasl.password": SECRET},
    ],
)
def test_half_a_login_is_refused(client: dict[str, str]) -> None:
    """Java's error would mention a JAAS file; a JAAS configuration of the user completes it."""
    with pytest.raises(LogError, match="must be set together") as refused:
        translated(client)
    assert SECRET not in str(refused.value)
    assert connector_options(client, {"sasl.jaas.config": "mine"})["sasl.jaas.config"] == "mine"


def test_certificates_and_keys_go_as_text(tmp_path: Path) -> None:
    """Executors need no files."""
    for name, text in (("ca", CERTIFICATE), ("cert", CERTIFICATE * 2), ("key", KEY)):
        (tmp_path / name).write_text(text, encoding="ascii")
    client = {
        "security.protocol": "ssl",
        "ssl.ca.location": str(tmp_path / "ca"),
        "ssl.certificate.location": str(tmp_path / "cert"),
        "ssl.key.location": str(tmp_path / "key"),
        "ssl.key.password": SECRET,
        "ssl.endpoint.identification.algorithm": "none",
    }
    expected = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CERTIFICATE,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": CERTIFICATE * 2,
        "ssl.keystore.key": KEY,
        "ssl.key.password": SECRET,
        "ssl.endpoint.identification.algorithm": "",
    }
    assert translated(client) == expected
    inline = {"ssl.ca.pem": CERTIFICATE, "ssl.certificate.pem": CERTIFICATE * 2, "ssl.key.pem": KEY}
    rest = {name: value for name, value in client.items() if not name.endswith(".location")}
    assert translated(rest | inline) == expected


@pytest.mark.parametrize(
    ("client", "why"),
    [
        ({"ssl.ca.location": "/no/such/file"}, "/no/such/file: No such file"),
        ({"ssl.ca.location": "{tmp}"}, "Is a directory"),
        ({"ssl.ca.location": "{tmp}/der"}, "is not a PEM file"),
        ({"ssl.certificate.pem": CERTIFICATE}, "must be set together"),
        (
            {"ssl.certificate.pem": CERTIFICATE, "ssl.key.pem": KEY.replace("PRIVATE", "RSA PRIVATE")},
            "openssl pkcs8",
        ),
    ],
)
def test_files_that_java_could_not_read_are_refused(tmp_path: Path, client: dict[str, str], why: str) -> None:
    (tmp_path / "der").write_bytes(b"\x30\x82\xff")
    with pytest.raises(LogError, match=why) as refused:
        translated({name: value.format(tmp=tmp_path) for name, value in client.items()})
    assert "BBBB" not in str(refused.value)


def test_a_login_by_token_is_translated() -> None:
    endpoint = "https://login.example.org/token"
    client = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        "sasl.oauthbearer.client.id": "aclog",
        "sasl.oauthbearer.client.secret": 'a "quoted" secret',
    }
    oauth = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"

    assert translated(client) == {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{oauth}LoginModule required clientId="aclog" '
        r'clientSecret="a \"quoted\" secret";',
        "sasl.login.callback.handler.class": f"{oauth}LoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
    }
    assert connector_options(client, {"sasl.jaas.config": "mine"})["sasl.jaas.config"] == "mine"


@pytest.mark.parametrize(
    "name", ["sasl.oauthbearer.config", "enable.ssl.certificate.verification", "ssl.keystore.location", "x"]
)
def test_settings_without_a_translation_are_refused(name: str) -> None:
    """By name and without its value, with the way out; which is taken."""
    with pytest.raises(LogError) as refused:
        translated({name: SECRET})
    text = str(refused.value)
    assert f"aclog.kafka.{name} " in text
    assert "--kafka-option KEY=VALUE" in text
    assert f"--kafka-option {name}=" in text
    assert SECRET not in text
    assert connector_options({name: SECRET}, {name: "", "ssl.truststore.type": "JKS"}) == {
        "ssl.truststore.type": "JKS"
    }


def test_the_users_own_settings_win() -> None:
    client = {"client.id": "node", "fetch.wait.max.ms": "10", "queued.min.messages": "5", "log_level": "7"}
    assert connector_options(client, {"client.id": "job", "max.poll.records": "9"}) == {
        "client.id": "job",
        "fetch.max.wait.ms": "10",
        "max.poll.records": "9",
    }


@pytest.mark.parametrize("name", ["isolation.level", "bootstrap.servers", "group.id", "key.deserializer"])
def test_settings_that_correctness_needs_cannot_be_overridden(name: str) -> None:
    with pytest.raises(LogError, match=f"--kafka-option {name} cannot be set"):
        connector_options({}, {name: SECRET})


def test_sparks_prefix_is_not_part_of_a_name() -> None:
    with pytest.raises(LogError, match=r"write it as the Java client does, ssl\.truststore\.type"):
        connector_options({}, {"kafka.ssl.truststore.type": "JKS"})


def test_a_topic_is_read_without_a_wait_and_without_metrics() -> None:
    """A broker would delay the end of each topic by half a second; the user's settings have priority."""
    identity = LogIdentity("c", Uuid(b"t" * 16))
    log = FollowedLog(url="kafka://b:9092/acls", identity=identity, kafka={"fetch.wait.max.ms": "7"})
    default = source_options([replace(log, kafka={})], {})
    assert (default["kafka.fetch.max.wait.ms"], default["kafka.auto.include.jmx.reporter"]) == ("1", "false")
    chosen = source_options([log], {"auto.include.jmx.reporter": "true"})
    assert (chosen["kafka.fetch.max.wait.ms"], chosen["kafka.auto.include.jmx.reporter"]) == ("7", "true")
    assert source_options([log], {"fetch.max.wait.ms": "9"})["kafka.fetch.max.wait.ms"] == "9"
