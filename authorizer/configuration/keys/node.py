"""Keys of a node: its log, its snapshots, its audit log and its logging."""

from __future__ import annotations

from functools import partial
from typing import Final

from authorizer.api.audit_levels import AUDIT_LEVELS
from authorizer.api.kafka_version import KAFKA_VERSION_CONFIG, KAFKA_VERSIONS_ALLOWED, parse_kafka_version
from authorizer.configuration.broker_file import METADATA_LOG_DIR
from authorizer.configuration.decision_log import (
    DESTINATIONS_ALLOWED,
    RULES_ALLOWED,
    parse_destinations,
    parse_rules,
)
from authorizer.configuration.keys.key import (
    CLIENT_PREFIX,
    DECISION_CLIENT_PREFIX,
    KeyGroup,
    OptionalKey,
    choice_key,
    integer_key,
    list_key,
    text_key,
)
from authorizer.configuration.keys.names import (
    AUDIT_LEVEL,
    AUDIT_QUEUE,
    CLUSTERS,
    COMMAND_CONFIG,
    DECISION_FILE_MAX,
    DECISION_LOG,
    DECISION_LOG_LEVEL,
    DECISION_RULES,
    LOG_MODE,
    LOG_URL,
    SNAPSHOT_STORE,
)
from authorizer.configuration.keys.values import CLUSTERS_ALLOWED, MEGABYTE, cluster_names

#: Values of ``aclog.log.mode``.
LOG_MODES: Final = ("auto", "read", "write", "create")
#: Values of ``aclog.logging.format``; auto is console on a terminal and json elsewhere.
LOGGING_FORMATS: Final = ("auto", "console", "json")
#: Values of ``aclog.logging.level``.
LOGGING_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


