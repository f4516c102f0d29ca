"""Flags that all Spark jobs share: which logs, how batches are cut, and what Spark itself is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import click

from authorizer.cli.options import completes, config_option, progress_option, quiet_option, shared

#: Time between two looks at the logs of a continuous job, in seconds.
INTERVAL_S: Final = 60.0


class _PairType(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.1
    """One setting, as Kafka's and Spark's own tools take it."""

    name = "KEY=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, separator, text = value.partition("=")
        if not separator or not key:
            # The text is not repeated: it may be a secret that lost its key.
            self.fail("a setting is KEY=VALUE", param, ctx)
        return key, text


PAIR: Final = _PairType()

_logs = shared(
    click.option(
        "--log",
        "log_urls",
        metavar="URL",
        multiple=True,
        shell_complete=completes("dir"),
        help="A metadata log: file:DIR, the directory itself, kafka://HOST:PORT[,HOST:PORT...]/TOPIC, or a "
        "cluster's own: kraft://HOST:PORT[,HOST:PORT...], of its controllers. Repeatable: each log is of "
        "another cluster.  [default: aclog.log.url of --config]",
    ),
    click.option(
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help="Where the brokers of --topic or --topics-pattern are.",
    ),
    click.option(
        "--topic",
        "topics",
        metavar="TOPIC",
        multiple=True,
        help="A topic on --bootstrap-servers, as --log kafka://HOST:PORT/TOPIC. Repeatable.",
    ),
    click.option(
        "--topics-pattern",
        metavar="REGEX",
        help="All topics on --bootstrap-servers whose whole name matches: a regular expression of Java's, "
        "without lookaheads and without repetitions of what has repetitions. What its group matches is the "
        "id of the cluster that a topic belongs to: 'acls-(.+)'.",
    ),
    config_option,
    click.option(
        "--kafka-option",
        "kafka_options",
        type=PAIR,
        multiple=True,
        help="A setting of Spark's Kafka connector, by its Java name, over aclog.kafka.* of --config, which "
        "it takes too; NAME= leaves one of those out. Repeatable. Secrets belong into a file.",
    ),
    click.option(
        "--kafka-properties",
        type=click.Path(dir_okay=False, exists=True),
        metavar="FILE",
        help="The same from a file, as Kafka's own tools take it with --command-config.",
    ),
)
_batches = shared(
    click.option(
        "--checkpoint",
        metavar="DIR",
        help="Where Spark keeps how far it is: a path, or a URL that Hadoop has a file system for. It "
        "belongs to this job and these logs.  [default: .checkpoints/JOB below --snapshots or --output, if "
        "that is a local directory]",
    ),
    click.option(
        "--once", is_flag=True, help="Take what there is, then end. The next run goes on from there."
    ),
    click.option(
        "--interval",
        "interval_s",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        help=f"Go on until Ctrl-C, and look this often.  [default: {INTERVAL_S:g}]",
    ),
    click.option(
        "--max-offsets",
        type=click.IntRange(min=1),
        metavar="N",
        help="The most offsets in a batch.  [default: all there are]",
    ),
    click.option(
        "--shards",
        type=click.IntRange(min=1, max=10_000),
        metavar="N",
        help="Into how many parts the state of a log is cut; four are worked on at once.  [default: 8]",
    ),
)
spark_options: Final = shared(
    click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[4], yarn, k8s://...  [default: this machine; what spark-submit said]",
    ),
    click.option(
        "--packages",
        metavar="GROUP:NAME:VERSION,...",
        help="What Spark fetches: another Kafka connector than aclog's own choice, a file system.",
    ),
    click.option("--conf", "spark_conf", type=PAIR, multiple=True, help="A setting of Spark's. Repeatable."),
)
_metrics = shared(
    click.option(
        "--metrics-port",
        type=click.IntRange(0, 65535),
        metavar="PORT",
        help="Serve Prometheus metrics at /metrics while the job runs; 0 for any free port.",
    ),
    click.option(
        "--metrics-host",
        default="127.0.0.1",
        show_default=True,
        metavar="ADDRESS",
        help="Where --metrics-port listens.",
    ),
)
output_option: Final = click.option(
    "--output",
    metavar="DIR",
    required=True,
    shell_complete=completes("dir"),
    help="What the job writes to: a path, or a URL that both Hadoop and fsspec have a file system for.",
)
job_options: Final = shared(
    _logs,
    _batches,
    _metrics,
    spark_options,
    click.option("--json", "as_json", is_flag=True, help="One JSON line for each batch."),
    progress_option,
)
query_options: Final = shared(
    spark_options,
    click.option("--json", "as_json", is_flag=True, help="One JSON line for each row."),
    progress_option,
    quiet_option,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFlags:
    """What ``spark_options`` were given."""

    master: str | None = None
    packages: str | None = None
    spark_conf: tuple[tuple[str, str], ...] = ()

    @property
    def package_list(self) -> tuple[str, ...]:
        """``--packages``, one by one."""
        return tuple(package.strip() for package in (self.packages or "").split(",") if package.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFlags(SparkFlags):
    """What ``job_options`` were given, by click's names for them."""

    log_urls: tuple[str, ...]
    bootstrap_servers: str | None
    topics: tuple[str, ...]
    topics_pattern: str | None
    kafka_options: tuple[tuple[str, str], ...]
    kafka_properties: str | None
    checkpoint: str | None
    once: bool
    interval_s: float | None
    max_offsets: int | None
    shards: int | None
    metrics_port: int | None
    metrics_host: str
    as_json: bool

    def check(self) -> None:
        """click.UsageError where two flags do not go together."""
        if self.once and self.interval_s is not None:
            raise click.UsageError("--once ends by itself; --interval is for a job that goes on")
        if (self.topics or self.topics_pattern) and self.bootstrap_servers is None:
            raise click.UsageError("--topic and --topics-pattern need --bootstrap-servers HOST:PORT,...")
        if self.bootstrap_servers is not None and not (self.topics or self.topics_pattern):
            raise click.UsageError("--bootstrap-servers goes with --topic or --topics-pattern")

    @property
    def urls(self) -> tuple[str, ...]:
        """The logs that were named, one by one; a topic of --topic by its URL."""
        return self.log_urls + tuple(f"kafka://{self.bootstrap_servers}/{topic}" for topic in self.topics)

    @property
    def followed_pattern(self) -> tuple[str, str] | None:
        """Bootstrap servers and ``--topics-pattern``, if that chooses the logs."""
        if self.topics_pattern is None or self.bootstrap_servers is None:
            return None
        return self.bootstrap_servers, self.topics_pattern
