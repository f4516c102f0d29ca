"""JUnit XML for CI servers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from authorizer.cli.output_file import OutputFile, output_file

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