class NodeKeys(KeyGroup):
    """Keys of a node."""

    clusters = list_key(
        CLUSTERS,
        CLUSTERS_ALLOWED,
        "The clusters that `aclog serve` follows if they are several: a fleet. Each cluster has its log "
        "in `aclog.cluster.NAME.log.url`, and may have any other key that is marked as per cluster below: "
        "`aclog.cluster.NAME.` and the key without `aclog.`. Requests name their cluster in the path, "
        f"`/clusters/NAME/...`. Empty: one log, {LOG_URL}.",
        cluster_names,
    )
    log_url = text_key(
        LOG_URL,
        "file:DIR or a path; kafka://HOST:PORT[,HOST:PORT...]/TOPIC; "
        "kraft://HOST:PORT[,HOST:PORT...]; or describe://HOST:PORT[,HOST:PORT...]/DIR",
        "The metadata log to replay. `file:` is a directory in Kafka's segment format: an aclog-managed log "
        "or a broker's `__cluster_metadata-0`. `kafka:` is a compacted topic on a Kafka cluster, which any "
        "number of nodes read and write. `kraft:` is a cluster's metadata log, followed at its controllers' "
        "listener; changes of ACLs are requests to the cluster. `describe:` polls the ACLs of a cluster's "
        "brokers every `aclog.kafka.acls.refresh.interval.ms` (10000) and stores them in DIR. "
        f"`{CLIENT_PREFIX}*` are the settings of the connection to a cluster. Unset in a broker's own file: "
        f"the broker's metadata log, see {METADATA_LOG_DIR}.",
        type_name="url",
        is_per_cluster=True,
    )
    command_config = text_key(
        COMMAND_CONFIG,
        "a readable client.properties of Java",
        "The connection to the log's cluster as for Kafka's tools (`--command-config`): security.protocol, "
        "sasl.jaas.config of PLAIN, SCRAM and OAUTHBEARER, key stores of type PEM, PKCS12 and JKS. "
        f"`{CLIENT_PREFIX}*` override it. If {LOG_URL} is unset and the file has bootstrap.servers, the log "
        "is `describe://` with these servers; with bootstrap.controllers it is `kraft://`. A key that aclog "
        "cannot honour is an error.",
        type_name="path",
        is_per_cluster=True,
    )
    kafka_version = OptionalKey(
        name=KAFKA_VERSION_CONFIG,
        type_name="string",
        allowed=KAFKA_VERSIONS_ALLOWED,
        doc="The Kafka release whose rules apply. From 4.4 on an ACL's host may be a network "
        "(10.0.0.0/8, KIP-1276); before, such a host matches no client. Unset: the release of the log's "
        "brokers. If the brokers have several releases, or their release is unknown, a request is ALLOWED "
        "only if the rules of each possible release allow it.",
        parse=parse_kafka_version,
        is_per_cluster=True,
    )
    log_mode = choice_key(
        LOG_MODE,
        LOG_MODES,
        "auto",
        "`read` never writes. `write` locks an aclog-managed directory for its single writer; any number of "
        "nodes may write to a topic. `create` creates the log if it does not exist, then writes; a topic "
        "gets 3 replicas, of which 2 must be in sync (`aclog log create` has options for that). `auto` "
        "writes to a topic, to an aclog-managed directory and, by requests to it, to a cluster (`kraft://`); "
        "it only reads a broker's directory.",
        is_per_cluster=True,
    )
    snapshot_store = text_key(
        SNAPSHOT_STORE,
        "a path or any URL that fsspec has a file system for",
        "Location of snapshots; a start replays only what follows the newest one. Unset: no snapshots, and "
        "every start replays the log.",
        type_name="url",
        is_per_cluster=True,
    )
    snapshot_keep = integer_key(
        "aclog.snapshot.keep",
        3,
        "Minimum number of stored snapshots.",
        minimum=1,
        is_per_cluster=True,
    )
    snapshot_max_bytes = integer_key(
        "aclog.snapshot.max.bytes",
        20 * MEGABYTE,
        "Bytes of log after which a snapshot is written, as Kafka's "
        "metadata.log.max.record.bytes.between.snapshots.",
        minimum=1,
        unit="bytes",
        is_per_cluster=True,
    )
    snapshot_max_age_ms = integer_key(
        "aclog.snapshot.max.age.ms",
        60 * 60 * 1000,
        "Time after the last snapshot at which one is written if anything changed, as Kafka's "
        "metadata.log.max.snapshot.interval.ms; 0 turns this off.",
        minimum=0,
        unit="milliseconds",
        is_per_cluster=True,
    )
    max_lag_ms = integer_key(
        "aclog.max.lag.ms",
        0,
        "A node reports not ready once it has been behind its log for longer than this, or once its polled "
        "cluster has not answered for longer. It continues to decide. 0: never.",
        minimum=0,
        unit="milliseconds",
        is_dynamic=True,
        is_per_cluster=True,
    )
    acl_update_timeout_ms = integer_key(
        "aclog.acl.update.timeout.ms",
        30_000,
        "Maximum time until a creation or removal of ACLs is visible on this node. After that the answer is "
        "REQUEST_TIMED_OUT, and says whether the change may still happen.",
        minimum=1,
        unit="milliseconds",
        is_per_cluster=True,
    )
    plan_max_removed_percent = integer_key(
        "aclog.plan.max.removed.percent",
        50,
        "`aclog apply` and `POST /v1/plans` refuse a plan that removes a larger share of the ACLs, unless "
        "`--allow-mass-removal` or `maxRemovedPercent` allows it. 100 refuses none.",
        minimum=0,
        maximum=100,
        is_per_cluster=True,
    )
    audit_level = choice_key(
        AUDIT_LEVEL,
        tuple(AUDIT_LEVELS),
        "INFO",
        "What the audit log (kafka.authorizer.logger) contains: INFO denials that are to be logged, DEBUG "
        "also what was allowed, TRACE everything, OFF nothing.",
        is_dynamic=True,
    )
    audit_queue_max_lines = integer_key(
        AUDIT_QUEUE,
        50_000,
        "Maximum number of decisions of `aclog serve` in the queue of the audit log, half a kilobyte each. A "
        "separate thread writes their lines in batches, some 50 ms later (200 after a pause). If the queue "
        "is full, lines are dropped and counted (aclog_audit_lost_total); decisions never wait. 0 writes "
        "each line before its decision is answered: slower, and nothing is dropped.",
        minimum=0,
    )
    decision_log = list_key(
        DECISION_LOG,
        DESTINATIONS_ALLOWED,
        "Destinations to which `aclog serve` writes decisions as CloudEvents, in addition to the audit "
        "log: see [decision-log.md](decision-log.md). Empty: none. A topic must exist; "
        f"`{DECISION_CLIENT_PREFIX}*` are the settings of the connection. {AUDIT_QUEUE} limits the queue of "
        "events, too.",
        parse_destinations,
    )
    decision_log_level = choice_key(
        DECISION_LOG_LEVEL,
        ("INFO", "DEBUG", "TRACE"),
        "DEBUG",
        "Decisions that become events, by the audit log's levels: INFO denials that are to be logged, "
        "DEBUG also what was allowed, TRACE everything.",
    )
    decision_log_rules = list_key(
        DECISION_RULES,
        RULES_ALLOWED,
        "Filter and sampling of these decisions. The first rule whose conditions all hold decides; a "
        "decision that no rule matches becomes an event. `drop principal=User:probe; keep result=DENIED; "
        "1/100 resource_type=TOPIC resource_name=logs-*`. A text that ends with `*` is a prefix; a text with "
        "spaces or semicolons needs quotes.",
        partial(parse_rules, key=DECISION_RULES),
    )
    decision_log_fold_ms = integer_key(
        "aclog.decision.log.fold.ms",
        0,
        "Time window in which repeated requests with the same answer are counted in one event, which is "
        "written when the window ends. 0: an event for each decision.",
        minimum=0,
        unit="milliseconds",
    )
    decision_log_file_max_bytes = integer_key(
        DECISION_FILE_MAX,
        100 * MEGABYTE,
        "Maximum size of a file of decision events: then it becomes `PATH.1`, and a new file begins. 0 "
        "leaves rotation to other programs: after a rename a new file is created.",
        minimum=0,
        unit="bytes",
    )
    decision_log_file_keep = integer_key(
        "aclog.decision.log.file.keep",
        10,
        f"Number of old files that {DECISION_FILE_MAX} keeps.",
        minimum=1,
    )
    logging_format = choice_key(
        "aclog.logging.format",
        LOGGING_FORMATS,
        "auto",
        "Format of log lines on stderr: `console` for people, `json` for machines; `auto` is console on a "
        "terminal, else json.",
    )
    logging_level = choice_key(
        "aclog.logging.level",
        LOGGING_LEVELS,
        "INFO",
        "The lowest level that is logged; the audit log has its own.",
        is_dynamic=True,
    )
