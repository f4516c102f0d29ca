"""A Java client.properties is translated to the settings of aclog's clients, or refused by the key's name."""

from __future__ import annotations

import random
import re
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from authorizer.api.errors import ConfigError
from authorizer.configuration.client_properties.client_settings import java_client_settings
from authorizer.configuration.client_properties.jaas import parse_jaas
from authorizer.configuration.load import load_config
from records.errors import LogError
from records.log.client_keys import ClientKeys, NamedSettings, keys_of
from records.log.open import open_log
from records.log.protocol.settings import protocol_settings
from support.certificates import Authority
from support.data import TESTS
from support.kafka_tools import java_command

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PASSWORD = "store-secret"


def translated(properties: Mapping[str, str]) -> dict[str, str]:
    return dict(java_client_settings(properties).settings)


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)]
)
def test_a_login_by_password_is_translated(mechanism: str, module: str) -> None:
    settings = translated(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="alice" password="a \\"b\\" c";',
        }
    )

    assert settings == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": 'a "b" c',
        "ssl.endpoint.identification.algorithm": "https",
    }
    assert protocol_settings(settings).username == "alice"


def test_client_credentials_are_translated() -> None:
    settings = translated(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
            "OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
            "sasl.jaas.config": f"{OAUTH} required clientId='c' clientSecret='s' scope='acls';",
        }
    )

    assert settings["sasl.oauthbearer.client.id"] == "c"
    assert settings["sasl.oauthbearer.client.secret"] == "s"
    assert settings["sasl.oauthbearer.scope"] == "acls"
    assert protocol_settings(settings).tokens is not None


def test_keys_without_effect_are_named() -> None:
    found = java_client_settings(
        {"client.id": "admin", "request.timeout.ms": "60000", "bootstrap.servers": "b1:9092"}
    )

    assert found.settings == {"security.protocol": "PLAINTEXT"}
    assert found.unused_keys == ("client.id", "request.timeout.ms")
    assert found.log_url == "describe://b1:9092"


def test_keys_that_the_protocol_makes_ineffective_are_named() -> None:
    """As in a file that forgets security.protocol: the connection would be insecure without a word."""
    jaas = f"{PLAIN} required username=a password=b;"

    found = java_client_settings({"sasl.jaas.config": jaas, "ssl.truststore.location": "/t.jks"})

    assert found.settings == {"security.protocol": "PLAINTEXT"}
    assert found.unused_keys == ("sasl.jaas.config", "ssl.truststore.location")


@pytest.mark.parametrize(
    ("properties", "key", "way_out"),
    [
        ({"securityprotocol": "SSL"}, "securityprotocol", "did you mean `security.protocol`?"),
        ({"log.level": "DEBUG"}, "log.level", "correct or remove it"),
        ({"security.protocol": "TLS"}, "security.protocol", "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism", "SCRAM-SHA-512"),
        ({"sasl.kerberos.service.name": "kafka"}, "sasl.kerberos.service.name", "no Kerberos"),
        ({"ssl.cipher.suites": "TLS_AES_128"}, "ssl.cipher.suites", "remove it"),
        ({"config.providers": "file"}, "config.providers", "ACLOG_KAFKA_"),
        (
            {"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"},
            "ssl.enabled.protocols",
            "TLSv1.2 and TLSv1.3",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config",
            "needs a login module",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere.jks"},
            "ssl.truststore.location",
            "No such file",
        ),
    ],
)
def test_what_cannot_be_translated_names_the_key_and_the_way_out(
    properties: dict[str, str], key: str, way_out: str
) -> None:
    with pytest.raises(ConfigError, match=way_out) as raised:
        java_client_settings(properties)

    assert raised.value.key == key


