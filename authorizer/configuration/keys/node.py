"""Keys of a node: its log, its snapshots, its audit log and its logging."""

from __future__ import annotations

from typing import Final

from authorizer.configuration.broker_file import METADATA_LOG_DIR
from authorizer.configuration.keys.key import CLIENT_PREFIX, ConfigKey
from authorizer.configuration.keys.names import AUDIT_LEVEL, AUDIT_QUEUE, LOG_MODE, LOG_URL, SNAPSHOT_STORE
from authorizer.configuration.keys.values import MEGABYTE, integer, one_of, optional_text
from authorizer.decisions.audit_levels import AUDIT_LEVELS

#: Values of ``aclog.log.mode``.
LOG_MODES: Final = ("auto", "read", "write", "create")
#: Values of ``aclog.logging.format``; auto is console on a terminal and json elsewhere.
LOGGING_FORMATS: Final = ("auto", "console", "json")
#: Values of ``aclog.logging.level``.
LOGGING_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")

NODE_KEYS: Final = (
    ConfigKey(
        name=LOG_URL,
        type="url",
        default=None,
        allowed="file:DIR or a path; or kafka://HOST:PORT[,HOST:PORT...]/TOPIC",
        doc="The metadata log to replay: a directory in Kafka's segment format, aclog's own or a broker's "
        "`__cluster_metadata-0`; or a compacted topic of its own on a Kafka cluster, which any number of "
        f"nodes read and write. `{CLIENT_PREFIX}*` says how to reach that. Unset in a broker's own file: the "
        f"broker's metadata log, see {METADATA_LOG_DIR}.",
        parse=optional_text,
    ),
    ConfigKey(
        name=LOG_MODE,
        type="string",
        default="auto",
        allowed=f"one of {', '.join(LOG_MODES)}",
        doc="`read` never writes. `write` takes the writer's lock of a directory that aclog made; to a topic "
        "any number of nodes write. `create` makes the log if there is none, then writes; a topic gets 3 "
        "replicas, of which 2 must be in sync (`aclog log create` makes others). `auto` writes to a topic "
        "and to a directory that aclog made, and reads a broker's.",
        parse=one_of(LOG_MODES),
    ),
    ConfigKey(
        name=SNAPSHOT_STORE,
        type="url",
        default=None,
        allowed="a path or any URL that fsspec has a file system for",
        doc="Where snapshots are kept; a start then replays only what came after the newest one. Unset: "
        "none are written, and every start replays the log.",
        parse=optional_text,
    ),
    ConfigKey(
        name="aclog.snapshot.keep",
        type="int",
        default="3",
        allowed="a whole number, 1 or more",
        doc="How many snapshots are kept at least.",
        parse=integer(1),
    ),
    ConfigKey(
        name="aclog.snapshot.max.bytes",
        type="long",
        default=str(20 * MEGABYTE),
        allowed="a whole number of bytes, 1 or more",
        doc="A snapshot is written after this many bytes of log, as Kafka's "
        "metadata.log.max.record.bytes.between.snapshots.",
        parse=integer(1),
    ),
    ConfigKey(
        name="aclog.snapshot.max.age.ms",
        type="long",
        default=str(60 * 60 * 1000),
        allowed="a whole number of milliseconds, 0 or more",
        doc="A snapshot is written this long after the last one if anything changed, as Kafka's "
        "metadata.log.max.snapshot.interval.ms; 0 turns this off.",
        parse=integer(0),
    ),
    ConfigKey(
        name="aclog.max.lag.ms",
        type="long",
        default="0",
        allowed="a whole number of milliseconds, 0 or more",
        doc="A node that has been behind its log for longer than this reports not ready; decisions go on. "
        "0 never does.",
        parse=integer(0),
    ),
    ConfigKey(
        name="aclog.acl.update.timeout.ms",
        type="long",
        default="30000",
        allowed="a whole number of milliseconds, 1 or more",
        doc="How long a creation or removal of ACLs may take until it is visible here. Past that it "
        "answers REQUEST_TIMED_OUT and says whether it may still happen.",
        parse=integer(1),
    ),
    ConfigKey(
        name=AUDIT_LEVEL,
        type="string",
        default="INFO",
        allowed=f"one of {', '.join(AUDIT_LEVELS)}",
        doc="What the audit log (kafka.authorizer.logger) writes: INFO denials that were asked for, DEBUG "
        "also what was allowed, TRACE everything, OFF nothing.",
        parse=one_of(tuple(AUDIT_LEVELS)),
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
    ),
)
