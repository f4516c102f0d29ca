"""JUnit XML for CI servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent


def write_junit(file: IO[bytes], suite: str, results: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Write one test case for each name, with its failures."""
    failures = sum(bool(found) for _, found in results)
    root = Element("testsuite", name=suite, tests=str(len(results)), failures=str(failures))
    for name, found in results:
        case = SubElement(root, "testcase", classname=suite, name=name)
        if found:
            SubElement(case, "failure", message=found[0]).text = "\n".join(found)
    indent(root)
    ElementTree(root).write(file, "utf-8", xml_declaration=True)