def test_random_texts_are_read_as_kafka_reads_them() -> None:
    """Where Kafka takes one login module, the same options are read; what it refuses is refused."""
    rng = random.Random(27)
    words = 'a.b.Module required Optional username = = = ; ; \' " " \\ \\n \\7 \\101 \\477 / // /*'
    words += " */ # é 😀 x 1 - ."
    pieces = [*words.split(), " ", " ", "\t", "\n", "\r"]
    texts = [
        rng.choice(["", "a.b.Module required ", 'm optional x="'])
        + "".join(rng.choice(pieces) for _ in range(rng.randrange(1, 14)))
        + rng.choice(["", ";", ";", '";'])
        for _ in range(20_000)
    ]
    expected = kafkas_jaas(texts)
    assert sum(each is not None for each in expected) > 1000

    def read(text: str) -> list[str] | None:
        try:
            modules = parse_jaas(text)
        except ValueError:
            return None
        if len(modules) > 1:
            return None
        options = [word for pair in sorted(modules[0].options.items()) for word in pair]
        return [modules[0].name, *options]

    answers = zip(texts, map(read, texts), expected, strict=True)
    wrong = [(text, found, kafkas) for text, found, kafkas in answers if found != kafkas]
    assert wrong == []


def kafkas_jaas(texts: Sequence[str]) -> list[list[str] | None]:
    """The module's simple name and its options, sorted; None: refused, or not one module."""
    done = subprocess.run(
        java_command(str(TESTS / "support" / "JaasEntries.java"), log_level="off"),
        input="".join(f"{text.encode().hex()}\n" for text in texts),
        capture_output=True, text=True, encoding="ascii", check=True,
    )  # fmt: skip
    answers = done.stdout.splitlines()
    assert len(answers) == len(texts)
    found = [[bytes.fromhex(word).decode() for word in each.split(" ")[1:]] for each in answers]
    return [
        None if answer == "error" else [words[0].rpartition(".")[2], *words[1:]]
        for answer, words in zip(answers, found, strict=True)
    ]


def test_no_secret_is_in_an_error() -> None:
    with pytest.raises(ConfigError) as raised:
        java_client_settings(
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN} required username="alice" password="hunter2"',
            }
        )

    assert "semicolon" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_the_value_of_a_mistyped_secret_is_not_in_the_error() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.pass") as raised:
        java_client_settings({"ssl.keystore.pass": "hunter2"})

    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="a" password="b";', {"username": "a", "password": "b"}),
        (f"{PLAIN} required username=a password=b;", {"username": "a", "password": "b"}),
        (f"{PLAIN} REQUIRED\n  username='a'\n  password='b' ;", {"username": "a", "password": "b"}),
        (f'{PLAIN} required password="\\n\\t\\101\\\\" ;', {"password": "\n\tA\\"}),
        (f'{PLAIN} required // username="c"\n username="a";', {"username": "a"}),
        (f'{PLAIN} required /* username="c" */ username="a";', {"username": "a"}),
    ],
)
def test_jaas_is_read_as_by_java(text: str, options: dict[str, str]) -> None:
    (module,) = parse_jaas(text)

    assert module.name == "PlainLoginModule"
    assert dict(module.options) == options


