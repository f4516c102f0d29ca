"""Errors for packages of extras that are not installed, with the pip command that installs them."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from records.errors import AclogError

_OF_EXTRA: Final = re.compile(
    r"""(?P<package>[^;]+?) ?; (?:(?P<marker>.+) and )?extra == ['"](?P<extra>.+)['"]"""
)


@contextmanager
def importing_extra(extra: str, user: str, error_type: type[AclogError], *packages: str) -> Iterator[None]:
    """Context for imports of packages of an extra; ``user`` names what needs them.

    Raises:
        AclogError: of ``error_type``, with the command that installs the extra's packages.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in packages:
            raise
        raise error_type(f"{user} needs {package.replace('_', '-')}: {install_command(extra)}") from error


def install_command(extra: str) -> str:
    """Return ``pip install ...`` with the packages of an extra.

    They are named one by one, because pip may not find aclog: it may come from a directory or a file.
    """
    return shlex.join([*_pip(), *(_packages(extra) or [f"{Path(__file__).parents[1]}[{extra}]"])])


def _packages(extra: str) -> list[str]:
    """The packages of an extra; none if aclog is not installed, but run from its source tree."""
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415 - slow, and only for errors

    try:
        lines = requires("aclog") or []
    except PackageNotFoundError:
        return []
    matches = [match for line in lines if (match := _OF_EXTRA.fullmatch(line)) and match["extra"] == extra]
    return [match["package"] + (f"; {match['marker']}" if match["marker"] else "") for match in matches]


def _pip() -> list[str]:
    """The pip of this interpreter's environment, which need not be the one on PATH."""
    found = shutil.which("pip")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return ["pip", "install"]
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    return ["uv", "pip", "install", "--python", sys.executable]
