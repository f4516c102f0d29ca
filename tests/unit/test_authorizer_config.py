"""The configuration: file < environment < flags, typed values, errors that say what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizer.api.authorizer_api import Endpoint, SecurityProtocol
from authorizer.api.errors import ConfigError
from authorizer.configuration.broker_file import BROKER_KEYS
from authorizer.configuration.keys.key import OptionalKey
from authorizer.configuration.keys.table import BY_VARIABLE, KEYS
from authorizer.configuration.load import Config, load_config, read_properties
from authorizer.configuration.reference import configuration_markdown
from authorizer.configuration.refused_keys import file_notes, refuse_mistyped_keys

ROOT = Path(__file__).resolve().parents[2]

LOOPBACK = Endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", 8180)

KAFKAS = ROOT / "tests" / "data" / "kafka-config"
BROKER_FILE = (KAFKAS / "server.properties").read_text(
    encoding="utf-8"
) + "super.users=User:admin;User:CN=a,O=b\n"


def load(text: str = "", *, tmp_path: Path | None = None, **environ: str) -> Config:
    if tmp_path is None:
        assert not text
        return load_config(environ=environ)
    file = tmp_path / "server.properties"
    file.write_text(text, encoding="utf-8")
    return load_config(file, environ=environ)


def refusal(text: str, tmp_path: Path, **environ: str) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        load(text, tmp_path=tmp_path, **environ)
    return raised.value


def test_defaults_are_safe() -> None:
    """Without any setting: loopback only, nobody is a super user, nothing is open, denials are audited."""
    config = load()
    assert config.served_listeners() == (LOOPBACK,)
    assert config.super_users == frozenset()
    assert config.allow_everyone_if_no_acl_found is False
    assert config.early_start_listeners == frozenset()
    assert config.audit_level == "INFO"
    assert config.log_mode == "auto"
    assert config.snapshot_keep >= 2


def test_a_brokers_own_file_works_as_it_is(tmp_path: Path) -> None:
    """Unknown keys are ignored; the broker's principals apply, its listeners do not."""
    config = load(BROKER_FILE, tmp_path=tmp_path)
    assert config.super_users == {"User:admin", "User:CN=a,O=b"}
    assert config.served_listeners() == (LOOPBACK,)
    assert config.early_start_listeners == {"CONTROLLER"}
    assert config.node_id == 1


def test_a_brokers_own_file_takes_aclogs_listeners(tmp_path: Path) -> None:
    """``aclog.listeners`` says where aclog listens, in the file or by its variable."""
    in_file = load(BROKER_FILE + "aclog.listeners=PLAINTEXT://127.0.0.1:1\n", tmp_path=tmp_path)
    assert [each.port for each in in_file.served_listeners()] == [1]
    by_variable = load(BROKER_FILE, tmp_path=tmp_path, ACLOG_LISTENERS="PLAINTEXT://[::1]:2")
    assert by_variable.served_listeners() == (Endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "::1", 2),)


@pytest.mark.parametrize("file", sorted(KAFKAS.iterdir()), ids=lambda file: file.stem)
def test_no_key_of_kafkas_distribution_is_taken_for_a_mistyped_one(file: Path) -> None:
    properties = read_properties(file)
    assert file_notes(properties) == {}
    # As in a file of aclog, where such a key is an error.
    refuse_mistyped_keys({key: text for key, text in properties.items() if key not in BROKER_KEYS})


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("super.users=admin\n", "line 1"),
        ("# super.users=x\r\n\r\nsuper.users=admin", "line 3"),
        ("a=\\\n  b\nsuper.users = \\\n  admin\n", "line 3"),
        ("super.users=User:a\nsuper.users=admin\n", "line 2"),
        ("aclog.clusters=east\n\naclog.cluster.east.super.users=admin\n", "line 3"),
    ],
)
def test_an_error_names_the_line_of_the_value(text: str, where: str, tmp_path: Path) -> None:
    error = refusal(text, tmp_path)
    assert error.where == f"{tmp_path / 'server.properties'} {where}"
    assert str(error).startswith(f"{error.where}: invalid value `admin` for `")


