"""Keys of a node: its log, its snapshots, its audit log and its logging."""

from __future__ import annotations

from functools import partial
from typing import Final

from authorizer.api.audit_levels import AUDIT_LEVELS
from authorizer.api.kafka_version import KAFKA_VERSION_CONFIG, KAFKA_VERSIONS_ALLOWED, parse_kafka_version
from authorizer.configuration.broker_file import METADATA_LOG_DIR
from authorizer.configuration.decision_log import DESTINATIONS_ALLOWED, parse_destinations
from authorizer.configuration.decision_log_rules import RULES_ALLOWED, parse_rules
from authorizer.configuration.keys.key import CLIENT_PREFIX, DECISION_CLIENT_PREFIX, ConfigKey
from authorizer.configuration.keys.names import (
    AUDIT_LEVEL,
    AUDIT_QUEUE,
    CLUSTERS,
    DECISION_FILE_MAX,
    DECISION_LOG,
    DECISION_LOG_LEVEL,
    DECISION_RULES,
    LOG_MODE,
    LOG_URL,
    SNAPSHOT_STORE,
)
from authorizer.configuration.keys.values import (
    CLUSTERS_ALLOWED,
    MEGABYTE,
    cluster_names,
    integer,
    one_of,
    optional_text,
)

#: Values of ``aclog.log.mode``.
LOG_MODES: Final = ("auto", "read", "write", "create")
#: Values of ``aclog.logging.format``; auto is console on a terminal and json elsewhere.
LOGGING_FORMATS: Final = ("auto", "console", "json")
#: Values of ``aclog.logging.level``.
LOGGING_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")

