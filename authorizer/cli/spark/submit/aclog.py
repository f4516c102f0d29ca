"""The program for spark-submit: ``spark-submit [--packages ...] aclog.py spark snapshots ...``.

It is alone in its directory, because spark-submit puts that first on the path, where other modules could hide
packages. It needs only an installed aclog and can be copied. ``aclog spark submit-file`` prints its path.
"""  # noqa: INP001 - a program, and no part of a package

from authorizer.cli.main import main

if __name__ == "__main__":
    main()
