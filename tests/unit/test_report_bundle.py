"""The console's modules as one script: complete, and without module syntax."""

from __future__ import annotations

import re

import pytest

from authorizer.console.report import bundle


def test_the_bundle_has_every_needed_module_once() -> None:
    """Also that what a file has in place of the console's own has all that is asked of it."""
    script = bundle.script()
    modules = re.findall(r'^\$\["([\w.-]+)"\] = ', script, re.MULTILINE)
    assert len(modules) == len(set(modules))
    assert modules[-1] == "main.js"
    assert {*bundle._SUBSTITUTES.values(), "matrix_view.js", "htm-preact.js"} <= set(modules)
    assert not {"api.js", "change.js", "node_view.js"} & set(modules)
    assert "</script" not in script.lower()
    assert script == bundle.script()


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (
            'import { ask, other } from "./api.js";',
            "main.js imports other, which file_api.js does not export",
        ),
        ('import * as api from "./api.js";', "is not supported"),
        ("export default 1;", "is not supported"),
    ],
)
def test_code_that_fails_in_the_browser_fails_here(
    source: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = bundle._sources

    def changed(package: str, folder: str) -> dict[str, str]:
        found = known(package, folder)
        return found | {"main.js": source} if "main.js" in found else found

    monkeypatch.setattr(bundle, "_sources", changed)
    with pytest.raises(ValueError, match=re.escape(problem)):
        bundle.script()
