"""The groups of commands; a group's command is imported when it is called."""

from __future__ import annotations

from typing import Final

from authorizer.cli.command import LazyGroup

log_command: Final = LazyGroup(
    "log",
    help="Create, dump, append to, copy or verify a metadata log.",
    modules={
        "append": "log.append",
        "copy": "log.copy",
        "create": "log.create",
        "dump": "log.dump",
        "verify": "log.verify",
    },
)
snapshot_command: Final = LazyGroup(
    "snapshot",
    help="List, create, verify, import or export snapshots.",
    modules={
        "create": "snapshot.create",
        "export": "snapshot.export",
        "import": "snapshot.create",
        "list": "snapshot.listing",
        "verify": "snapshot.verify",
    },
)
spark_command: Final = LazyGroup(
    "spark",
    help="Build snapshots, counts and the history of changes with Spark.",
    modules={
        "all": "spark.job_commands",
        "changes": "spark.job_commands",
        "counts": "spark.job_commands",
        "doctor": "spark.doctor",
        "history": "spark.history",
        "maintain": "spark.maintain",
        "pack": "spark.pack",
        "review": "spark.review",
        "snapshots": "spark.job_commands",
        "sql": "spark.sql",
        "submit-file": "spark.job_commands",
    },
)