def test_an_error_in_a_variable_names_no_line(tmp_path: Path) -> None:
    assert refusal("super.users=User:a\n", tmp_path, ACLOG_SUPER_USERS="admin").where == ""


@pytest.mark.parametrize(
    ("file", "node_id", "directory"),
    [
        ("server", 1, "/tmp/kraft-combined-logs"),
        ("broker", 2, "/tmp/kraft-broker-logs"),
        ("controller", 1, "/tmp/kraft-controller-logs"),
    ],
)
def test_the_files_of_kafkas_distribution_are_read(file: str, node_id: int, directory: str) -> None:
    """Each file works unchanged: node id, log directory, and aclog's default listener."""
    config = load_config(KAFKAS / f"{file}.properties", environ={})
    assert config.node_id == node_id
    assert config.served_listeners() == (LOOPBACK,)
    assert config.early_start_listeners == {"CONTROLLER"}
    assert config.log_url is None
    assert config.broker_log is not None
    assert config.broker_log.key == "log.dirs"
    assert config.broker_log.directory == Path(directory, "__cluster_metadata-0")


@pytest.mark.parametrize(
    ("lines", "key", "directory"),
    [
        ("log.dir=/one", "log.dir", "/one"),
        ("log.dir=/one\nlog.dirs= /two , /three", "log.dirs", "/two"),
        ("log.dir=/one\nlog.dirs=/two\nmetadata.log.dir=/four", "metadata.log.dir", "/four"),
        ("log.dirs=\nlog.dir=/one", "log.dir", "/one"),
        ("zookeeper.connect=localhost\nprocess.roles=broker\nlog.dirs=/migrating", "log.dirs", "/migrating"),
    ],
)
def test_the_metadata_log_of_a_broker_is_found(lines: str, key: str, directory: str, tmp_path: Path) -> None:
    """As in KafkaConfig.metadataLogDir and logDirs."""
    found = load(lines, tmp_path=tmp_path).broker_log
    assert found is not None
    assert (found.key, found.directory) == (key, Path(directory, "__cluster_metadata-0"))


@pytest.mark.parametrize("lines", ["", "node.id=1", "zookeeper.connect=localhost\nlog.dirs=/tmp/kafka-logs"])
def test_some_files_name_no_metadata_log(lines: str, tmp_path: Path) -> None:
    """A file of aclog, and one of a broker with its metadata in ZooKeeper."""
    assert load(lines, tmp_path=tmp_path).broker_log is None


def test_a_configured_log_wins_over_the_brokers(tmp_path: Path) -> None:
    """In the file, by its variable or by a flag; otherwise the broker's log, if it is on this machine."""
    home = tmp_path / "data"
    broker = BROKER_FILE.replace("/tmp/kraft-combined-logs", str(home))
    assert load(broker, tmp_path=tmp_path, ACLOG_LOG_URL="file:mine").require_log_url() == "file:mine"
    config = load(broker, tmp_path=tmp_path)
    with pytest.raises(ConfigError) as raised:
        config.require_log_url()
    assert (raised.value.key, raised.value.value) == ("log.dirs", str(home))
    assert f"there is no {home}/__cluster_metadata-0 here" in str(raised.value)
    (home / "__cluster_metadata-0").mkdir(parents=True)
    assert config.require_log_url() == f"{home}/__cluster_metadata-0"


@pytest.mark.parametrize("key", BROKER_KEYS)
def test_each_broker_key_marks_the_listeners_as_the_brokers(key: str, tmp_path: Path) -> None:
    """aclog never binds the ports of a broker, even if its file is incomplete."""
    text = f"{key}=x\nlisteners=EXTERNAL://0.0.0.0:9092\nlistener.security.protocol.map=EXTERNAL:SASL_SSL\n"
    assert load(text, tmp_path=tmp_path).served_listeners() == (LOOPBACK,)


