"""The command line, ``aclog``: one module for each command or group.

Rules of this package:

- Answers go to stdout; notes, progress and errors go to stderr.
- Exit codes are pinned (``failure.ExitCode``); only ``failure`` maps errors to them.
- Commands, help and completion start fast. ``main`` imports a command's module only when the command is
  called or described. That module imports only what its options and texts need; functions import the log,
  replay, numpy, pyarrow and uvicorn. A test counts the imports.
"""
