"""When rights were last used, by a file of request lines (``aclog.console.requests``).

A right is used by a request that was allowed. Requests of super users are left out: they need no ACL.
"""

from __future__ import annotations

import threading
import zlib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from authorizer.analysis.files.parsing import gunzipped
from authorizer.configuration.file_version import FileVersion
from authorizer.configuration.keys.names import CONSOLE_REQUESTS
from records.request_line import SUPER_USER, Request
from records.request_traffic import Traffic, TrafficReader, Window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from authorizer.analysis.permissions.request_class import RequestClass
    from authorizer.api.ip_address import NetworkRules

#: Size of a file that is read for a page: some seconds.
_FILE_BYTES_MAX: Final = 256 * 1024 * 1024


class LastUsed:
    """The times of the allowed requests of some lines."""

    def __init__(self, traffic: Traffic) -> None:
        self._coverage = traffic.coverage
        self._of_principal: defaultdict[str, list[tuple[Request, int]]] = defaultdict(list)
        for logged, span in traffic.spans.items():
            if logged.is_allowed and not logged.is_probe and logged.rule != SUPER_USER:
                self._of_principal[logged.request.principal].append((logged.request, span.last_ms))

    def window_json(self) -> dict[str, Any]:
        """Return the time that the lines cover, and whether they are a sample."""
        coverage = self._coverage
        return {
            "first": coverage.first_ms,
            "last": coverage.last_ms,
            "requests": coverage.requests,
            "sampled": coverage.sampled,
            "not_understood": coverage.not_understood,
        }

    def of(self, requests: RequestClass, networks: NetworkRules) -> int | None:
        """Return the time of a class's last request, in milliseconds since the epoch; None: there is none."""
        principal, excluded, _ = requests.principals
        used: Iterable[list[tuple[Request, int]]]
        if principal is not None:
            used = [self._of_principal.get(principal, [])]
        else:
            used = [found for name, found in self._of_principal.items() if name not in excluded]
        times = (
            last_ms
            for of_one in used
            for request, last_ms in of_one
            if request.resource_type == requests.resource_type
            and request.operation in requests.operations
            and any(each.has(request.resource_name) for each in requests.names)
            and requests.hosts.has(request.host, networks)
        )
        return max(times, default=None)


class LastUsedFile:
    """The requests of a file, which is read again when it changes.

    Thread-safe; callers wait for a running read.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._cached: tuple[FileVersion, LastUsed] | None = None

    def read(self) -> LastUsed:
        """Return its requests. A ValueError names the key and the file, which has none or is not readable."""
        try:
            version = FileVersion.of(Path(self._path))
            with self._lock:
                if self._cached is None or self._cached[0] != version:
                    self._cached = version, LastUsed(_read(self._path, version.size))
                return self._cached[1]
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise ValueError(f"{CONSOLE_REQUESTS}: {self._path}: {error}") from error


def _read(path: str, size: int) -> Traffic:
    if size > _FILE_BYTES_MAX:
        raise ValueError(
            f"{size:,} bytes are too many for a page (at most {_FILE_BYTES_MAX:,}): `aclog review "
            "--distinct` writes one line for equal requests"
        )
    reader = TrafficReader(Window())
    with Path(path).open("rb") as file, gunzipped(file) as lines:
        reader.read(lines, path, 1)
    traffic = reader.settle()
    if not any(logged.is_allowed for logged in traffic.spans):
        raise ValueError("no line about an allowed request with a time; Kafka logs these at DEBUG")
    return traffic
