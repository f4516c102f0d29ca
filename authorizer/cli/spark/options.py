"""Options that all Spark jobs share: logs, batches, metrics and settings of Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from authorizer.cli.options import (
    PAIR,
    Parsed,
    completes,
    config_option,
    progress_option,
    quiet_option,
    shared,
)

#: Interval between two polls of the logs of a continuous job, in seconds.
INTERVAL_S: Final = 60.0


# As org.apache.spark.SparkMasterRegex and SparkContext.createTaskScheduler.
_MASTER: Final = re.compile(
    r"local|local\[(\*|[0-9]+)(, *[0-9]+)?\]|local-cluster\[.+\]|yarn|k8s://.+"
    r"|spark://[^,/]+:[0-9]+(,[^,/]+:[0-9]+)*"
)
#: Group, name and version.
_COORDINATES: Final = 3


def _master(text: str) -> str:
    """Checked here, because Spark itself reports a wrong one by a trace of Java's stack."""
    if _MASTER.fullmatch(text) is None:
        raise ValueError(
            f"Spark has no master `{text}`: local[4], spark://HOST:PORT[,HOST:PORT...], yarn or "
            "k8s://HOST:PORT"
        )
    return text


def _packages(text: str) -> str:
    for package in text.split(","):
        parts = package.split(":")
        if len(parts) != _COORDINATES or not all(part.strip() for part in parts):
            raise ValueError(
                f"`{package}` is not GROUP:NAME:VERSION, such as org.apache.hadoop:hadoop-azure:3.5.0"
            )
    return text


def _refuse_removed(_ctx: click.Context, option: click.Parameter, value: tuple[str, ...]) -> None:
    """Refuse an option of releases that read topics with Spark's Kafka connector."""
    if value:
        raise click.UsageError(
            f"{option.opts[0]} no longer exists: the jobs read topics with the client of all commands. Its "
            "settings are aclog.kafka.* of --config, or Java's client.properties by --command-config"
        )