@pytest.mark.parametrize(
    "text", ["", f"{PLAIN}", f"{PLAIN} always;", f"{PLAIN} required username=;", f"{PLAIN} required a=b"]
)
def test_malformed_jaas_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"login module|followed by|is not NAME=VALUE|semicolon"):
        parse_jaas(text)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``key.TYPE`` with a key and ``trust.TYPE`` with its certificate, for both types."""
    path = tmp_path_factory.mktemp("stores")
    for kind in ("jks", "pkcs12"):
        common = ["-storetype", kind, "-storepass", PASSWORD, "-noprompt"]
        key = path / f"key.{kind}"
        keytool(
            *("-genkeypair", "-keystore", key, *common, "-keypass", PASSWORD, "-alias", "k"),
            *("-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=client", "-validity", "30"),
        )
        certificate = path / f"cert.{kind}"
        keytool("-exportcert", "-rfc", "-keystore", key, *common, "-alias", "k", "-file", certificate)
        trust = path / f"trust.{kind}"
        keytool("-importcert", "-keystore", trust, *common, "-alias", "ca", "-file", certificate)
    return path


class TestKeyStores:
    """Stores that the JDK's own keytool wrote."""

    @pytest.mark.parametrize("kind", ["jks", "pkcs12"])
    @pytest.mark.parametrize("claimed", ["JKS", "PKCS12"])
    def test_a_trust_store_gives_its_certificates(self, stores: Path, kind: str, claimed: str) -> None:
        settings = translated(
            {
                "security.protocol": "SSL",
                "ssl.truststore.location": str(stores / f"trust.{kind}"),
                "ssl.truststore.password": PASSWORD,
                "ssl.truststore.type": claimed,
            }
        )

        exported = (stores / f"cert.{kind}").read_text(encoding="ascii")
        assert ssl.PEM_cert_to_DER_cert(settings["ssl.ca.pem"]) == ssl.PEM_cert_to_DER_cert(exported)

    @pytest.mark.parametrize("kind", ["jks", "pkcs12"])
    def test_a_key_store_gives_the_key_and_its_chain(self, stores: Path, tmp_path: Path, kind: str) -> None:
        settings = translated(
            {
                "security.protocol": "SSL",
                "ssl.keystore.location": str(stores / f"key.{kind}"),
                "ssl.keystore.password": PASSWORD,
                "ssl.key.password": PASSWORD,
            }
        )

        both = tmp_path / "both.pem"
        both.write_text(settings["ssl.key.pem"] + settings["ssl.certificate.pem"], encoding="ascii")
        # It fails unless the key is that of the certificate.
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(both)

    @pytest.mark.parametrize("kind", ["jks", "pkcs12"])
    @pytest.mark.parametrize(("password", "reason"), [("wrong-one", "wrong"), (None, "missing")])
    def test_a_password_that_does_not_fit_is_named(
        self, stores: Path, kind: str, password: str | None, reason: str
    ) -> None:
        properties = {"security.protocol": "SSL", "ssl.keystore.location": str(stores / f"key.{kind}")}
        if password is not None:
            properties["ssl.keystore.password"] = password

        with pytest.raises(ConfigError, match=reason):
            java_client_settings(properties)

    def test_an_encrypted_key_in_pem_is_decrypted(self, stores: Path, tmp_path: Path) -> None:
        plain = translated(
            {
                "security.protocol": "SSL",
                "ssl.keystore.location": str(stores / "key.pkcs12"),
                "ssl.keystore.password": PASSWORD,
            }
        )
        source, encrypted = tmp_path / "plain.pem", tmp_path / "encrypted.pem"
        source.write_text(plain["ssl.key.pem"], encoding="ascii")
        subprocess.run(
            ["openssl", "pkcs8", "-topk8", "-v2", "aes-256-cbc", "-in", source, "-out", encrypted,
             "-passout", f"pass:{PASSWORD}"], check=True, capture_output=True)  # fmt: skip

        settings = translated(
            {
                "security.protocol": "SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": encrypted.read_text(encoding="ascii"),
                "ssl.keystore.certificate.chain": plain["ssl.certificate.pem"],
                "ssl.key.password": PASSWORD,
            }
        )

        assert settings["ssl.key.pem"] == plain["ssl.key.pem"]

    @pytest.mark.parametrize("length", [3, 11, 40, 200])
    def test_a_truncated_store_is_an_error(self, stores: Path, tmp_path: Path, length: int) -> None:
        cut = tmp_path / "cut.jks"
        cut.write_bytes((stores / "trust.jks").read_bytes()[:length])

        with pytest.raises(ConfigError, match=r"truncated|not a PEM"):
            java_client_settings({"security.protocol": "SSL", "ssl.truststore.location": str(cut)})

    @pytest.mark.parametrize("name", ["key.jks", "trust.jks", "key.pkcs12", "trust.pkcs12", "cert.jks"])
    @pytest.mark.parametrize("password", [PASSWORD, None])
    def test_a_damaged_store_is_a_configuration_error(
        self, stores: Path, tmp_path: Path, name: str, password: str | None
    ) -> None:
        """Never another exception, wherever the damage is; without a password JKS has no digest to fail."""
        content = (stores / name).read_bytes()
        rng = random.Random(27)
        damaged = tmp_path / name
        refused = 0
        for _ in range(200):
            changed = bytearray(content)
            for _ in range(rng.randrange(1, 4)):
                changed[rng.randrange(4, len(changed))] = rng.randrange(256)
            damaged.write_bytes(changed[: rng.choice([len(changed), rng.randrange(len(changed))])])
            properties = {"security.protocol": "SSL", "ssl.truststore.location": str(damaged)}
            if password is not None:
                properties["ssl.truststore.password"] = password
            try:
                java_client_settings(properties)
            except ConfigError:
                refused += 1
        assert refused > 50

    def test_a_certificate_of_an_unknown_version_is_a_configuration_error(
        self, stores: Path, tmp_path: Path
    ) -> None:
        """One changed byte of a JKS file, which has no digest to fail without a password."""
        content = bytearray((stores / "trust.jks").read_bytes())
        version = content.index(b"\xa0\x03\x02\x01\x02") + 4  # [0] EXPLICIT INTEGER v3
        content[version] = 30
        (tmp_path / "damaged.jks").write_bytes(content)
        properties = {
            "security.protocol": "SSL", "ssl.truststore.location": str(tmp_path / "damaged.jks"),
        }  # fmt: skip
        with pytest.raises(ConfigError, match=r"damaged\.jks"):
            java_client_settings(properties)


