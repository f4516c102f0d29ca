"""Settings of a running node: applied completely or not at all, by a reload of the file or by a PUT."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from authorizer.api.errors import ConfigError, RestartNeededError
from authorizer.configuration.keys.table import KEYS
from authorizer.configuration.load import Config, load_config
from authorizer.node.node import Node
from authorizer.node.reconfiguration import DYNAMIC_KEYS, Change, Reconfiguration
from support.node_acls import may

FILE = """
super.users=User:root
aclog.audit.level=INFO
aclog.kafka.sasl.password=old-secret
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "aclog.properties"
    path.write_text(FILE)
    return path


def reconfiguration(path: Path | None, **flags: str) -> tuple[Reconfiguration, list[Config]]:
    """A reconfiguration, and the configurations that its subscriber got."""
    made = Reconfiguration(load_config(path, environ={"ACLOG_MAX_LAG_MS": "7"}, flags=flags))
    taken: list[Config] = []
    made.subscribe(taken.append)
    return made, taken


def test_a_reload_applies_changed_settings(path: Path) -> None:
    """Also removed settings; the environment has precedence, as at the start."""
    settings, taken = reconfiguration(path)
    path.write_text(
        "super.users=User:other;User:b\naclog.max.lag.ms=9\naclog.kafka.sasl.password=old-secret\n"
    )
    assert settings.reload("SIGHUP") == [Change("super.users", "User:root", "User:other;User:b")]
    assert settings.config is taken[-1]
    assert taken[-1].super_users == {"User:other", "User:b"}
    assert taken[-1].max_lag_ms == 7
    path.write_text("aclog.audit.level=OFF\naclog.kafka.sasl.password=old-secret\n")
    assert settings.reload("SIGHUP") == [
        Change("aclog.audit.level", "INFO", "OFF"),
        Change("super.users", "User:other;User:b", ""),
    ]


def test_a_late_subscriber_gets_earlier_changes(path: Path) -> None:
    """For example a cluster of a fleet with a slow log; a subscriber without missed changes is not called."""
    settings, _ = reconfiguration(path)
    before = settings.config
    settings.put({"aclog.audit.level": "OFF"}, "test")
    late: list[Config] = []
    settings.subscribe(late.append, before)
    assert late == [settings.config]
    settings.subscribe(late.append, settings.config)
    assert len(late) == 1


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("super.users=User:b\naclog.audit.level=LOUD\n", "aclog.audit.level"),
        ("super.users=User:b\nsuper.users=nobody\n", "super.users"),
        ("super.users=User:b\naclog.no.such=1\n", "aclog.no.such"),
        (
            "super.users=User:b\naclog.log.url=elsewhere\naclog.kafka.sasl.password=old-secret",
            "aclog.log.url",
        ),
        ("super.users=User:b\naclog.kafka.sasl.password=new-secret\n", "aclog.kafka.sasl.password"),
        ("super.users=User:b\naclog.listeners=PLAINTEXT://127.0.0.1:1\n", "aclog.listeners"),
        ("super.users=User:b\nlistener.name.x.ssl.keystore.location=y\n", "listener.name.x.ssl"),
        (None, "--config"),
    ],
)
def test_one_invalid_setting_rejects_all(path: Path, text: str | None, named: str) -> None:
    settings, taken = reconfiguration(path)
    before = settings.config
    path.unlink() if text is None else path.write_text(text)
    with capture_logs() as lines:
        settings.reload_on_sighup()
    assert (settings.config, taken) == (before, [])
    (line,) = lines
    assert line["event"] == "settings_not_changed"
    assert named in line["reason"]
    assert "secret" not in str(lines).replace("aclog.auth", "")


def test_equal_values_in_other_notation_are_no_change(path: Path) -> None:
    """Keys that aclog does not use are ignored."""
    settings, _ = reconfiguration(path)
    path.write_text(FILE.replace("INFO", " info ") + "aclog.log.mode=AUTO\nnum.io.threads=8\n")
    assert settings.reload("SIGHUP") == []


