"""Archive of the packages that executors import, for clusters without aclog.

A tar.gz that Spark unpacks on each executor (``spark.archives``), in a directory on PYTHONPATH. It has aclog
and what it requires, without pyspark, which every Spark brings, and without an interpreter: compiled packages
need a Python of the driver's version, which the hosts have. ``_MANIFEST`` is its first member.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import cache_from_source, find_spec
from io import BytesIO
from pathlib import Path
from typing import IO, Final

import msgspec

from records.install_command import importing_extra
from snapshot.errors import SparkArchiveError

#: The directory into which Spark unpacks an archive, on executors in their working directory.
DIRECTORY: Final = "aclog-archive"
SUFFIXES: Final = (".tar.gz", ".tgz")
ARCHIVES: Final = "spark.archives"
PYTHON_PATH: Final = "spark.executorEnv.PYTHONPATH"

_ACLOG: Final = "aclog"
_MANIFEST: Final = "aclog-archive.json"
_FORMAT: Final = 1
_PACKAGES: Final = ("aclog", "authorizer", "records", "replay", "snapshot")
_EXTRAS: Final = ("kafka", "kraft", "s3", "snapshots", "spark")
# pyspark comes with Spark, and only the driver makes plots.
_LEFT_OUT: Final = frozenset({"pyspark", "py4j", "matplotlib"})
_DIRECTORIES_LEFT_OUT: Final = frozenset({"__pycache__", "include", "tests"})
_COMPRESSION: Final = 3


class ArchiveManifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an archive was made from.

    Attributes:
        python: version without the patch level; the interpreter that compiled packages fit.
        platform: as sysconfig.get_platform.
        pyspark: version on the machine that made the archive.
        code_digest: SHA-256 of aclog's modules. Two builds of one version may differ.
    """

    format: int = _FORMAT
    python: str
    platform: str
    pyspark: str
    packages: dict[str, str]
    code_digest: str


def write_archive(file: IO[bytes], additional: Iterable[str] = ()) -> ArchiveManifest:
    """Write an archive of this interpreter's packages, and of ``additional`` installed ones.

    Raises:
        SparkArchiveError: a package is not installed, or its files are unknown.
    """
    found = _distributions(additional)
    manifest = _manifest_of(found)
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=_COMPRESSION) as archive:
        content = msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"
        member = tarfile.TarInfo(_MANIFEST)
        member.size = len(content)
        archive.addfile(member, BytesIO(content))
        for name, path in sorted(_files(found)):
            archive.add(path, name, recursive=False, filter=_without_owner)
    return manifest


def read_manifest(path: Path) -> ArchiveManifest:
    """The manifest of an archive.

    Raises:
        SparkArchiveError: the file cannot be read, or is not an archive of `aclog spark pack`.
    """
    problem = f"{path} is not an archive of `aclog spark pack`"
    if not path.name.endswith(SUFFIXES):
        raise SparkArchiveError(f"{problem}: Spark unpacks *{' and *'.join(SUFFIXES)}")
    try:
        with tarfile.open(path, mode="r|gz") as archive:
            first = archive.next()
            content = None if first is None or first.name != _MANIFEST else archive.extractfile(first)
            if content is None:
                raise SparkArchiveError(f"{problem}: its first member is not {_MANIFEST}")
            return msgspec.json.decode(content.read(), type=ArchiveManifest)
    except (OSError, EOFError, tarfile.TarError, msgspec.MsgspecError) as error:
        raise SparkArchiveError(f"{problem}: {error}") from error


def differences(archive: ArchiveManifest) -> list[str]:
    """Sentences, without a full stop, about what has another version in the archive than here."""
    here = _manifest_of(_installed(archive.packages))
    pairs = [
        ("format", str(archive.format), str(here.format)),
        ("Python", archive.python, here.python),
        ("platform", archive.platform, here.platform),
        ("pyspark", archive.pyspark, here.pyspark),
        *((name, archive.packages[name], here.packages.get(name, "none")) for name in archive.packages),
    ]
    found = [f"{name} is {there}, the driver's is {this}" for name, there, this in pairs if there != this]
    if not found and archive.code_digest != here.code_digest:
        found = ["aclog has the same version, but its modules differ from the driver's"]
    return found


