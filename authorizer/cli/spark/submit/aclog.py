"""What spark-submit is given: ``spark-submit [--packages ...] aclog.py spark snapshots ...``.

Alone in its directory, which spark-submit puts first on the path: beside the commands, ``snapshot.py`` would
hide the package of that name. It needs nothing but an installed aclog, so that it may be copied to where a
cluster wants it. ``aclog spark submit-file`` says where it is.
"""  # noqa: INP001 - a program, and no part of a package

from authorizer.cli.main import main

if __name__ == "__main__":
    main()
