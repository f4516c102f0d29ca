"""A Spark Connect server that is not there, and options that do not fit it."""

from __future__ import annotations

import socket

import pytest
from click.testing import CliRunner

from authorizer.cli.failure import ExitCode, Failure, failure_of
from authorizer.cli.main import cli
from authorizer.cli.spark import requirements
from records.install_command import install_command
from snapshot.errors import SparkConnectError
from snapshot.jobs.session.connect import connect_session


@pytest.mark.parametrize("url", ["localhost:15002", "sc://", "sc://host:port", "http://host:15002"])
def test_url_of_another_kind(url: str) -> None:
    with pytest.raises(SparkConnectError, match=r"is not sc://HOST\[:PORT\]"):
        connect_session(url)


def test_server_that_does_not_listen() -> None:
    """An error within seconds, and a retry may help."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(
            SparkConnectError, match=f"no Spark Connect server at 127.0.0.1:{port}: "
        ) as caught:
            connect_session(f"sc://127.0.0.1:{port}")
    assert failure_of(caught.value).code is ExitCode.NOT_READY


def test_settings_of_a_classic_session_are_refused() -> None:
    flags = ["--history", "h", "--remote", "sc://localhost", "--master", "local[2]"]
    done = CliRunner().invoke(cli, ["spark", "history", "in-force", *flags])
    assert done.exit_code == ExitCode.USAGE
    assert "--master, --packages, --conf and --archives are for a classic session" in done.stderr


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "_CONNECT", ("no_such_package",))
    with pytest.raises(Failure, match="no_such_package is not installed") as caught:
        requirements.require_connect()
    assert install_command("connect") in caught.value.hint