def test_the_protocol_map_of_a_broker_does_not_apply_to_aclogs_listener(tmp_path: Path) -> None:
    """A broker may map the name PLAINTEXT to any protocol; the sidecar's default does not change."""
    mapped = BROKER_FILE + "listener.security.protocol.map=CONTROLLER:SSL,PLAINTEXT:SASL_SSL\n"
    assert load(mapped, tmp_path=tmp_path).served_listeners() == (LOOPBACK,)


def test_environment_wins_over_the_file_and_flags_over_both(tmp_path: Path) -> None:
    """The order is the same for Kafka's keys and for aclog's."""
    file = tmp_path / "p"
    file.write_text("aclog.log.url=file:1\naclog.snapshot.keep=1\nsuper.users=User:file\n", encoding="utf-8")
    environ = {"ACLOG_LOG_URL": "file:2", "ACLOG_SNAPSHOT_KEEP": "2", "ACLOG_SUPER_USERS": "User:env"}
    flags = {"aclog.log.url": "file:3", "aclog.snapshot.keep": None}
    config = load_config(file, environ=environ, flags=flags)
    assert (config.log_url, config.snapshot_keep) == ("file:3", 2)
    assert config.super_users == {"User:env"}
    assert load_config(file, environ={}).log_url == "file:1"


def test_each_key_has_one_variable() -> None:
    """The documented mapping is one to one."""
    assert len(BY_VARIABLE) == sum(key.environment for key in KEYS)
    assert BY_VARIABLE["ACLOG_LOG_URL"].name == "aclog.log.url"
    assert BY_VARIABLE["ACLOG_ALLOW_EVERYONE_IF_NO_ACL_FOUND"].name == "allow.everyone.if.no.acl.found"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("aclog.log.ulr=x", "did you mean `aclog.log.url`?"),
        ("aclog.snapshots.keep=3", "did you mean `aclog.snapshot.keep`?"),
        ("aclog.zzz=1", "the keys are"),
    ],
)
def test_an_unknown_key_of_our_own_is_an_error(line: str, hint: str, tmp_path: Path) -> None:
    """A misspelt key must not disable a setting silently."""
    error = refusal(line, tmp_path)
    assert error.key == line.partition("=")[0]
    assert hint in str(error)


