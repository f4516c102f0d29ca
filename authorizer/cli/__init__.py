"""The command line, ``aclog``: one file for each command (group).

Rules of this package:

- Answers go to stdout, everything else (notes, progress, errors) to stderr.
- Exit codes are pinned (``failure.ExitCode``), and ``failure`` is the one place that knows which error gives
  which code.
- ``aclog --help`` must be quick, so ``main`` imports a command's module only when the command is called, and
  what is heavy (pyarrow, uvicorn, prometheus_client) is imported where it is used.
"""
