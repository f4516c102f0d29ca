"""Runs commands of aclog in the test's process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from authorizer.cli.main import cli


def aclog(*args: object, code: int | None = None, stdin: str | bytes | None = None) -> Result:
    """Run a command; ``code``: the exit code that it must have."""
    result = CliRunner().invoke(cli, [*map(str, args)], input=stdin)
    assert code is None or result.exit_code == code, result.output
    return result


def checked_aclog(*args: object, code: int = 0) -> Result:
    """Run a command that must succeed, or must have this exit code."""
    return aclog(*args, code=code)
