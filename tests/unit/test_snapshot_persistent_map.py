"""Both libraries of persistent maps: the same behaviour, whichever is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Tests of everything that is built of persistent maps.
TESTS = (
    "tests/unit/test_authorizer_index.py",
    "tests/unit/test_authorizer_row_index.py",
    "tests/unit/test_authorizer_writer_view.py",
    "tests/unit/test_snapshot_delta.py",
    "tests/unit/test_snapshot_metadata.py",
)

WITHOUT_IMMUTABLES = "import sys; sys.modules['immutables'] = None; "

USE = """
from snapshot.persistent_map import PersistentMap, with_item, without_item
first = PersistentMap({"a": 1, "b": 2})
more = with_item(with_item(first, "a", 3), "c", None)
print(PersistentMap.__module__.partition(".")[0], sorted(first.items()), sorted(more.items()))
print(sorted(without_item(more, "a")))
print(more.get("c", 0), more.get("d", 0), "d" in more, bool(PersistentMap()), sorted(more.update({"d": 4})))
try:
    without_item(first, "c")
except KeyError as error:
    print(repr(error))
"""
USED = """\
 [('a', 1), ('b', 2)] [('a', 3), ('b', 2), ('c', None)]
['b', 'c']
None 0 False False ['a', 'b', 'c', 'd']
KeyError('c')
"""


@pytest.mark.parametrize(("library", "before"), [("immutables", ""), ("rpds", WITHOUT_IMMUTABLES)])
def test_maps_of_both_libraries_behave_alike(library: str, before: str) -> None:
    if library == "immutables":
        pytest.importorskip("immutables", reason="it has no wheels for this Python")
    done = subprocess.run([sys.executable, "-c", before + USE], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (library + USED, "")


def test_images_and_indexes_work_with_the_library_of_python_3_14() -> None:
    """Their own tests, in an interpreter without immutables."""
    program = WITHOUT_IMMUTABLES + "import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, "-q", "-p", "no:cacheprovider", *TESTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
