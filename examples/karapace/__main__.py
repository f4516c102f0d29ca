"""Karapace's own program, with its rules asked of a sidecar; it is configured as ever (``KARAPACE_...``).

    ACLOG_SIDECAR          URL of the sidecar; http://127.0.0.1:8180 if not set
    ACLOG_SIDECAR_TOKEN    bearer token, if it wants one
    ACLOG_CLIENT_HOST      from where users come; the sidecar's aclog.sidecar.default.host if not set

Karapace calls its authorizer on its event loop, so answers come from the client's cache, which the stream of
changes keeps up to date, and a sidecar that is away is a DENIED after a second, never an ALLOWED.
"""

from __future__ import annotations

import os
import runpy

from dependency_injector import providers
from karapace.core import auth, auth_container

from authorizer.client import CacheSettings, Client, Credentials
from examples.karapace.rights import Rights

#: Maximum age of a cached decision; the change stream invalidates it earlier.
MAX_AGE_S = 30.0
TIMEOUT_S = 1.0


class SidecarAuthorizer(auth.HTTPAuthorizer):  # type: ignore[misc]  # Karapace need not be installed
    """The users of Karapace's file, Kafka's ACLs."""

    def __init__(self, auth_file: str) -> None:
        super().__init__(auth_file)
        self._client = Client(
            os.environ.get("ACLOG_SIDECAR", "http://127.0.0.1:8180"),
            credentials=Credentials(token=os.environ.get("ACLOG_SIDECAR_TOKEN")),
            timeout_s=TIMEOUT_S,
            cache=CacheSettings(max_age_s=MAX_AGE_S),
            when_unavailable="deny",
        )
        self._rights = Rights(self._client, os.environ.get("ACLOG_CLIENT_HOST"))

    def check_authorization(self, user: auth.User | None, operation: auth.Operation, resource: str) -> bool:
        return self.check_authorization_any(user, operation, [resource])

    def check_authorization_any(
        self, user: auth.User | None, operation: auth.Operation, resources: list[str]
    ) -> bool:
        return self._rights.may(None if user is None else user.username, operation.value, resources)

    async def close(self) -> None:
        await super().close()
        self._client.close()


def main() -> None:
    container = auth_container.AuthContainer
    auth_file = container.karapace_container.config().registry_authfile
    container.http_authorizer.override(providers.Singleton(SidecarAuthorizer, auth_file=auth_file))
    runpy.run_module("karapace", run_name="__main__")


if __name__ == "__main__":
    main()
