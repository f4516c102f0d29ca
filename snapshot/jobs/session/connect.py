"""A session on a Spark Connect server, for queries."""

from __future__ import annotations

import socket
from typing import Final
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from snapshot.errors import SparkConnectError

SCHEME: Final = "sc"
_PORT: Final = 15002
_TIMEOUT_S: Final = 10.0


def connect_session(url: str) -> SparkSession:
    """A session on the server at ``sc://HOST[:PORT][/;PARAMETERS]``; this process gets no JVM.

    Raises:
        SparkConnectError: the URL is not valid, or nothing listens there.
    """
    host, port = _address(url)
    try:
        # The client itself retries for ten minutes.
        socket.create_connection((host, port), timeout=_TIMEOUT_S).close()
    except OSError as error:
        raise SparkConnectError(f"no Spark Connect server at {host}:{port}: {error}") from error
    session: SparkSession = SparkSession.builder.remote(url).getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def _address(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORT
    except ValueError as error:
        raise SparkConnectError(f"`{url}` is not sc://HOST[:PORT]: {error}") from error
    if parts.scheme != SCHEME or not host:
        raise SparkConnectError(f"`{url}` is not sc://HOST[:PORT]")
    return host, port
