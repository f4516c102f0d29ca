"""docs/configuration.md, written from the keys: ``python -m authorizer.configuration.reference [FILE]``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from authorizer.configuration.keys.key import ACLOG_PREFIX, CLIENT_PREFIX, ConfigKey
from authorizer.configuration.keys.table import KEYS

_HEAD: Final = """\
# Configuration

<!-- Written by `python -m authorizer.configuration.reference docs/configuration.md`; edit
authorizer/configuration/keys. -->

A Java properties file with Kafka's keys: a broker's own `server.properties` works as it is, and keys that
aclog has no use for are passed by. aclog's own keys begin with `aclog.`; one of those that does not exist
is an error. The file is read as UTF-8, or as Latin-1 (as Java does) if it is not that.

Environment variables win over the file, flags over both. A variable is `ACLOG_` and the key in capitals,
with underscores for dots and without a leading `aclog.`. A value that is not allowed stops the start with
the key, the value and what is allowed.

```properties
super.users=User:admin
aclog.log.url=file:/var/lib/aclog/log
aclog.snapshot.store=/var/lib/aclog/snapshots
```
"""


_CLIENT_KEYS: Final = f"""\
### `{CLIENT_PREFIX}*`

Settings for the Kafka client of a log in a topic, passed through without this prefix: those of
[librdkafka](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md), such as
`security.protocol`, `sasl.mechanism`, `sasl.username`, `sasl.password`, `ssl.ca.location`. Keys that only
Java clients have (`sasl.jaas.config`, `ssl.truststore.location`) are errors. Secrets are never printed.

- variables: `ACLOG_KAFKA_*`, such as `ACLOG_KAFKA_SASL_PASSWORD` for `aclog.kafka.sasl.password`
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
    return (
        f"### `{key.name}`\n\n{key.doc}\n\n"
        f"- type: {key.type}\n- default: {default}\n- allowed: {key.allowed}\n- variable: {variable}\n"
    )


def main(arguments: list[str]) -> None:
    """Write the page to the file named, or to stdout."""
    if arguments:
        Path(arguments[0]).write_text(configuration_markdown(), encoding="utf-8")
    else:
        sys.stdout.write(configuration_markdown())


if __name__ == "__main__":
    main(sys.argv[1:])
