"""docs/errors.md, written from the error codes and classes: ``python -m authorizer.cli.error_reference``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from authorizer.api.errors import ApiError
from authorizer.api.http.error_code import ErrorCode
from authorizer.cli.failure import HINTS, ExitCode
from records.errors import AclogError

FILE: Final = Path("docs/errors.md")
_HEAD: Final = """\
# Errors

<!-- Written by `make docs` from the error codes and classes; do not edit. -->

A denied request is not an error. Over HTTP it is status 200 with `"decision": false`; a command that denies
ends with exit code 1.

## Over HTTP

The header `aclog-error` has the code. The body is described in [The sidecar over HTTP](http.md#errors).
"""
_EXIT_CODES: Final = {
    ExitCode.OK: "Success: allowed, equal, nothing found.",
    ExitCode.NO: "Denied, different, or something was found. Not an error.",
    ExitCode.USAGE: "The command line, a setting, a password or a path is wrong: change it. Or a right is "
    "missing: grant it.",
    ExitCode.NOT_READY: "Something is not available now: try again.",
    ExitCode.BAD_DATA: "Data is damaged, incomplete or of a newer version.",
    ExitCode.DEFECT: "A defect in aclog: report it with the traceback of `aclog --debug ...`.",
    ExitCode.INTERRUPTED: "Interrupted (Ctrl-C).",
    ExitCode.BROKEN_PIPE: "The reader of the output has ended.",
}
_COMMANDS: Final = """
## Of commands

An error is printed to stderr: what failed, why, and what to do. Scripts use the exit code:

| exit code | meaning |
| --- | --- |
"""
_CLASSES: Final = """
## In Python

All classes below derive from `records.errors.AclogError`. The exit code is that of a command that ends with
the error; a class that is not listed has the code of its base class.

| class | meaning | exit code | what to do |
| --- | --- | --- | --- |
"""


def reference() -> str:
    """The complete page, in Markdown."""
    http = (f"\n### `{code}`\n\nStatus {code.status:d}. {code.meaning}\n" for code in sorted(ErrorCode))
    codes = (f"| {code:d} | {meaning} |\n" for code, meaning in _EXIT_CODES.items())
    return _HEAD + "".join(http) + _COMMANDS + "".join(codes) + _CLASSES + "".join(_classes())


def _classes() -> Iterator[str]:
    for kind, (code, hint) in sorted(HINTS.items(), key=lambda found: (found[1][0], found[0].__name__)):
        if issubclass(kind, AclogError) and kind is not AclogError:
            name = f"`{kind.__module__}.{kind.__name__}`"
            if issubclass(kind, ApiError):
                name += f" (Kafka: `{kind.code_name}`)"
            meaning = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
            way_out = hint.replace("{log}", "LOG").replace("{target}", "LOG").replace("{store}", "STORE")
            yield f"| {name} | {meaning} | {code:d} | {way_out} |\n"


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
