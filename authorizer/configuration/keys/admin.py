"""Keys of the server of Kafka's protocol."""

from __future__ import annotations

from authorizer.configuration.keys.key import KeyGroup, text_key
from authorizer.configuration.keys.names import ADMIN_CREDENTIALS_FILE


class AdminKeys(KeyGroup):
    """Keys of the server of Kafka's protocol."""

    admin_credentials_file = text_key(
        ADMIN_CREDENTIALS_FILE,
        "a file that `aclog credentials add --file` makes",
        "Users that log in by PLAIN or SCRAM on listeners with SASL, one line each: hashes, never passwords. "
        "A changed file takes effect within about a second. An unusable file changes nothing.",
    )
