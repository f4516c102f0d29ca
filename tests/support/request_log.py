"""A real broker that logs every decision to a file, by log4j2 at DEBUG, as operators configure it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from support.kafka_broker import Broker, running_jvm, wait_until_ready
from support.kafka_jars import kafka_libs

#: As config/log4j2.yaml of Kafka's has its authorizer's log, but for the level.
LOG4J = """
appender.authorizer.type = File
appender.authorizer.name = Authorizer
appender.authorizer.fileName = {path}
appender.authorizer.layout.type = PatternLayout
appender.authorizer.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = ERROR
logger.authorizer.name = kafka.authorizer.logger
logger.authorizer.level = DEBUG
logger.authorizer.additivity = false
logger.authorizer.appenderRef.file.ref = Authorizer
"""


@dataclass(frozen=True, slots=True)
class LoggingBroker:
    """A broker, its listener for users with names, and its log of decisions."""

    broker: Broker
    sasl_servers: str
    log: Path


@contextmanager
def logging_broker(home: Path, *users: str) -> Iterator[LoggingBroker]:
    """A running broker; ``users`` share one password."""
    libs, log = home / "libs", home / "kafka-authorizer.log"
    libs.mkdir()
    # Kafka's releases bring log4j2 and its binding; of the tests' jars Spark has the one that fits.
    jars = [*kafka_libs().glob("*.jar"), *Path(pyspark.__path__[0], "jars").glob("slf4j-api-*.jar")]
    jars += Path(pyspark.__path__[0], "jars").glob("log4j-slf4j2-impl-*.jar")
    for jar in jars:
        if jar.parent != kafka_libs() or not jar.name.startswith("slf4j-"):
            (libs / jar.name).symlink_to(jar)
    config = home / "log4j2.properties"
    config.write_text(LOG4J.format(path=log), encoding="utf-8")
    options = [f"-Dlog4j2.configurationFile={config}"]
    with running_jvm(home / "broker", libs=libs, options=options, users=users) as (broker, why_ended):
        wait_until_ready(broker.bootstrap_servers, why_ended)
        assert broker.sasl_servers is not None
        yield LoggingBroker(broker, broker.sasl_servers, log)
