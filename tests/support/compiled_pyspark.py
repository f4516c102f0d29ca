"""Adds bytecode to pyspark.zip, from which Spark's Python processes import pyspark.

    python -m support.compiled_pyspark

Python does not cache the bytecode of an archive: without this each process compiles pyspark, 0.7 s of CPU,
and a job has five of them. `make setup` does so for the tests. A module whose bytecode does not fit is
compiled as before.
"""

from __future__ import annotations

import marshal
import time
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pyspark.find_spark_home import _find_spark_home


def main() -> None:
    archive = Path(_find_spark_home(), "python", "lib", "pyspark.zip")
    with ZipFile(archive) as source:
        if any(name.endswith(".pyc") for name in source.namelist()):
            return
        # A new file, for the package manager may share the old one with other environments.
        compiled = archive.with_suffix(".new")
        with ZipFile(compiled, "w", ZIP_DEFLATED) as target:
            for info in source.infolist():
                data = source.read(info)
                target.writestr(info, data)
                if info.filename.endswith(".py"):
                    target.writestr(
                        ZipInfo(f"{info.filename}c", info.date_time), _bytecode(archive, info, data)
                    )
    compiled.replace(archive)


def _bytecode(archive: Path, info: ZipInfo, data: bytes) -> bytes:
    """What a .pyc holds (PEP 552, by time)."""
    time_s = int(time.mktime((*info.date_time, -1, -1, -1)))
    numbers = (0, time_s, len(data))
    code = compile(data, f"{archive}/{info.filename}", "exec", dont_inherit=True)
    head = b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in numbers)
    return MAGIC_NUMBER + head + marshal.dumps(code)


if __name__ == "__main__":
    main()
