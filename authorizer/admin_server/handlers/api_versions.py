"""ApiVersions: which requests are answered, in which versions (KIP-35, KIP-511, KIP-1242).

Source: ApiVersionsRequest and KafkaApis.handleApiVersionsRequest. A version that is not known gets
UNSUPPORTED_VERSION in version 0 of the response, with the range of ApiVersions itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from authorizer.admin_server.api import Api

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.admin_server.handlers.cluster_node import ClusterNode
    from authorizer.admin_server.request import AdminRequest
    from authorizer.admin_server.versioned_entity import Values

#: ApiVersionsRequest.SUPPORTED_SOFTWARE_NAME and version: the same pattern.
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
#: From this version on the client says what it is.
_WITH_SOFTWARE: Final = 3
#: From this version on the client may say which node of which cluster it means (KIP-1242).
_WITH_NODE: Final = 5
_NO_NODE: Final = -1


class ApiVersionsHandler:
    """Answers with the served requests.

    Attributes:
        api: of this request.
        served: all requests; set before the first one is answered.
    """

    def __init__(self, cluster: ClusterNode) -> None:
        self._cluster = cluster
        self.api = Api(
            key=18,
            schema="api_versions",
            min_version=0,
            max_version=5,
            answer=self.answer,
            error=self.error,
        )
        self.served: Sequence[Api] = ()

    async def answer(self, request: AdminRequest) -> Values:
        """All served requests, unless the client means another node or cluster."""
        body = request.body
        if request.header.api_version >= _WITH_SOFTWARE:
            name, version = body.client_software_name, body.client_software_version
            if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
                return self._values(ErrorCode.invalid_request, ())
            request.session.software = f"{name} {version}"
        # Brokers do not compare before a login.
        is_login = request.session.sasl is not None and request.session.sasl.principal is None
        if request.header.api_version >= _WITH_NODE and not is_login and (code := self._mismatch(body)):
            return self._values(code, ())
        if request.session.sasl is not None:
            request.session.sasl.on_versions_answered()
        return self._values(ErrorCode.none, self.served)

    def _mismatch(self, body: Any) -> ErrorCode | None:
        """The error of a client that means another node, or has named only one of cluster and node."""
        if (body.cluster_id is None) != (body.node_id == _NO_NODE):
            return ErrorCode.invalid_request
        here = self._cluster.cluster_id, self._cluster.id
        if body.cluster_id is None or (body.cluster_id, body.node_id) == here:
            return None
        return ErrorCode.rebootstrap_required

    def error(self, _body: Any, code: ErrorCode, _message: str | None) -> Values:
        """An error, with the versions of this request."""
        return self._values(code, (self.api,))

    def _values(self, code: ErrorCode, apis: Sequence[Api]) -> Values:
        return {
            "error_code": code,
            "api_keys": [
                {"api_key": each.key, "min_version": each.min_version, "max_version": each.max_version}
                for each in sorted(apis, key=lambda each: each.key)
            ],
        }
