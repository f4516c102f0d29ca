"""The ACLs of a running node, through its ``/v1/acls``: over TCP, or by the socket in a log's directory."""

from __future__ import annotations

import http.client
import json
import time
from contextlib import closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from authorizer.acl_json import acl_from_json
from authorizer.cli.failure import ExitCode, Failure
from authorizer.configuration.listeners import is_loopback
from authorizer.errors import AuthorizerNotReadyError, OperationTimedOutError
from authorizer.sidecar.acl_bodies import ACLS_PATH, creation_body, deletion_body, listing_query
from authorizer.sidecar.acl_results import create_result_of, delete_result_of
from authorizer.sidecar.unix_socket import connect_unix
from records.acl import AclBindingFilter
from records.columns.acl_table import AclTable, AppliedAcl
from records.log.directory.files import SOCKET_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from authorizer.api import AclCreateResult, AclDeleteResult
    from records.acl import AclBinding, ResourcePatternFilter

_UNIX: Final = "unix:"
#: Beyond what the node gives a change (aclog.acl.update.timeout.ms): for the way there and back.
_ON_THE_WAY_S: Final = 10.0
#: A node that has just been started is loading; no longer than this is waited for it.
_READY_TIMEOUT_S: Final = 10.0
_LOOK_S: Final = 0.1


class _LocalConnection(http.client.HTTPConnection):
    """HTTP over a Unix domain socket."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path
        self._timeout_s = timeout_s

    def connect(self) -> None:
        self.sock = connect_unix(self._path, self._timeout_s)


class NodeAcls:
    """Implements acls.Acls; a connection lasts for one request."""

    def __init__(self, url: str, update_timeout_ms: int, token: str | None = None) -> None:
        """``token``: the bearer token that says who asks.

        Raises:
            Failure: ``url`` is no ``http://HOST:PORT``, https or ``unix:PATH``; or others would see the token
                on its way there.
        """
        self._url = url
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._connection = _connection(url, update_timeout_ms / 1000 + _ON_THE_WAY_S)
        parts = urlsplit(url)
        if token is not None and parts.scheme == "http" and not is_loopback(parts.hostname):
            raise Failure(f"{url}: a token is sent over https, or to this machine, only", ExitCode.USAGE)

    @classmethod
    def beside(cls, directory: Path, update_timeout_ms: int) -> Self | None:
        """The node that writes the log in ``directory``; None if none takes requests there.

        Raises:
            OSError: it was not reached, such as PermissionError for another user.
        """
        path = directory / SOCKET_FILE
        try:
            connect_unix(path, _ON_THE_WAY_S).close()
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        return cls(f"{_UNIX}{path}", update_timeout_ms)

    def listed(self, wanted: Sequence[ResourcePatternFilter]) -> tuple[int, AclTable]:
        """As acls.Acls. Raises as ``create``."""
        # One request, for one state.
        asked = AclBindingFilter(wanted[0]) if len(wanted) == 1 else AclBindingFilter()
        with self._expected():
            answer = self._ask("GET", f"{ACLS_PATH}?{listing_query(asked)}")
            records = [acl_from_json(acl) for acl in answer["acls"]]
            # Their offsets are not printed.
            return int(answer["offset"]), AclTable.of([AppliedAcl(record, None, 0) for record in records])

    def create(self, bindings: Sequence[AclBinding]) -> tuple[int, list[AclCreateResult]]:
        """As acls.Acls.

        Raises:
            Failure: the node refused the request, or does not answer as a node.
            AuthorizerNotReadyError: it is not ready. Nothing was written.
            OperationTimedOutError: it has gone, or does not answer. The outcome is unknown.
        """
        with self._expected():
            answer = self._ask("POST", ACLS_PATH, creation_body(bindings))
            return int(answer["offset"]), [create_result_of(result) for result in answer["results"]]

    def delete(self, filters: Sequence[AclBindingFilter]) -> tuple[int, list[AclDeleteResult]]:
        """As acls.Acls. Raises as ``create``."""
        with self._expected():
            answer = self._ask("DELETE", ACLS_PATH, deletion_body(filters))
            return int(answer["offset"]), [delete_result_of(result) for result in answer["results"]]

    @contextmanager
    def _expected(self) -> Iterator[None]:
        """Around what takes an answer to pieces, and puts a question together."""
        try:
            yield
        except UnicodeEncodeError as error:
            raise Failure(f"not Unicode text: {error.object!r}", ExitCode.USAGE) from error
        except (ValueError, KeyError, TypeError) as error:
            raise Failure(f"{self._url} does not answer as an aclog node does", ExitCode.USAGE) from error

    def _ask(self, method: str, target: str, body: bytes | None = None) -> Any:
        """The JSON of an answer, once the node is ready."""
        give_up_s = time.monotonic() + _READY_TIMEOUT_S
        refused = "" if method == "GET" else "; nothing was written"
        while True:
            status, answer = self._exchange(method, target, body)
            if status == HTTPStatus.OK:
                return answer
            code, detail = answer["code"], answer["detail"]
            if code != AuthorizerNotReadyError.code_name:
                if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                    refused = ""  # it may have begun
                exit_code = _EXIT_CODES.get(HTTPStatus(status), ExitCode.USAGE)
                raise Failure(f"{self._url}: {detail}{refused}", exit_code)
            if time.monotonic() >= give_up_s:
                raise AuthorizerNotReadyError(f"{self._url}: {detail}{refused}")
            time.sleep(_LOOK_S)

    def _exchange(self, method: str, target: str, body: bytes | None) -> tuple[int, Any]:
        headers = self._headers if body is None else {**self._headers, "content-type": "application/json"}
        with closing(self._connection) as connection:
            try:
                connection.connect()
            except OSError as error:
                raise Failure(
                    f"{self._url}: {error.strerror or error}",
                    ExitCode.NOT_READY,
                    "Nothing was written. Is `aclog serve` running, and is this its listener?",
                ) from error
            try:
                connection.request(method, target, body, headers)
                response = connection.getresponse()
                return response.status, json.loads(response.read())
            except (OSError, http.client.HTTPException) as error:
                raise OperationTimedOutError(
                    f"{self._url} has not answered ({str(error) or type(error).__name__})"
                    f"{'' if method == 'GET' else '. The outcome is unknown'}"
                ) from error


_EXIT_CODES: Final = {
    HTTPStatus.UNAUTHORIZED: ExitCode.NO,
    HTTPStatus.FORBIDDEN: ExitCode.NO,
    HTTPStatus.TOO_MANY_REQUESTS: ExitCode.NOT_READY,
    HTTPStatus.SERVICE_UNAVAILABLE: ExitCode.NOT_READY,
    HTTPStatus.INTERNAL_SERVER_ERROR: ExitCode.BAD_DATA,
}


def _connection(url: str, timeout_s: float) -> http.client.HTTPConnection:
    if url.startswith(_UNIX):
        return _LocalConnection(Path(url.removeprefix(_UNIX)), timeout_s)
    parts = urlsplit(url)
    try:
        if parts.hostname and parts.path in ("", "/") and not parts.query:
            if parts.scheme == "http":
                return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
            if parts.scheme == "https":
                return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s)
    except ValueError:
        pass  # the port is no number
    raise Failure(f"`{url}` is no sidecar's address: http(s)://HOST:PORT or unix:PATH", ExitCode.USAGE)