def test_a_mistyped_variable_is_an_error_and_a_strange_one_is_not() -> None:
    """Kubernetes sets ACLOG_SERVICE_HOST and the like for a service named aclog."""
    strange = {
        "ACLOG_SERVICE_HOST": "10.0.0.1",
        "ACLOG_SERVICE_PORT_HTTP": "8180",
        "ACLOG_PORT": "tcp://10.0.0.1:8180",
        "ACLOG_PORT_8180_TCP_ADDR": "10.0.0.1",
        "ACLOG_CACHE": "/tmp",
    }
    assert load_config(environ=strange) == load_config(environ={})
    with pytest.raises(ConfigError, match="did you mean ACLOG_SUPER_USERS"):
        load_config(environ={"ACLOG_SUPER_USER": "User:a"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("super.users", "admin"),
        ("super.users", "User:a,b;c"),
        ("node.id", "one"),
        ("aclog.snapshot.keep", "0"),
        ("aclog.snapshot.max.bytes", "20MB"),
        ("aclog.acl.update.timeout.ms", "-1"),
        ("aclog.audit.level", "WARN"),
        ("aclog.logging.format", "xml"),
        ("aclog.log.mode", "append"),
        ("aclog.sidecar.default.host", "localhost"),
        ("aclog.sidecar.public.url", "acls.example.org"),
        ("aclog.sidecar.public.url", "https://acls.example.org/?tenant=1"),
        ("aclog.trusted.proxies", "*"),
        ("aclog.trusted.proxies", "10.0.0.1/8"),
        ("aclog.describe.principals", "ANONYMOUS"),
        ("aclog.authzen.subject.aliases", "user"),
        ("aclog.authzen.resource.aliases", "record:FILE"),
        ("aclog.authzen.resource.aliases", "record:TOPIC;record:GROUP"),
        ("aclog.authzen.action.aliases", "can_read:ANY"),
        ("aclog.authzen.action.aliases", "read:WRITE"),
        ("aclog.listeners", "127.0.0.1:8180"),
        ("listeners", ""),
        ("listeners", "PLAINTEXT://127.0.0.1:70000"),
        ("listeners", "INTERNAL://127.0.0.1:8180"),
        ("listeners", "UNIX:///run/"),
        ("listeners", "UNIX:///run/a,UNIX:///run/b"),
        ("ssl.client.auth", "maybe"),
        ("aclog.unix.principals", "uid:a=User:a"),
        ("aclog.allow.plaintext.beyond.loopback", "yes"),
        ("listeners", "PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2"),
        ("listeners", "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:1"),
        ("listeners", "PLAINTEXT://:1,SSL://127.0.0.1:1"),
        ("listener.security.protocol.map", "A:TLS"),
        ("listener.security.protocol.map", "A"),
        ("early.start.listeners", "NOBODY"),
    ],
)
def test_a_bad_value_names_key_value_and_what_is_allowed(key: str, value: str, tmp_path: Path) -> None:
    """All three are in the message and in fields."""
    error = refusal(f"{key}={value}", tmp_path)
    assert (error.key, error.value) == (key, value)
    assert error.allowed
    for part in (key, value, error.allowed):
        assert part in str(error)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("true", True), (" TRUE ", True), ("True", True), ("yes", False), ("1", False), ("", False)],
)
def test_allow_everyone_is_read_as_kafka_does(value: str, expected: bool, tmp_path: Path) -> None:
    """Only the word true, in any case, enables it."""
    config = load(f"allow.everyone.if.no.acl.found={value}", tmp_path=tmp_path)
    assert config.allow_everyone_if_no_acl_found is expected


def test_non_ascii_names_in_utf8_latin1_and_escapes(tmp_path: Path) -> None:
    """UTF-8 as people write it today, Latin-1 as Java reads it, and escapes in either."""
    for data in (
        "super.users=User:é".encode(),
        "super.users=User:é".encode("latin-1"),
        b"super.users=User:\\u00e9",
    ):
        file = tmp_path / "p"
        file.write_bytes(data)
        assert load_config(file, environ={}).super_users == {"User:é"}


@pytest.mark.parametrize("kind", ["missing", "directory", "escape"])
def test_an_unreadable_file_is_a_config_error(kind: str, tmp_path: Path) -> None:
    """The message has the path and the reason, in one line."""
    path = tmp_path / "file"
    if kind == "directory":
        path.mkdir()
    elif kind == "escape":
        path.write_text("a=\\u12", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_config(path, environ={})
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


# --- listeners ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listener", "why"),
    [
        ("SASL_SSL://127.0.0.1:8180", "PLAINTEXT and SSL are served over HTTP, not SASL_SSL"),
        ("PLAINTEXT://0.0.0.0:8180", "set aclog.allow.plaintext.beyond.loopback=true"),
        ("PLAINTEXT://:8180", "on loopback addresses and Unix sockets"),
        ("PLAINTEXT://example.org:8180", "Give it TLS"),
    ],
)
def test_a_server_refuses_listeners_that_it_cannot_serve(listener: str, why: str, tmp_path: Path) -> None:
    """Reading such a file is fine (aclog check does); serving it is not."""
    config = load(f"listeners={listener}", tmp_path=tmp_path)
    with pytest.raises(ConfigError) as raised:
        config.served_listeners()
    assert raised.value.key == "listeners"
    assert why in str(raised.value)


