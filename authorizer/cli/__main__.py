"""``python -m authorizer.cli``: the same as ``aclog``."""

from __future__ import annotations

from authorizer.cli.main import main

if __name__ == "__main__":
    main()
