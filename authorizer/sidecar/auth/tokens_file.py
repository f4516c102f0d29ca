"""File of token hashes, which the sidecar reads and ``aclog token`` writes."""

from __future__ import annotations

from typing import Final

from authorizer.authentication.secrets_file import SecretsFile
from authorizer.configuration.keys.names import AUTH_TOKENS_FILE
from authorizer.sidecar.auth.stored_tokens import StoredToken

TOKENS_FILE: Final = SecretsFile(AUTH_TOKENS_FILE, "token", "aclog token create --file", StoredToken)
