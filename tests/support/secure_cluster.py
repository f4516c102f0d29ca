"""A real broker with a SASL_SSL listener, and client.properties files as Java's clients have them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from support.certificates import Authority
from support.cluster_acls import ANY
from support.issuer import AUDIENCE, key_set
from support.kafka_broker import jar_broker, write_properties
from support.sasl_clients import PASSWORD
from support.waiting import wait_until

PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
STORE_PASSWORD: Final = "store-secret"
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
_MECHANISMS: Final = "PLAIN,SCRAM-SHA-512,OAUTHBEARER"
_WAIT_S: Final = 60.0


@dataclass(frozen=True)
class SecureCluster:
    """Attributes: addresses of the TLS, the plaintext and the controllers' listener; a folder of files."""

    secure: str
    plaintext: str
    controllers: str
    home: Path

    def client_properties(self, name: str, **changes: str | None) -> Path:
        """A client.properties of alice, who logs in by SCRAM; ``changes``: keys with _ for dots."""
        properties: dict[str, str | None] = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{SCRAM} required username="alice" password="alice-secret";',
            "ssl.truststore.location": str(self.home / "trust.p12"),
            "ssl.truststore.password": STORE_PASSWORD,
            "ssl.truststore.type": "PKCS12",
            **{key.replace("_", "."): value for key, value in changes.items()},
        }
        path = self.home / f"{name}.properties"
        write_properties(path, {key: value for key, value in properties.items() if value is not None})
        return path

    def admin_properties(self, name: str, **changes: str | None) -> Path:
        """The same of admin, who logs in by PLAIN."""
        login = f'{PLAIN} required username="admin" password="{PASSWORD}";'
        return self.client_properties(
            name, **{"sasl_mechanism": "PLAIN", "sasl_jaas_config": login, **changes}
        )

    @staticmethod
    def token_login(endpoint: str) -> dict[str, str | None]:
        """Changes of a client.properties: a login by a token from this endpoint."""
        return {
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_jaas_config": f"{_OAUTH}LoginModule required clientId='aclog' clientSecret='{PASSWORD}';",
            "sasl_login_callback_handler_class": f"{_OAUTH}LoginCallbackHandler",
            "sasl_oauthbearer_token_endpoint_url": endpoint,
        }


@contextmanager
def secure_cluster(home: Path, *, has_secure_controllers: bool = False) -> Iterator[SecureCluster]:
    """Users alice (SCRAM), bob and admin (PLAIN); alice has Describe on the cluster and may read orders.

    With ``has_secure_controllers`` the controllers listen by SASL_SSL as well, admin is a super user, and
    tokens of ``support.issuer`` are accepted.
    """
    authority = Authority()
    authority.issue("CN=broker").write(home / "store.pem")
    (home / "ca.pem").write_text(authority.pem, encoding="ascii")
    for kind in ("p12", "jks"):
        subprocess.run(
            ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", home / "ca.pem", "-keystore",
             home / f"trust.{kind}", "-storetype", {"p12": "PKCS12", "jks": "JKS"}[kind],
             "-storepass", STORE_PASSWORD], check=True, capture_output=True)  # fmt: skip
    settings = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(home / "store.pem"),
    }
    options: Sequence[str] = ()
    if has_secure_controllers:
        keys = home / "keys.json"
        keys.write_bytes(key_set("one"))
        settings = settings | _secure_controllers(home / "ca.pem", keys)
        options = (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}",)
    with jar_broker(settings, users=("bob", "admin"), options=options) as broker:
        assert broker.sasl_servers is not None
        assert broker.controllers is not None
        plaintext = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": plaintext, "log_level": 0})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upsertion = UserScramCredentialUpsertion("alice", info, b"alice-secret", b"salt")
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result(_WAIT_S)
        grants = [
            (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
            (ResourceType.TOPIC, "orders", AclOperation.READ),
        ]
        literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
        bindings = [
            AclBinding(kind, name, literal, "User:alice", "*", operation, allow)
            for kind, name, operation in grants
        ]
        for created in admin.create_acls(bindings).values():
            created.result(_WAIT_S)
        wait_until(lambda: len(admin.describe_acls(ANY).result(_WAIT_S)) == len(bindings), "the ACLs")
        yield SecureCluster(broker.sasl_servers, plaintext, broker.controllers, home)


def _secure_controllers(trust: Path, keys: Path) -> dict[str, str]:
    settings = {
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL,PLAINTEXT:PLAINTEXT,SASL:SASL_SSL",
        "sasl.enabled.mechanisms": _MECHANISMS,
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": _MECHANISMS,
        "listener.name.controller.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.controller.plain.sasl.jaas.config": (
            f'{PLAIN} required username="admin" password="{PASSWORD}" user_admin="{PASSWORD}";'
        ),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust),
        "super.users": "User:ANONYMOUS;User:admin",
    }
    for name in ("sasl", "controller"):
        settings |= {
            f"listener.name.{name}.oauthbearer.sasl.jaas.config": f"{_OAUTH}LoginModule required;",
            f"listener.name.{name}.oauthbearer.sasl.server.callback.handler.class": (
                f"{_OAUTH}ValidatorCallbackHandler"
            ),
            f"listener.name.{name}.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            f"listener.name.{name}.sasl.oauthbearer.expected.audience": AUDIENCE,
        }
    return settings
