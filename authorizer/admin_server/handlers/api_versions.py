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
    from authorizer.admin_server.values_encoder import Values

#: ApiVersionsRequest.SUPPORTED_SOFTWARE_NAME and version: the same pattern.
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
#: From this version on the client says what it is.
_WITH_SOFTWARE: Final = 3
#: From this version on the client may say which node of which cluster it means (KIP-1242).
_WITH_NODE: Final = 5
_NO_NODE: Final = -1


class ApiVersionsHandler:
    """Answers with the served requests; ``served`` is set before the first one is answered."""

    def __init__(self, cluster: ClusterNode) -> None:
        self._cluster = cluster
        self.api = Api(
            key=18,
            schema="api_versions",
            versions=range(6),
            answer=self.answer,
            error=self.error,
        )
        self.served: Sequence[Api] = ()

    async def answer(self, request: AdminRequest) -> Values:
        body, version, sasl = request.body, request.header.api_version, request.session.sasl
        has_node = version >= _WITH_NODE and body.cluster_id is not None
        if version >= _WITH_NODE and has_node != (body.node_id != _NO_NODE):
            return self._values(ErrorCode.invalid_request, ())
        if version >= _WITH_SOFTWARE:
            names = body.client_software_name, body.client_software_version
            if not all(map(_SOFTWARE.fullmatch, names)):
                return self._values(ErrorCode.invalid_request, ())
            request.session.software = " ".join(names)
        if sasl is not None:
            sasl.on_versions_answered()
        # Brokers do not compare before a login.
        is_login = sasl is not None and sasl.principal is None
        if has_node and not is_login and not self._is_this_node(body.cluster_id, body.node_id):
            return self._values(ErrorCode.rebootstrap_required, ())
        served = [each for each in self.served if each.is_served_to(request.session)]
        return self._values(ErrorCode.none, served)

    def error(self, _body: Any, code: ErrorCode, _message: str | None) -> Values:
        """An error; of a version that is not known with the versions of this request."""
        return self._values(code, (self.api,) if code is ErrorCode.unsupported_version else ())

    def _is_this_node(self, cluster_id: str, node_id: int) -> bool:
        """Whether a client means this node; before the log's cluster is known any cluster is accepted."""
        return node_id == self._cluster.id and self._cluster.cluster_id in (None, cluster_id)

    def _values(self, code: ErrorCode, apis: Sequence[Api]) -> Values:
        return {
            "error_code": code,
            "api_keys": [
                {"api_key": each.key, "min_version": each.versions[0], "max_version": each.versions[-1]}
                for each in sorted(apis, key=lambda each: each.key)
            ],
        }
