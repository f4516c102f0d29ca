"""The command line, ``aclog``: one file for each command (group).

Rules of this package:

- Answers go to stdout, everything else (notes, progress, errors) to stderr.
- Exit codes are pinned (``failure.ExitCode``), and ``failure`` is the one place that knows which error gives
  which code.
- A command starts in a moment, and its help and completion in less. ``main`` imports a command's module only
  when the command is called or asked for, and that module imports what its options and texts need. What does
  the work (the log, the replay, numpy, pyarrow, uvicorn) comes with the function that does it. A test counts
  what is imported.
"""