def test_two_loopback_addresses_may_share_a_port(tmp_path: Path) -> None:
    """One IPv4 and one IPv6 address, as in Kafka; the protocol map defines the names."""
    config = load(
        "listeners=four://127.0.0.1:8180, SIX://[::1]:8180\n"
        "listener.security.protocol.map=FOUR:PLAINTEXT,six:plaintext",
        tmp_path=tmp_path,
    )
    assert [(each.listener_name, each.host) for each in config.served_listeners()] == [
        ("FOUR", "127.0.0.1"),
        ("SIX", "::1"),
    ]


def test_a_unix_socket_is_a_listener(tmp_path: Path) -> None:
    """It needs neither a protocol nor TLS nor the setting for insecure listeners."""
    config = load("listeners=gw:///run/a:b.sock, SSL://:1\ncontroller.listener.names=GW", tmp_path=tmp_path)
    assert config.served_listeners() == (
        Endpoint("GW", SecurityProtocol.PLAINTEXT, "/run/a:b.sock", 0),
        Endpoint("SSL", SecurityProtocol.SSL, None, 1),
    )
    assert config.early_start_listeners == {"GW"}


def test_a_private_key_is_never_printed() -> None:
    """The value of ssl.keystore.key is hidden, like Kafka's Password."""
    assert "hunter2" not in str(ConfigError("listener.name.x.ssl.keystore.key", "hunter2", "a key"))


def test_early_start_defaults_to_the_controllers_listeners(tmp_path: Path) -> None:
    """As Kafka; a controller listener without a protocol is PLAINTEXT, as a KRaft broker has it."""
    listeners = "listeners=PLAINTEXT://127.0.0.1:1,EARLY://127.0.0.1:2\n"
    config = load(listeners + "controller.listener.names=EARLY", tmp_path=tmp_path)
    assert config.early_start_listeners == {"EARLY"}
    protocols = "listener.security.protocol.map=EARLY:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
    config = load(listeners + protocols + "early.start.listeners=PLAINTEXT", tmp_path=tmp_path)
    assert config.early_start_listeners == {"PLAINTEXT"}


def test_a_secured_controller_listener_needs_its_protocol(tmp_path: Path) -> None:
    """KafkaConfig: with any SSL or SASL listener, no listener defaults to PLAINTEXT."""
    error = refusal(
        "listeners=SSL://127.0.0.1:1,EARLY://127.0.0.1:2\ncontroller.listener.names=EARLY", tmp_path
    )
    assert "no security protocol is defined for listener EARLY" in str(error)


# --- the rest ----------------------------------------------------------------------------------------------


def test_client_settings_are_passed_through(tmp_path: Path) -> None:
    """``aclog.kafka.*`` from the file and ``ACLOG_KAFKA_*``, without the prefix."""
    config = load(
        "aclog.kafka.sasl.username=u\naclog.kafka.sasl.password=file",
        tmp_path=tmp_path,
        ACLOG_KAFKA_SASL_PASSWORD="env",
    )
    assert config.kafka == {"sasl.username": "u", "sasl.password": "env"}


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.key.pem",
        "sasl.jaas.config",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
    ],
)
def test_secrets_are_never_printed(key: str, tmp_path: Path) -> None:
    """Neither in the text of a configuration, nor in an error about the key."""
    config = load(f"aclog.kafka.{key}=hunter2", tmp_path=tmp_path)
    assert config.kafka[key] == "hunter2"
    assert "hunter2" not in repr(config)
    mistyped = refusal(f"aclog.kafk.{key}=hunter2", tmp_path)
    assert "hunter2" not in f"{mistyped} {mistyped.value}"
    assert "[hidden]" in str(mistyped)


def test_kafkas_keys_reach_the_authorizer_as_written(tmp_path: Path) -> None:
    """``Authorizer.configure`` gets the merged texts, unknown keys included, as a broker gives them."""
    config = load(BROKER_FILE, tmp_path=tmp_path, ACLOG_SUPER_USERS="User:env")
    assert config.properties["super.users"] == "User:env"
    assert config.properties["num.network.threads"] == "3"


