"""Bundle: the console's modules as one classic script, so that a file can hold them.

A page that is opened from disk may load no module, and a policy with hashes lets in what stands in the page.
So each module becomes a function, in the order in which they need one another; what it exports, others find
in one object. Modules of this package stand in for some of the console's: what answers from the file in place
of a node, and what a file shows otherwise.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What the console's modules get in place of what they import.
_SUBSTITUTES: Final[Mapping[str, str]] = {
    "api.js": "file_api.js",
    "change.js": "file_change.js",
    "node_view.js": "state_view.js",
    "time_bar.js": "file_bar.js",
}
_MAIN: Final = "main.js"
#: What is not aclog's own, and the notice that has to go with each copy.
_NOTICES: Final[Mapping[str, str]] = {"htm-preact.js": "htm-preact.NOTICE"}
_IMPORT: Final = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) (\w+))", re.MULTILINE)
# How a minified module ends.
_EXPORT_LIST: Final = re.compile(r"export ?\{([^}]*)\};?\s*$")
# What a module has that none of these understands.
_LEFT: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
# In a page, what would end a script, or turn the rest of it into a comment.
_NOT_IN_A_SCRIPT: Final = re.compile(r"</script|<!--|<script", re.IGNORECASE)


def script() -> str:
    """The whole script, the same each time."""
    bundle = _Bundle()
    bundle.add(_MAIN)
    text = "".join(['"use strict";\nconst $ = {};\n', *bundle.parts])
    return _NOT_IN_A_SCRIPT.sub(lambda found: f"\\x3c{found[0][1:]}", text)


def style() -> str:
    """The console's style sheet."""
    return _asset("console.css")


def _asset(name: str) -> str:
    return files("authorizer.console").joinpath("assets", name).read_text("utf-8")


class _Bundle:
    """Modules as functions, each behind those that it needs."""

    def __init__(self) -> None:
        console = _sources("authorizer.console", "assets")
        self._own = _sources("authorizer.cli.report", "page")
        self._sources = console | self._own
        self._exports: dict[str, set[str]] = {}
        self.parts: list[str] = []

    def add(self, name: str) -> None:
        """Raises ValueError: it is written in a way that is not known here, or needs what is not there."""
        if name in self._exports:
            return
        self._exports[name] = set()
        source = self._sources[name]
        exported = {each: each for each in _EXPORT.findall(source)}
        body = _EXPORT.sub("", source)
        if (listed := _EXPORT_LIST.search(body)) is not None:
            exported |= dict(map(_own_and_name, listed[1].split(",")))
            body = body[: listed.start()]
        body = _IMPORT.sub(lambda found: self._imported(name, found), body)
        if (left := _LEFT.search(body)) is not None:
            raise ValueError(f"{name}: `{left[0]}` is not understood")
        self._exports[name].update(exported.values())
        properties = ", ".join(f"{name}: {own}" for own, name in exported.items())
        if name in _NOTICES:
            self.parts.append(f"/*!\n{_asset(_NOTICES[name])}*/\n")
        self.parts.append(f'$["{name}"] = (() => {{\n{body}\nreturn {{ {properties} }};\n}})();\n')

    def _imported(self, importer: str, found: re.Match[str]) -> str:
        name = found[2] if importer in self._own else _SUBSTITUTES.get(found[2], found[2])
        self.add(name)
        names = dict(map(_own_and_name, found[1].strip(" ,").split(",")))
        if missing := names.keys() - self._exports[name]:
            raise ValueError(f"{importer} needs {', '.join(sorted(missing))} of {name}")
        properties = ", ".join(f"{name}: {own}" for name, own in names.items())
        return f'const {{ {properties} }} = $["{name}"];'


def _own_and_name(listed: str) -> tuple[str, str]:
    """Of ``a as h``: a and h."""
    own, _, name = listed.strip().partition(" as ")
    return own, name or own


def _sources(package: str, folder: str) -> dict[str, str]:
    inside = files(package).joinpath(folder).iterdir()
    return {each.name: each.read_text("utf-8") for each in inside if each.name.endswith(".js")}
