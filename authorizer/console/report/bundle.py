"""Bundles the console's modules into one classic script, for a report in one file.

A page opened from disk cannot load modules, and its policy allows inline scripts by hash. So each module
becomes a function, in dependency order, and its exports go into one object. The modules of this package
replace some of the console's: they answer from the file instead of a node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

#: Replacements of the console's modules.
_SUBSTITUTES: Final[Mapping[str, str]] = {
    "api.js": "file_api.js",
    "change.js": "file_change.js",
    "node_view.js": "state_view.js",
    "time_bar.js": "file_time_bar.js",
}
_MAIN: Final = "main.js"
#: Third-party modules, and the notice that each copy must contain.
_NOTICES: Final[Mapping[str, str]] = {"htm-preact.js": "htm-preact.NOTICE"}
_IMPORT: Final = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) (\w+))", re.MULTILINE)
# The end of a minified module.
_EXPORT_LIST: Final = re.compile(r"export ?\{([^}]*)\};?\s*$")
# An import or export that the patterns above did not match.
_UNMATCHED: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
# Text that would end an inline script, or turn the rest of it into a comment.
_SCRIPT_BREAKERS: Final = re.compile(r"</script|<!--|<script", re.IGNORECASE)


def script() -> str:
    """Return the script, which is the same for every report."""
    bundle = _Bundle()
    bundle.add(_MAIN)
    text = "".join(['"use strict";\nconst $ = {};\n', *bundle.parts])
    return _SCRIPT_BREAKERS.sub(lambda found: f"\\x3c{found[0][1:]}", text)


def style() -> str:
    """Return the console's style sheet."""
    return _asset("console.css")


def _asset(name: str) -> str:
    return files("authorizer.console").joinpath("assets", name).read_text("utf-8")


class _Bundle:
    """Modules as functions, each after its dependencies."""

    def __init__(self) -> None:
        console = _sources("authorizer.console", "assets")
        self._replacements = _sources("authorizer.console", "report")
        self._sources = console | self._replacements
        self._exports: dict[str, set[str]] = {}
        self.parts: list[str] = []

    def add(self, name: str) -> None:
        """Raises ValueError: the module has an unknown import or export, or imports a missing name."""
        if name in self._exports:
            return
        self._exports[name] = set()
        source = self._sources[name]
        exported = {each: each for each in _EXPORT.findall(source)}
        body = _EXPORT.sub("", source)
        if (listed := _EXPORT_LIST.search(body)) is not None:
            exported |= dict(map(_local_and_exported, listed[1].split(",")))
            body = body[: listed.start()]
        body = _IMPORT.sub(lambda found: self._imported(name, found), body)
        if (unmatched := _UNMATCHED.search(body)) is not None:
            raise ValueError(f"{name}: `{unmatched[0]}` is not supported")
        self._exports[name].update(exported.values())
        properties = ", ".join(f"{exported_as}: {local}" for local, exported_as in exported.items())
        if name in _NOTICES:
            self.parts.append(f"/*!\n{_asset(_NOTICES[name])}*/\n")
        self.parts.append(f'$["{name}"] = (() => {{\n{body}\nreturn {{ {properties} }};\n}})();\n')

    def _imported(self, importer: str, found: re.Match[str]) -> str:
        name = found[2] if importer in self._replacements else _SUBSTITUTES.get(found[2], found[2])
        self.add(name)
        names = dict(map(_local_and_exported, found[1].strip(" ,").split(",")))
        if missing := names.keys() - self._exports[name]:
            raise ValueError(f"{importer} imports {', '.join(sorted(missing))}, which {name} does not export")
        properties = ", ".join(f"{exported_as}: {local}" for exported_as, local in names.items())
        return f'const {{ {properties} }} = $["{name}"];'


def _local_and_exported(listed: str) -> tuple[str, str]:
    """``a as h`` gives a and h."""
    local, _, exported = listed.strip().partition(" as ")
    return local, exported or local


def _sources(package: str, folder: str) -> dict[str, str]:
    inside = files(package).joinpath(folder).iterdir()
    return {each.name: each.read_text("utf-8") for each in inside if each.name.endswith(".js")}