def test_a_node_needs_a_log() -> None:
    """The error names the key to set."""
    with pytest.raises(ConfigError) as raised:
        load().require_log_url()
    assert raised.value.key == "aclog.log.url"


def test_the_reference_equals_the_table_of_keys() -> None:
    """docs/configuration.md is written by `authorizer.configuration.reference` and has every key."""
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == configuration_markdown(), (
        "run: python -m authorizer.configuration.reference docs/configuration.md"
    )
    for key in KEYS:
        assert f"### `{key.name}`" in page


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_default_is_allowed(key) -> None:  # noqa: ANN001
    """A default is parsed as any value; a key without one has a type that includes None."""
    key.read(None)
    assert isinstance(key, OptionalKey) == (key.default is None)
    assert getattr(load_config(environ={}), key.attribute) == key.read(None)


def test_a_value_can_be_replaced() -> None:
    config = load_config(environ={})
    replaced = config.with_value(Config.log_mode, "read")
    assert (config.log_mode, replaced.log_mode) == ("auto", "read")
    assert replaced.workers == config.workers


@pytest.mark.parametrize(
    ("lines", "key", "way"),
    [
        ("security.protocol=SSL", "security.protocol", ", or write aclog.kafka.security.protocol"),
        ("sasl.mechanism=PLAIN", "sasl.mechanism", ", or write aclog.kafka.sasl.mechanism"),
        ("sasl.jaas.config=x required;", "sasl.jaas.config", "(or as aclog.command.config)"),
        ("ssl.truststore.location=/ca.jks", "ssl.truststore.location", "(or as aclog.command.config)"),
        ("ssl.keystore.location=/k.jks", "ssl.keystore.location", "(or as aclog.command.config)"),
        ("ssl.ca.location=/ca.pem", "ssl.ca.location", ", or write aclog.kafka.ssl.ca.location"),
        ("bootstrap.servers=b1:9093", "bootstrap.servers", "(or as aclog.command.config)"),
        ("node.id=1\nsecurity.protocol=SSL", "security.protocol", ", or write aclog.kafka.security.protocol"),
        (
            "client.id=me\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN",
            "client.id",
            "The same applies to security.protocol, sasl.mechanism",
        ),
    ],
)
def test_a_clients_own_file_is_refused(lines: str, key: str, way: str, tmp_path: Path) -> None:
    """Its keys would be ignored, and connections to the cluster would be insecure or fail."""
    error = refusal(lines, tmp_path)
    assert error.key == key
    assert "give Kafka's own file with --command-config" in str(error)
    assert way in str(error)


def test_a_brokers_own_file_may_have_a_clients_keys(tmp_path: Path) -> None:
    """It works unchanged, with any other keys in it."""
    keys = "security.protocol=SSL\nsasl.jaas.config=x\nssl.truststore.location=/ca.jks\nclient.id=a\n"
    assert load(BROKER_FILE + keys, tmp_path=tmp_path).kafka == {}
    for key in BROKER_KEYS:
        load(f"{key}=/x\n{keys}", tmp_path=tmp_path)


def test_the_stores_of_a_listener_with_tls_are_no_clients_keys(tmp_path: Path) -> None:
    """Also if a flag names another listener, or a variable names the one with TLS."""
    stores = "ssl.truststore.location=/ca.pem\nssl.keystore.location=/server.pem\nssl.key.password=x\n"
    load(f"listeners=SSL://127.0.0.1:8443\n{stores}", tmp_path=tmp_path)
    load(stores, tmp_path=tmp_path, ACLOG_LISTENERS="SSL://127.0.0.1:8443")
    file = tmp_path / "server.properties"
    load_config(file, environ={}, flags={"aclog.listeners": "PLAINTEXT://127.0.0.1:0"})
    assert refusal(stores, tmp_path).key == "ssl.truststore.location"
