"""OutputFile: files that commands write. Their names fit their format, and none is overwritten unasked.

Also one form of such a file, which several commands write: JUnit's XML.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import click

from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.invocation import given, remember

#: Suffixes that name a format; any other suffix fits every format.
_SUFFIXES: Final = {
    "HTML": (".html", ".htm"),
    "CSV": (".csv",),
    "JSON": (".json", ".jsonl", ".ndjson"),
    "XML": (".xml",),
    "properties": (".properties",),
    "Avro": (".avro",),
    "a checkpoint": (".checkpoint",),
    "PDF": (".pdf",),
    "a picture": (".png", ".svg"),
    "Markdown": (".md",),
    "a document": (".docx", ".xlsx", ".xls"),
    "compressed": (".gz", ".zip"),
}
_FORMATS: Final = {suffix: form for form, suffixes in _SUFFIXES.items() for suffix in suffixes}


class OutputFile(click.Path):
    """The type of an option that names a file to write; ``Command`` adds --force to the command."""

    def __init__(self, form: str | None = None, *, dir_okay: bool = False, allow_dash: bool = False) -> None:
        super().__init__(dir_okay=dir_okay, allow_dash=allow_dash, path_type=Path)
        self._form = form

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(super().convert(value, param, ctx))  # type: ignore[arg-type]  # click's is wider
        if self._form is not None:
            require_suffix(path, self._form, param.opts[-1] if param is not None else "--output")
        return path

    def require_new(self, path: Path) -> None:
        """As the function of this name; stdout is no file."""
        if not (self.allow_dash and str(path) == "-"):
            require_new(path)


FORCE_OPTION: Final = click.Option(
    ["--force"],
    is_flag=True,
    expose_value=False,
    callback=remember,
    help="Overwrite a file that exists.",
)


def require_suffix(path: Path, form: str, flag: str) -> None:
    """click.BadParameter if a name has the suffix of another format."""
    named = _FORMATS.get(path.suffix.lower())
    if named is not None and named != form:
        raise click.BadParameter(
            f"`{path}` would be {form}, but its name ends in {path.suffix}: name it *{_SUFFIXES[form][0]}",
            param_hint=f"'{flag}'",
        )


def require_new(path: Path) -> None:
    """Failure if a file exists and has content, unless --force is given."""
    if not given("--force") and path.is_file() and path.stat().st_size:
        raise Failure(
            f"{path} exists and is not overwritten",
            ExitCode.USAGE,
            "Use --force to overwrite it, or name another file.",
        )


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Raise Failure for an OSError of a file that the block changes."""
    try:
        yield
    except OSError as error:
        raise Failure(f"Cannot write {file}: {error.strerror}", ExitCode.USAGE) from error


@contextmanager
def output_file(path: Path, *, is_noted: bool = True) -> Iterator[IO[bytes]]:
    """A file to write to, atomically; notes what was written unless the command prints it."""
    from authorizer.cli.rendering.output import note, shown
    from snapshot.files.atomic_file import atomic_write

    require_new(path)
    with atomic_write(path, only_new=not given("--force") and not path.exists()) as file:
        yield file
        size_bytes = file.tell()
    if is_noted:
        note(f"wrote {shown(str(path))}: {size_bytes:,} bytes")


junit_option: Final = click.option(
    "--junit", type=OutputFile("XML"), metavar="FILE", help="Also write JUnit's XML, for CI."
)


def write_junit(path: Path, suite: str, results: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Write one test case for each name, with its failures."""
    from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

    failures = sum(bool(found) for _, found in results)
    root = Element("testsuite", name=suite, tests=str(len(results)), failures=str(failures))
    for name, found in results:
        case = SubElement(root, "testcase", classname=suite, name=name)
        if found:
            SubElement(case, "failure", message=found[0]).text = "\n".join(found)
    indent(root)
    with output_file(path) as file:
        ElementTree(root).write(file, "utf-8", xml_declaration=True)
