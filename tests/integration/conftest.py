"""Fixtures of the console's tests: the sidecar of the module's `node`, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import httpx

    from authorizer.node.node import Node


@pytest.fixture(scope="module")
def url(node: Node) -> Iterator[str]:
    """Of a sidecar with the console."""
    from support.nodes import sidecar_of  # noqa: PLC0415  (most tests need no HTTP server)

    with sidecar_of(node, console_listeners="*") as address:
        yield address


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    """Of the same sidecar."""
    import httpx  # noqa: PLC0415  (as above)

    from support.nodes import SOON_S  # noqa: PLC0415  (as above)

    with httpx.Client(base_url=url, timeout=SOON_S) as asking:
        yield asking
