"""The topic that decision events are written to: its URL, and the settings of its client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.names import DECISION_LOG, LOG_URL
from records.log.open import TOPIC, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.configuration.decision_log import DestinationSettings
    from authorizer.configuration.load import Config


def event_topic(config: Config, settings: DestinationSettings) -> tuple[str, Mapping[str, str]]:
    """Return the topic's URL and its client's settings.

    Credentials of the log's cluster are sent to no other cluster.

    Raises:
        ConfigError: it is to be on the log's cluster, and the log is on none.
    """
    if "://" in settings.location:
        return settings.location, config.decision_log_kafka
    log_url = config.log_url
    if log_url is None or kind_of(log_url) != TOPIC:
        raise ConfigError(
            DECISION_LOG,
            settings.text,
            f"kafka://HOST:PORT/{settings.location}: `{LOG_URL}` is no topic whose cluster it could be on",
        )
    return f"{log_url.rpartition('/')[0]}/{settings.location}", {**config.kafka, **config.decision_log_kafka}