def test_a_reload_without_a_file_is_refused() -> None:
    settings, taken = reconfiguration(None)
    with pytest.raises(ConfigError, match="started without a file"):
        settings.reload("SIGHUP")
    assert settings.put({"super.users": "User:a"}, "me") == [Change("super.users", "", "User:a")]
    assert taken[-1].super_users == {"User:a"}


def test_put_settings_take_precedence_until_the_next_reload(path: Path) -> None:
    settings, _ = reconfiguration(path)
    put = {"super.users": "User:put", "aclog.max.lag.ms": "8"}
    assert {change.name for change in settings.put(put, "me")} == set(put)
    assert settings.config.super_users == {"User:put"}
    assert settings.config.max_lag_ms == 8
    assert settings.config.sources["super.users"] == "put"
    # One key is reset, the other remains; the file is not read.
    path.write_text("super.users=User:later\naclog.log.url=elsewhere\n")
    assert settings.put({"super.users": None}, "me") == [Change("super.users", "User:put", "User:root")]
    assert settings.config.max_lag_ms == 8
    path.write_text(FILE)
    assert settings.reload("SIGHUP") == [Change("aclog.max.lag.ms", "8", "7")]
    assert settings.config.sources["aclog.max.lag.ms"] == "environment"


def test_a_put_applies_completely_or_not_at_all_and_may_be_a_dry_run(path: Path) -> None:
    settings, taken = reconfiguration(path)
    with pytest.raises(ConfigError, match="nobody"):
        settings.put({"aclog.audit.level": "OFF", "super.users": "nobody"}, "me")
    for static in ("aclog.log.url", "listeners", "num.io.threads", "no.such"):
        with pytest.raises(RestartNeededError, match=static):
            settings.put({"super.users": "User:b", static: "x"}, "me")
    assert settings.put({"super.users": "User:b"}, "me", is_trial=True)
    assert taken == []
    assert settings.put({"aclog.audit.level": None}, "me") == []


def test_changes_are_logged_with_old_and_new_values(path: Path) -> None:
    settings, _ = reconfiguration(path)
    with capture_logs() as lines:
        settings.put({"super.users": "User:b"}, "User:admin at 10.0.0.1 on listener SSL")
    assert lines == [
        {
            "event": "setting_changed",
            "log_level": "warning",
            "key": "super.users",
            "old": "User:root",
            "new": "User:b",
            "by": "User:admin at 10.0.0.1 on listener SSL",
        }
    ]


def test_a_node_decides_with_its_new_settings(tmp_path: Path) -> None:
    """Super users, the default, the audit level, the lag; followers of changes discard cached decisions."""
    flags = {"aclog.log.url": os.fspath(tmp_path / "log"), "aclog.log.mode": "create"}
    with Node.open(load_config(environ={}, flags=flags)) as node:
        node.start()
        assert node.wait_until_ready(60)
        state, generation = node.authorizer.state, node.changes.retained.generation
        assert not may(node.authorizer, "orders")
        node.reconfiguration.put({"super.users": "User:a"}, "me")
        assert may(node.authorizer, "orders")
        assert node.changes.retained.generation == generation + 1
        assert not state.settings.super_users  # an earlier state does not change
        node.reconfiguration.put(
            {"super.users": None, "allow.everyone.if.no.acl.found": "true", "aclog.max.lag.ms": "1"}, "me"
        )
        assert may(node.authorizer, "orders")
        assert node.config.max_lag_ms == 1
        threshold = node.audit.threshold
        generation = node.changes.retained.generation
        node.reconfiguration.put({"aclog.audit.level": "TRACE"}, "me")
        assert node.audit.threshold < threshold
        assert node.changes.retained.generation == generation


def test_the_table_marks_dynamic_keys() -> None:
    assert set(DYNAMIC_KEYS) == {key.name for key in KEYS if key.is_dynamic}
    assert {"super.users", "allow.everyone.if.no.acl.found", "aclog.describe.principals"} < set(DYNAMIC_KEYS)
