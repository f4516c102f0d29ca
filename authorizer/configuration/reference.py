"""Writes docs/configuration.md from the keys: ``python -m authorizer.configuration.reference [FILE]``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from authorizer.configuration.keys.key import ACLOG_PREFIX, CLIENT_PREFIX, DECISION_CLIENT_PREFIX, ConfigKey
from authorizer.configuration.keys.table import KEYS

_HEAD: Final = f"""\
# Configuration

<!-- Written by `python -m authorizer.configuration.reference docs/configuration.md`; edit
authorizer/configuration/keys. -->

A Java properties file with Kafka's keys: a broker's own `server.properties` works unchanged, and aclog
ignores keys that it does not use. aclog's own keys begin with `aclog.`; an unknown one is an error. So is a
key that is almost one of Kafka's, such as `super.user`; in a broker's file commands print a note instead. The
file is decoded as UTF-8, or as Latin-1 (as in Java) if it is not valid UTF-8.

Environment variables win over the file, flags over both. A variable is `ACLOG_` and the key in capitals,
with underscores for dots and without a leading `aclog.`. A value that is not allowed stops the start with an
error that names the key, the value, what is allowed and the line of the file.

A dynamic key can change while `aclog serve` runs: on SIGHUP, which reads the file again, and by
`PUT /v1/config`. Every other key needs a restart ([Change settings](how-to/deploy.md#change-settings)).

```properties
super.users=User:admin
aclog.log.url=file:/var/lib/aclog/log
aclog.snapshot.store=/var/lib/aclog/snapshots
```

`aclog serve` follows several clusters if `aclog.clusters` names them
([Follow several clusters](how-to/fleet.md)). A key that is marked "per cluster" can then be set for one
cluster: `aclog.cluster.NAME.` and the key without a leading `aclog.`, `ACLOG_CLUSTER_NAME_...` as a variable.
It wins over the same key for all clusters, whatever the source of that. The same holds for
`{CLIENT_PREFIX}*`; credentials without a cluster are sent to all clusters.

```properties
super.users=User:admin
aclog.clusters=eu,us
aclog.cluster.eu.log.url=kraft://controller.eu:9093
aclog.cluster.eu.kafka.sasl.password=...
aclog.cluster.us.log.url=file:/var/lib/aclog/us
aclog.cluster.us.super.users=User:root
```
"""


_CLIENT_KEYS: Final = f"""\
### `{CLIENT_PREFIX}*`

Settings for the Kafka client of a log in a topic, passed through without this prefix: those of
[librdkafka](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md), such as
`security.protocol`, `sasl.mechanism`, `sasl.username`, `sasl.password`, `ssl.ca.location`. Keys that only
Java clients have (`sasl.jaas.config`, `ssl.truststore.location`) are errors. Secrets are never printed.

Without the prefix these keys are errors in a file that is not a broker's: they would have no effect, and a
TLS port would be contacted in the clear. A `client.properties` of Kafka's own tools goes into
[`aclog.command.config`](#aclogcommandconfig) or `--command-config`, unchanged. If TLS is on at only one end
of a connection, the error says so.

aclog's own client of Kafka's protocol (`kraft://`, `describe://`) uses some of them, and two more:
`cluster.id` and `acls.refresh.interval.ms` ([Follow a cluster](how-to/follow-a-cluster.md)). With
`bootstrap.servers` it also asks these brokers which part of a live broker's directory is committed.

- variables: `ACLOG_KAFKA_*`, such as `ACLOG_KAFKA_SASL_PASSWORD` for `aclog.kafka.sasl.password`

### `{DECISION_CLIENT_PREFIX}*`

The same for the producer of decision events. For a topic on the log's own cluster (`kafka:TOPIC`) they
override `{CLIENT_PREFIX}*`. For a topic on another cluster (`kafka://HOST:PORT/TOPIC`) only these apply, so
that the log's credentials are not sent there.

- variables: `ACLOG_DECISION_LOG_KAFKA_*`
"""


def configuration_markdown() -> str:
    """Return the page."""
    aclog_keys = [key for key in KEYS if key.name.startswith(ACLOG_PREFIX)]
    kafka_keys = [key for key in KEYS if not key.name.startswith(ACLOG_PREFIX)]
    sections = [
        _HEAD,
        "## Kafka's keys\n",
        *map(_entry, kafka_keys),
        "## aclog's own keys\n",
        *map(_entry, aclog_keys),
        _CLIENT_KEYS,
    ]
    return "\n".join(sections)


def _entry(key: ConfigKey[Any]) -> str:
    default = "unset" if key.default is None else f"`{key.default}`" if key.default else "empty"
    variable = f"`{key.variable}`" if key.environment else "none"
    dynamic = "yes" if key.is_dynamic else "no"
    return (
        f"### `{key.name}`\n\n{key.doc}\n\n"
        f"- type: {key.type_name}\n- default: {default}\n- allowed: {key.allowed}\n- variable: {variable}\n"
        f"- dynamic: {dynamic}\n- per cluster: {'yes' if key.is_per_cluster else 'no'}\n"
    )


def main(arguments: list[str]) -> None:
    """Write the page to the file of the first argument, or to stdout."""
    if arguments:
        Path(arguments[0]).write_text(configuration_markdown(), encoding="utf-8")
    else:
        sys.stdout.write(configuration_markdown())


if __name__ == "__main__":
    main(sys.argv[1:])