_logs = shared(
    click.option(
        "--log",
        "log_urls",
        metavar="URL",
        multiple=True,
        shell_complete=completes("dir"),
        help="A metadata log: a directory (file:DIR or DIR), a topic "
        "(kafka://HOST:PORT[,HOST:PORT...]/TOPIC), or a cluster's metadata log by its controllers "
        "(kraft://HOST:PORT[,HOST:PORT...]). Repeatable, one log for each cluster.  [default: aclog.log.url "
        "of --config]",
    ),
    click.option(
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help="Brokers of --topic or --topics-pattern.",
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
        help="All topics on --bootstrap-servers whose complete name matches this Java regular expression "
        "(without lookaheads and nested repetitions). Its group is the cluster id of the topic: 'acls-(.+)'.",
    ),
    config_option,
    *(
        click.option(name, multiple=True, hidden=True, expose_value=False, callback=_refuse_removed)
        for name in ("--kafka-option", "--kafka-properties")
    ),
)
_batches = shared(
    click.option(
        "--checkpoint",
        metavar="DIR",
        help="Where Spark stores its position: a path, or a URL of a file system that Hadoop supports. Use "
        "one for each job and set of logs; for `aclog spark all` the directory of three: DIR/snapshots, "
        "DIR/counts and DIR/changes.  [default: .checkpoints/JOB below the job's output, if that is a local "
        "directory]",
    ),
    click.option(
        "--take-over",
        is_flag=True,
        help="Take the checkpoint from a job that uses it, without waiting; that job ends. For a checkpoint "
        "on an object store; a local one is free when that job's process ends.",
    ),
    click.option(
        "--once", is_flag=True, help="Process the available records, then end. The next run continues there."
    ),
    click.option(
        "--interval",
        "interval_s",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        help=f"Run until Ctrl-C, and poll the logs at this interval.  [default: {INTERVAL_S:g}]",
    ),
    click.option(
        "--max-offsets",
        type=click.IntRange(min=1),
        metavar="N",
        help="Maximum number of offsets in a batch.  [default: all available ones]",
    ),
    click.option(
        "--shards",
        type=click.IntRange(min=1, max=10_000),
        metavar="N",
        help="Number of parts of a log's state; a job processes four at a time.  [default: 8, or 1 for up to "
        "10000 ACLs]",
    ),
)
spark_options: Final = shared(
    click.option(
        "--master",
        type=Parsed("URL", _master),
        help="Where Spark runs: local[4], spark://HOST:PORT, yarn, k8s://...  [default: this machine, or "
        "that of spark-submit]",
    ),
    click.option(
        "--packages",
        type=Parsed("GROUP:NAME:VERSION,...", _packages),
        help="Packages for Spark, such as a file system of Hadoop.",
    ),
    click.option("--conf", "spark_conf", type=PAIR, multiple=True, help="A setting of Spark. Repeatable."),
    click.option(
        "--archives",
        "archive",
        type=click.Path(dir_okay=False, exists=True, path_type=Path),
        metavar="FILE",
        help="An archive of `aclog spark pack`, for executors without aclog. They run `python3.X` of their "
        "PATH, with this Python's version, unless --conf spark.pyspark.python=PATH names another one.",
    ),
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
        help="Address of --metrics-port.",
    ),
)
output_option: Final = click.option(
    "--output",
    metavar="DIR",
    required=True,
    shell_complete=completes("dir"),
    help="Where the job writes: a path, or a URL of a file system that both Hadoop and fsspec support.",
)
history_option: Final = click.option(
    "--history",
    metavar="DIR",
    required=True,
    shell_complete=completes("dir"),
    help="The --output of `aclog spark changes`: a path, or a URL of a file system that Hadoop supports.",
)
job_options: Final = shared(
    _logs,
    _batches,
    _metrics,
    spark_options,
    click.option(
        "--json", "as_json", is_flag=True, help="One JSON line for each batch, and one at each job's end."
    ),
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
    """Values of ``spark_options``."""

    master: str | None = None
    packages: str | None = None
    spark_conf: tuple[tuple[str, str], ...] = ()
    archive: Path | None = None

    @property
    def package_list(self) -> tuple[str, ...]:
        return tuple(package.strip() for package in (self.packages or "").split(",") if package.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFlags(SparkFlags):
    """Values of ``job_options``, by click's parameter names."""

    log_urls: tuple[str, ...]
    bootstrap_servers: str | None
    topics: tuple[str, ...]
    topics_pattern: str | None
    checkpoint: str | None
    take_over: bool
    once: bool
    interval_s: float | None
    max_offsets: int | None
    shards: int | None
    metrics_port: int | None
    metrics_host: str
    as_json: bool

    def check(self) -> None:
        """Raise click.UsageError for options that exclude each other."""
        if self.once and self.interval_s is not None:
            raise click.UsageError("--once ends by itself; --interval is for a job that goes on")
        if (self.topics or self.topics_pattern) and self.bootstrap_servers is None:
            raise click.UsageError("--topic and --topics-pattern need --bootstrap-servers HOST:PORT,...")
        if self.bootstrap_servers is not None and not (self.topics or self.topics_pattern):
            raise click.UsageError("--bootstrap-servers goes with --topic or --topics-pattern")

    @property
    def urls(self) -> tuple[str, ...]:
        """URLs of all named logs; those of --topic as kafka:// URLs."""
        return self.log_urls + tuple(f"kafka://{self.bootstrap_servers}/{topic}" for topic in self.topics)

    @property
    def followed_pattern(self) -> tuple[str, str] | None:
        """Bootstrap servers and ``--topics-pattern``, if the pattern is given."""
        if self.topics_pattern is None or self.bootstrap_servers is None:
            return None
        return self.bootstrap_servers, self.topics_pattern
