"""``aclog quickstart``: an embedded log with a real broker's ACLs, a node, a sidecar, and one decision that flips."""

from __future__ import annotations

import json
import shutil
import threading
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.cli.explanation import explanation_lines
from authorizer.cli.output import note
from authorizer.cli.signals import ends_on_signals
from authorizer.config import load_config
from authorizer.config_keys import LISTENERS, LOG_MODE, LOG_URL, SNAPSHOT_STORE
from authorizer.errors import ConfigError
from records.acl import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from records.entries import (
    AccessControlEntryRecord,
    ControlRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from records.log.directory import DirectoryLog
from records.principal import KafkaPrincipal

if TYPE_CHECKING:
    from authorizer.api import Action, RequestContext
    from authorizer.config import Config
    from authorizer.node import Node
    from authorizer.sidecar.server import Sidecar

#: A real broker's ``__cluster_metadata-0`` (Kafka 4.3.1), as in tests/data/oracle/logs/kraft-small.
EXAMPLE_LOG: Final = Path(__file__).with_name("example_log")

_PORT: Final = 8180
_PROPERTIES: Final = "quickstart.properties"
_TIMEOUT_S: Final = 30.0

_WHO: Final = KafkaPrincipal("User", "dora")
_HOST: Final = "10.0.0.7"
_TOPIC: Final = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)
_GRANT: Final = AclBinding(
    _TOPIC, AccessControlEntry(str(_WHO), "*", AclOperation.READ, AclPermissionType.ALLOW)
)


@click.command("quickstart")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default="aclog-quickstart",
    show_default=True,
    help="Where the embedded log and the snapshots are kept; a second run goes on with what is there.",
)
@click.option("--fresh", is_flag=True, help="Delete what an earlier quickstart left in the directory first.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Port on 127.0.0.1; 0 for any free one.  [default: {_PORT}, or any if that is taken]",
)
@click.option("--stay/--exit", default=True, show_default=True, help="Go on serving after the tour, or end.")
def quickstart_command(*, directory: Path, fresh: bool, port: int | None, stay: bool) -> None:
    """Run everything here and now, on an example log.

    Imports a real broker's metadata log into an embedded one, replays it, serves decisions over HTTP, and shows
    how one ACL turns a DENIED into an ALLOWED, with the explanations. No Kafka is needed. Stays up until
    Ctrl-C.

    \b
    Examples:
      aclog quickstart
      aclog quickstart --directory /tmp/aclog --fresh --exit
    """
    from authorizer.log_setup import setup_logging
    from authorizer.node import Node

    if fresh:
        _delete(directory)
    _step("1. The log")
    _import_example(directory / "log")
    config = _settings(directory, port)
    setup_logging(config.logging_format, "WARNING")
    with ends_on_signals(), ExitStack() as opened:
        _step("2. The node")
        node = opened.enter_context(Node.open(config))
        sidecar, config = _sidecar(node, config, directory, port)
        opened.enter_context(sidecar)
        _start(node, sidecar)
        _Tour(node, sidecar.urls[0]).run()
        _more(directory, sidecar.urls[0])
        if stay:
            click.echo(f"\nServing on {sidecar.urls[0]} until Ctrl-C.")
            threading.Event().wait()


def _step(title: str) -> None:
    click.echo("\n" + click.style(title, bold=True))


def _say(text: str = "") -> None:
    click.echo(f"   {text}" if text else "")


def _delete(directory: Path) -> None:
    """Only what a quickstart made: a mistyped --directory must not cost anything."""
    if not directory.exists():
        return
    if not (directory / _PROPERTIES).is_file():
        raise click.UsageError(f"--fresh: {directory} was not made by a quickstart; delete it by hand")
    for made in ("log", "snapshots"):
        if (directory / made).exists():
            shutil.rmtree(directory / made)
    (directory / _PROPERTIES).unlink()
