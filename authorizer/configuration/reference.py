"""docs/configuration.md, written from the keys: ``python -m authorizer.configuration.reference [FILE]``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from authorizer.configuration.keys.key import ACLOG_PREFIX, CLIENT_PREFIX, DECISION_CLIENT_PREFIX, ConfigKey
from authorizer.configuration.keys.table import KEYS

_HEAD: Final = f"""\
# Configuration

<!-- Written by `python -m authorizer.configuration.reference docs/configuration.md`; edit
authorizer/configuration/keys. -->

A Java properties file with Kafka's keys: a broker's own `server.properties` works as it is, and keys that
aclog has no use for are passed by. aclog's own keys begin with `aclog.`; one of those that does not exist
is an error. The file is read as UTF-8, or as Latin-1 (as Java does) if it is not that.

Environment variables win over the file, flags over both. A variable is `ACLOG_` and the key in capitals,
with underscores for dots and without a leading `aclog.`. A value that is not allowed stops the start with
the key, the value and what is allowed.

A key that is dynamic changes while `aclog serve` runs: on SIGHUP, for which the file is read again, and by
`PUT /v1/config`; all others take a restart ([Change settings](how-to/deploy.md#change-settings)).

```properties
super.users=User:admin
aclog.log.url=file:/var/lib/aclog/log
aclog.snapshot.store=/var/lib/aclog/snapshots
```

`aclog serve` follows several clusters where `aclog.clusters` names them
([Follow several clusters](how-to/fleet.md)). A key whose entry says so may then be each cluster's own:
`aclog.cluster.NAME.` and the key without a leading `aclog.`, `ACLOG_CLUSTER_NAME_...` as a variable. It wins
over the same key for all clusters, wherever that was set. `{CLIENT_PREFIX}*` may be so, too; credentials that
are written once for all are sent to all.

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

Without the prefix these keys are refused in a file that is no broker's: nothing would read them, and a port
with TLS would be spoken to in the clear. So a `client.properties` of Kafka's own tools gets the prefix on
each line. A port that has TLS where the settings have none, or the other way round, is named as the reason.

A log that is asked for in Kafka's own protocol takes some of them, and two besides: `cluster.id` and
`acls.refresh.interval.ms` ([Follow a cluster](how-to/follow-a-cluster.md)). So does the directory of a
live broker where there is `bootstrap.servers`: these brokers are asked what of it is committed.

- variables: `ACLOG_KAFKA_*`, such as `ACLOG_KAFKA_SASL_PASSWORD` for `aclog.kafka.sasl.password`

### `{DECISION_CLIENT_PREFIX}*`

The same for the producer of decision events. For a topic on the log's own cluster (`kafka:TOPIC`) they come
over `{CLIENT_PREFIX}*`; a topic elsewhere (`kafka://HOST:PORT/TOPIC`) has these alone, so that no other
cluster is sent the credentials of the log's.

- variables: `ACLOG_DECISION_LOG_KAFKA_*`
"""


def configuration_markdown() -> str:
    """The whole page."""
    own = [key for key in KEYS if key.name.startswith(ACLOG_PREFIX)]
    kafka = [key for key in KEYS if not key.name.startswith(ACLOG_PREFIX)]
    sections = [
        _HEAD,
        "## Kafka's keys\n",
        *map(_entry, kafka),
        "## aclog's own keys\n",
        *map(_entry, own),
        _CLIENT_KEYS,
    ]
    return "\n".join(sections)


def _entry(key: ConfigKey) -> str:
    default = "unset" if key.default is None else f"`{key.default}`" if key.default else "empty"
    variable = f"`{key.variable}`" if key.environment else "none"
    dynamic = "yes" if key.dynamic else "no"
    return (
        f"### `{key.name}`\n\n{key.doc}\n\n"
        f"- type: {key.type}\n- default: {default}\n- allowed: {key.allowed}\n- variable: {variable}\n"
        f"- dynamic: {dynamic}\n- each cluster's own: {'may be' if key.of_cluster else 'no'}\n"
    )


def main(arguments: list[str]) -> None:
    """Write the page to the file named, or to stdout."""
    if arguments:
        Path(arguments[0]).write_text(configuration_markdown(), encoding="utf-8")
    else:
        sys.stdout.write(configuration_markdown())


if __name__ == "__main__":
    main(sys.argv[1:])
