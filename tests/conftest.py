"""The Hypothesis profile, and fixtures that several test files share: real brokers, Spark, a browser.

The profiles `fast` and `ci` (support.example_counts) always try the same examples, so that a change fails for
its own defects. `deep` prints a blob that repeats a failure.
"""

from __future__ import annotations

import logging
import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from support.class_archives import jvm_options
from support.example_counts import PROFILE, examples

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
    from pyspark.sql import SparkSession

    from support.kafka_broker import Broker
    from support.kafka_cluster import KafkaCluster
    from support.kafka_quorum import KafkaQuorum

# No deadlines: the machines are small and shared. too_slow would be one by another name.
settings.register_profile(
    PROFILE,
    max_examples=examples(gate=100, deep=200),
    derandomize=PROFILE != "deep",
    deadline=None,
    print_blob=PROFILE == "deep",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(PROFILE)

# All processes that a test starts inherit this.
os.environ.setdefault("SPARK_SUBMIT_OPTS", shlex.join(jvm_options("spark")))


@pytest.fixture(scope="session", autouse=True)
def _loggers_are_not_cached() -> Iterator[None]:
    """Else a module's logger would keep what it was first used with, in a fixture or a test."""
    configure = structlog.configure

    def configure_uncached(**settings: Any) -> None:
        configure(**{**settings, "cache_logger_on_first_use": False})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(structlog, "configure", configure_uncached)
        yield


@pytest.fixture(autouse=True)
def _logging_is_not_left_behind() -> Iterator[None]:
    """A command that runs in this process sets up logging for all of it: undone after the test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A real Kafka broker, started once; a test uses names of its own (topics, principals) on it."""
    from support.kafka_broker import kafka_broker  # noqa: PLC0415  (most runs need no Kafka client)

    with kafka_broker() as running:
        yield running


@pytest.fixture(scope="session")
def cluster() -> Iterator[KafkaCluster]:
    """Three real brokers, started once; a test may kill them, and leaves all of them running."""
    from support.kafka_cluster import kafka_cluster  # noqa: PLC0415  (most runs need no Kafka client)

    with kafka_cluster() as running:
        yield running


@pytest.fixture(scope="session")
def quorum() -> Iterator[KafkaQuorum]:
    """Three real controllers and a broker, started once; a test may stop them, and leaves all running."""
    from support.kafka_quorum import kafka_quorum  # noqa: PLC0415  (most runs need no Kafka client)

    with kafka_quorum(users=("alice",)) as running:
        yield running


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on two cores, started once; it can read topics."""
    from support.spark import local_spark  # noqa: PLC0415  (most runs need no Spark)

    with local_spark() as session:
        yield session


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A real browser. Playwright's event loop runs as long: tests of other modules may have their own."""
    from support.console_page import launched  # noqa: PLC0415  (most runs need no browser)

    with launched() as running:
        yield running


@pytest.fixture
def page(chromium: Browser, url: str) -> Iterator[Page]:
    """A page for the console at ``url``, which is a fixture (integration/conftest.py)."""
    from support.console_page import console_page  # noqa: PLC0415  (as above)

    with console_page(chromium, url) as opened:
        yield opened


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one pytest-xdist worker run all tests that use Spark, and one those that use only brokers.

    So one Spark is started, one cluster of three brokers, and at most two brokers that are alone.
    Likewise for the tests of a module that share a fixture of it.

    A quarantined test may fail. The report lists it with its issue.
    """
    for item in items:
        if (quarantine := item.get_closest_marker("quarantine")) is not None:
            reason = "quarantined: issue {issue}, until {until}".format(**quarantine.kwargs)
            item.add_marker(pytest.mark.xfail(strict=False, reason=reason))
        if item.get_closest_marker("xdist_group") is not None:
            continue  # its own choice: with two groups it would be in neither
        fixtures = {"spark", "broker", "cluster"}.intersection(getattr(item, "fixturenames", ()))
        if fixtures:
            item.add_marker(pytest.mark.xdist_group("spark" if "spark" in fixtures else "broker"))
        elif isinstance(item, pytest.Function) and _shares_a_fixture(item):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))


def _shares_a_fixture(item: pytest.Function) -> bool:
    return any(found[-1].scope == "module" for found in item._fixtureinfo.name2fixturedefs.values())


def pytest_configure(config: pytest.Config) -> None:
    """Leave out what needs a Docker engine, or Karapace, whatever else `-m` says, unless it asks for that."""
    for marker in ("containers", "karapace"):
        chosen = config.option.markexpr
        if marker not in chosen:
            config.option.markexpr = f"({chosen}) and not {marker}" if chosen else f"not {marker}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Sequence[str]) -> None:
    """Refuse to run where pytest-xdist does not group: each worker would start a Spark and brokers.

    It tells groups apart by what it appends to a node id; pytest 9.2 ignores that (pytest-xdist 3.8).
    """
    if node.config.getoption("dist") == "loadgroup":
        for name in ids:
            if "test_spark_session" in name and "@" not in name:
                raise pytest.UsageError(f"pytest-xdist put {name} into no group: it and pytest do not fit")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many recorded answers of the real Kafka were compared, if any, and what was measured."""
    totals: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        for name, count in report.user_properties:
            if name.startswith("oracle: "):
                totals[name] += int(str(count))
            if name.startswith("measured: "):
                terminalreporter.line(f"{count} {name.removeprefix('measured: ')}")
    if totals:
        terminalreporter.section("answers of the real Kafka, compared")
        for name, count in totals.most_common():
            terminalreporter.line(f"{count:8,}  {name.removeprefix('oracle: ')}")
