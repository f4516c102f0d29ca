"""``aclog serve`` whose event loop of Kafka's protocol hangs when a client asks, while a file exists.

The file comes before the arguments of the command line.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from authorizer.admin_server.connection import AdminConnection
from authorizer.cli.main import main

if __name__ == "__main__":
    hangs = Path(sys.argv.pop(1))
    real = AdminConnection._serve_request

    def serve_request(connection: AdminConnection, frame: bytes) -> Coroutine[Any, Any, None]:
        while hangs.exists():
            time.sleep(0.01)  # polls for a file, without a deadline
        return real(connection, frame)

    AdminConnection._serve_request = serve_request  # type: ignore[method-assign,assignment]
    main()