NODE_KEYS: Final = (
    ConfigKey(
        name=CLUSTERS,
        type="list",
        default="",
        allowed=CLUSTERS_ALLOWED,
        doc="The clusters that `aclog serve` follows, where they are several: a fleet. Each has a log of its "
        "own, `aclog.cluster.NAME.log.url`, and any other key that says so below may be its own, too: "
        "`aclog.cluster.NAME.` and the key without `aclog.`. What is asked names its cluster in its path, "
        "`/clusters/NAME/...`. Empty: one log, " + LOG_URL + ".",
        parse=cluster_names,
    ),
    ConfigKey(
        name=LOG_URL,
        type="url",
        default=None,
        allowed="file:DIR or a path; kafka://HOST:PORT[,HOST:PORT...]/TOPIC; "
        "kraft://HOST:PORT[,HOST:PORT...]; or describe://HOST:PORT[,HOST:PORT...]/DIR",
        doc="The metadata log to replay: a directory in Kafka's segment format, aclog's own or a broker's "
        "`__cluster_metadata-0`; a compacted topic of its own on a Kafka cluster, which any number of nodes "
        "read and write; a cluster's own log, followed at its controllers' listener, which is asked to "
        "change ACLs; or the ACLs that a cluster's brokers describe, asked for every "
        "`aclog.kafka.acls.refresh.interval.ms` (10000) and kept in DIR. "
        f"`{CLIENT_PREFIX}*` says how to reach a cluster. Unset in a broker's own file: the "
        f"broker's metadata log, see {METADATA_LOG_DIR}.",
        parse=optional_text,
        of_cluster=True,
    ),
    ConfigKey(
        name=KAFKA_VERSION_CONFIG,
        type="string",
        default=None,
        allowed=KAFKA_VERSIONS_ALLOWED,
        doc="The Kafka release whose rules are followed. From 4.4 on an ACL's host may be a network "
        "(10.0.0.0/8, KIP-1276); before, that matches nobody. Unset: that of the log's brokers. Where they "
        "are of several releases, or nothing tells which release they are, an answer is ALLOWED only if it "
        "is by the rules of each release that they may be.",
        parse=parse_kafka_version,
        of_cluster=True,
    ),
    ConfigKey(
        name=LOG_MODE,
        type="string",
        default="auto",
        allowed=f"one of {', '.join(LOG_MODES)}",
        doc="`read` never writes. `write` takes the writer's lock of a directory that aclog made; to a topic "
        "any number of nodes write. `create` makes the log if there is none, then writes; a topic gets 3 "
        "replicas, of which 2 must be in sync (`aclog log create` makes others). `auto` writes to a topic, "
        "to a directory that aclog made and, by asking it, to a cluster (`kraft://`), and reads a broker's.",
        parse=one_of(LOG_MODES),
        of_cluster=True,
    ),
    ConfigKey(
        name=SNAPSHOT_STORE,
        type="url",
        default=None,
        allowed="a path or any URL that fsspec has a file system for",
        doc="Where snapshots are kept; a start then replays only what came after the newest one. Unset: "
        "none are written, and every start replays the log.",
        parse=optional_text,
        of_cluster=True,
    ),
    ConfigKey(
        name="aclog.snapshot.keep",
        type="int",
        default="3",
        allowed="a whole number, 1 or more",
        doc="How many snapshots are kept at least.",
        parse=integer(1),
        of_cluster=True,
    ),
    ConfigKey(
        name="aclog.snapshot.max.bytes",
        type="long",
        default=str(20 * MEGABYTE),
        allowed="a whole number of bytes, 1 or more",
        doc="A snapshot is written after this many bytes of log, as Kafka's "
        "metadata.log.max.record.bytes.between.snapshots.",
        parse=integer(1),
        of_cluster=True,
    ),
    ConfigKey(
        name="aclog.snapshot.max.age.ms",
        type="long",
        default=str(60 * 60 * 1000),
        allowed="a whole number of milliseconds, 0 or more",
        doc="A snapshot is written this long after the last one if anything changed, as Kafka's "
        "metadata.log.max.snapshot.interval.ms; 0 turns this off.",
        parse=integer(0),
        of_cluster=True,
    ),
    ConfigKey(
        name="aclog.max.lag.ms",
        type="long",
        default="0",
        allowed="a whole number of milliseconds, 0 or more",
        doc="A node that has been behind its log, or whose polled cluster has not answered, for longer than "
        "this reports not ready; decisions go on. "
        "0 never does.",
        parse=integer(0),
        dynamic=True,
        of_cluster=True,
    ),
    ConfigKey(
        name="aclog.acl.update.timeout.ms",
        type="long",
        default="30000",
        allowed="a whole number of milliseconds, 1 or more",
        doc="How long a creation or removal of ACLs may take until it is visible here. Past that it "
        "answers REQUEST_TIMED_OUT and says whether it may still happen.",
        parse=integer(1),
        of_cluster=True,
    ),
    ConfigKey(
        name="aclog.plan.max.removed.percent",
        type="int",
        default="50",
        allowed="a whole number, 0 to 100",
        doc="A plan that removes a larger share of the ACLs is refused by `aclog apply` and by `POST "
        "/v1/plans`, unless that is asked for: `--allow-mass-removal`, `maxRemovedPercent`. 100 "
        "refuses none.",
        parse=integer(0, 100),
        of_cluster=True,
    ),
    ConfigKey(
        name=AUDIT_LEVEL,
        type="string",
        default="INFO",
        allowed=f"one of {', '.join(AUDIT_LEVELS)}",
        doc="What the audit log (kafka.authorizer.logger) writes: INFO denials that were asked for, DEBUG "
        "also what was allowed, TRACE everything, OFF nothing.",
        parse=one_of(tuple(AUDIT_LEVELS)),
        dynamic=True,
    ),
    ConfigKey(
        name=AUDIT_QUEUE,
        type="int",
        default="50000",
        allowed="a whole number, 0 or more",
        doc="How many decisions of `aclog serve` may wait for their lines in the audit log, half a kilobyte "
        "each. Lines are written many at once, some 50 ms later, by a thread of their own; when more "
        "decisions wait, lines are left out and counted (aclog_audit_lost_total), and no decision waits. "
        "0 writes each line before its decision is answered: slower, and nothing is left out.",
        parse=integer(0),
    ),
    ConfigKey(
        name=DECISION_LOG,
        type="list",
        default="",
        allowed=DESTINATIONS_ALLOWED,
        doc="Where `aclog serve` writes decisions as CloudEvents, beside the audit log's lines: see "
        "[decision-log.md](decision-log.md). Empty: nowhere. A topic must be there; "
        f"`{DECISION_CLIENT_PREFIX}*` says how to reach it. How many decisions may wait for their events, "
        f"{AUDIT_QUEUE} says.",
        parse=parse_destinations,
    ),
    ConfigKey(
        name=DECISION_LOG_LEVEL,
        type="string",
        default="DEBUG",
        allowed="one of INFO, DEBUG, TRACE",
        doc="Which decisions become events, by the audit log's levels: INFO denials that were asked for, "
        "DEBUG also what was allowed, TRACE everything.",
        parse=one_of(("INFO", "DEBUG", "TRACE")),
    ),
    ConfigKey(
        name=DECISION_RULES,
        type="list",
        default="",
        allowed=RULES_ALLOWED,
        doc="Of those, which ones do, and of how many one: the first rule whose conditions all hold decides, "
        "and what no rule is about is kept. `drop principal=User:probe; keep result=DENIED; 1/100 "
        "resource_type=TOPIC resource_name=logs-*`. A text that ends with `*` is a prefix; quotes hold what "
        "has spaces or semicolons.",
        parse=partial(parse_rules, key=DECISION_RULES),
    ),
    ConfigKey(
        name="aclog.decision.log.fold.ms",
        type="long",
        default="0",
        allowed="a whole number of milliseconds, 0 or more",
        doc="The window in which repeats of a question with the same answer are counted in one event, which "
        "is written when the window ends. 0: an event for each decision.",
        parse=integer(0),
    ),
    ConfigKey(
        name=DECISION_FILE_MAX,
        type="long",
        default=str(100 * MEGABYTE),
        allowed="a whole number of bytes, 0 or more",
        doc="A file of decision events that would grow beyond this becomes `PATH.1`, and a new one begins. 0 "
        "leaves that to others: a file that was moved is made anew.",
        parse=integer(0),
    ),
    ConfigKey(
        name="aclog.decision.log.file.keep",
        type="int",
        default="10",
        allowed="a whole number, 1 or more",
        doc=f"How many files {DECISION_FILE_MAX} keeps beside the one that is written.",
        parse=integer(1),
    ),
    ConfigKey(
        name="aclog.logging.format",
        type="string",
        default="auto",
        allowed=f"one of {', '.join(LOGGING_FORMATS)}",
        doc="`console` for people, `json` for machines; `auto` is console on a terminal and json "
        "elsewhere. Lines go to stderr.",
        parse=one_of(LOGGING_FORMATS),
    ),
    ConfigKey(
        name="aclog.logging.level",
        type="string",
        default="INFO",
        allowed=f"one of {', '.join(LOGGING_LEVELS)}",
        doc="The lowest level that is logged; the audit log has its own.",
        parse=one_of(LOGGING_LEVELS),
        dynamic=True,
    ),
)