def keytool(*arguments: object) -> None:
    subprocess.run(["keytool", *map(str, arguments)], check=True, capture_output=True)


def test_errors_name_the_javas_key_and_its_file(tmp_path: Path) -> None:
    """A key of aclog's own that overrides one is named as it is written."""
    file, config = tmp_path / "client.properties", tmp_path / "aclog.properties"
    jaas = f"{PLAIN} required username=alice password=secret;"
    file.write_text(f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n")
    config.write_text(f"aclog.command.config={file}\naclog.kafka.ssl.ca.location=/ca.pem\n")

    keys = keys_of(load_config(config, environ={}).kafka)

    assert keys.named("security.protocol") == f"security.protocol of {file}"
    assert keys.named("sasl.username", "sasl.password") == f"sasl.jaas.config of {file}"
    assert keys.named("ssl.certificate.pem") == f"ssl.keystore.location of {file}"
    assert keys.named("sasl.*", "ssl.*") == f"sasl.* and ssl.* of {file}"
    assert keys.named("ssl.ca.location") == "aclog.kafka.ssl.ca.location"
    assert keys.named("sasl.*", "ssl.ca.location") == f"sasl.* of {file} and aclog.kafka.ssl.ca.location"


def test_a_key_in_pem_is_named_as_written() -> None:
    found = java_client_settings(
        {"security.protocol": "SSL", "ssl.truststore.certificates": Authority().pem}
    ).java_keys

    assert found["ssl.ca.pem"] == found["ssl.ca.location"] == "ssl.truststore.certificates"


@pytest.mark.parametrize("url", ["kraft://c:1", "describe://b:1", "kafka://b:1/acls"])
def test_a_setting_that_a_client_cannot_have_is_named_as_written(url: str) -> None:
    settings = {"isolation.level": "x"}

    for client, name in (
        (settings, "aclog.kafka.isolation.level"),
        (NamedSettings(settings, ClientKeys("f", {"isolation.level": "level"})), "level of f"),
    ):
        with pytest.raises(LogError, match=rf"^{re.escape(name)} (is not supported|cannot be set)"):
            open_log(url, client=client)