def archive_settings(path: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Settings by which executors use an archive, added to the user's settings.

    Executors run `python3.X` of their PATH unless the user names an interpreter. The driver runs it, too, as
    Python data sources plan with it, and imports its own packages (``driver_path``).
    """
    added = {
        ARCHIVES: ",".join(filter(None, (given.get(ARCHIVES), f"{path.absolute().as_uri()}#{DIRECTORY}"))),
        PYTHON_PATH: os.pathsep.join(filter(None, (DIRECTORY, given.get(PYTHON_PATH)))),
    }
    if "spark.pyspark.python" not in given and "PYSPARK_PYTHON" not in os.environ:
        added["spark.pyspark.python"] = f"python{_python_version()}"
    return added


def driver_path() -> str:
    """PYTHONPATH with this interpreter's packages, for another interpreter on this machine."""
    library = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    library |= {str(Path(directory, "lib-dynload")) for directory in library}
    entries = [entry for entry in sys.path if entry not in library and Path(entry).is_dir()]
    return os.pathsep.join(dict.fromkeys((*(str(_package(name).parent) for name in _PACKAGES), *entries)))


def _distributions(additional: Iterable[str]) -> dict[str, Distribution]:
    """The installed distributions of aclog, its extras and the additional ones, with what they require."""
    with importing_extra("spark", "aclog spark pack", SparkArchiveError, "packaging"):
        from packaging.requirements import Requirement  # noqa: PLC0415 - of an extra
        from packaging.utils import canonicalize_name  # noqa: PLC0415

    found: dict[str, Distribution] = {}
    names = (f"{_ACLOG}[{','.join(_EXTRAS)}]", *additional)
    for name in names:
        try:
            distribution(Requirement(name).name)
        except (PackageNotFoundError, ValueError) as error:
            raise SparkArchiveError(f"{name.partition('[')[0]} is not an installed package") from error
    pending = [Requirement(name) for name in names]
    seen: set[tuple[str, frozenset[str]]] = set()
    while pending:
        wanted = pending.pop()
        name, extras = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if name in _LEFT_OUT or (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # of an extra that is not installed
        for line in found[name].requires or ():
            required = Requirement(line)
            if required.marker is None or any(
                required.marker.evaluate({"extra": extra}) for extra in extras or {""}
            ):
                pending.append(required)
    return found


def _installed(names: Iterable[str]) -> dict[str, Distribution]:
    found = {}
    for name in names:
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue
    return found


def _manifest_of(found: Mapping[str, Distribution]) -> ArchiveManifest:
    return ArchiveManifest(
        python=_python_version(),
        platform=sysconfig.get_platform(),
        pyspark=distribution("pyspark").version,
        packages={name: found[name].version for name in sorted(found)},
        code_digest=_code_digest(),
    )


def _python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _code_digest() -> str:
    digest = hashlib.sha256()
    for name, path in sorted(_aclog_files()):
        if path.suffix == ".py":
            digest.update(f"{name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _files(found: Mapping[str, Distribution]) -> Iterator[tuple[str, Path]]:
    """Name in the archive and path of each file, with the bytecode that is there."""
    for name, path in _all_files(found):
        yield name, path
        if path.suffix == ".py":
            compiled = Path(cache_from_source(str(path)))
            if compiled.is_file():
                yield str(Path(name).parent / compiled.parent.name / compiled.name), compiled


def _all_files(found: Mapping[str, Distribution]) -> Iterator[tuple[str, Path]]:
    yield from _aclog_files()
    for name, each in found.items():
        if each.files is None:
            raise SparkArchiveError(f"{name} has no list of its files (RECORD): install it by pip or uv")
        for file in each.files:
            is_metadata = file.parts[0].endswith(".dist-info")
            # Scripts are outside; aclog may be installed in place.
            if file.parts[0] == ".." or (name == _ACLOG and not is_metadata):
                continue
            path = Path(str(each.locate_file(file)))
            if not _DIRECTORIES_LEFT_OUT.intersection(file.parts[:-1]) and path.is_file():
                yield str(file), path


def _aclog_files() -> Iterator[tuple[str, Path]]:
    for package in _PACKAGES:
        root = _package(package)
        for path in root.rglob("*"):
            name = path.relative_to(root.parent)
            if path.is_file() and "__pycache__" not in name.parts:
                yield str(name), path


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise SparkArchiveError(f"{name} is not an installed package")
    return Path(spec.origin).parent


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    # The time remains: bytecode is valid for that of its source.
    return member
