"""The layers as import-linter cannot check them: no fifth package, no undeclared dependency, typed.

Nor does it see what depends on the kind of a log.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

# One worker, so that the imports of the product are read once.
pytestmark = pytest.mark.xdist_group("layout")

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("records", "snapshot", "replay", "authorizer", "aclog")
NOT_SHIPPED = {"tests", "benchmarks", "examples", "docs"}

# Distributions whose module has another name.
MODULE_OF = {
    "google-crc32c": "google_crc32c",
    "google-re2": "re2",
    "opentelemetry-sdk": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "pyjwt": "jwt",
    "rpds-py": "rpds",
}


def declared_modules() -> set[str]:
    """The top-level modules of the dependencies and extras in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(dep for deps in project["optional-dependencies"].values() for dep in deps),
    ]
    names = {re.split(r"[^A-Za-z0-9._-]", dep, maxsplit=1)[0] for dep in wanted}
    return {MODULE_OF.get(name, name.replace("-", "_")) for name in names}


def python_files() -> list[Path]:
    return sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))


@cache
def imports_of(path: Path) -> list[tuple[int, str]]:
    """(line, absolute dotted name) of everything a file imports, also inside functions."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            found.extend((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.append((node.lineno, node.module or ""))
    return found


def offences(allowed: set[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in python_files()
        for line, name in imports_of(path)
        if name.partition(".")[0] not in allowed
    ]


def test_imports_are_layers_declared_dependencies_or_stdlib() -> None:
    """The four packages import one another, what pyproject.toml declares, and the standard library."""
    assert offences({*LAYERS, *declared_modules(), *sys.stdlib_module_names}) == []


def test_no_fifth_package() -> None:
    """A folder with Python at the top is a layer, or is not shipped."""
    found = {path.parent.name for path in ROOT.glob("*/*.py") if not path.parent.name.startswith(".")}
    assert found - NOT_SHIPPED == set(LAYERS)


def test_no_loose_module_in_authorizer() -> None:
    """Every module of authorizer/ is in one of its seven layers (the contract `authorizer-layers`)."""
    assert [path.name for path in (ROOT / "authorizer").glob("*.py")] == ["__init__.py"]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def import_graph() -> dict[str, set[str]]:
    """Each module's imports of our own modules, also inside functions and under TYPE_CHECKING."""
    files = {module_name(path): path for path in python_files()}
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        found: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                # A name may be a module of the package, or something that the module defines.
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                found.update(inner & files.keys() or {node.module})
        graph[name] = (found & files.keys()) - {name}
    return graph


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import one another, directly or through others."""
    reached: dict[str, set[str]] = {}
    for start, imported in graph.items():
        seen: set[str] = set()
        waiting = list(imported)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting.extend(graph[name])
        reached[start] = seen
    found: list[set[str]] = []
    for name in sorted(graph):
        if name in reached[name] and not any(name in circle for circle in found):
            found.append({other for other in reached[name] if name in reached[other]})
    return found


#: What is left to cut: each set goes with the change that cuts it, and none is added.
KNOWN_CIRCLES: list[set[str]] = []


def test_no_import_circles() -> None:
    """No module imports itself through others, not even for types."""
    found = circles(import_graph())
    assert sorted(map(sorted, found)) == sorted(map(sorted, KNOWN_CIRCLES))


def test_an_import_circle_is_found() -> None:
    """Two modules that import one another, and one that only imports them."""
    assert circles({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == [{"a", "b"}]


#: Folders whose modules and sub-folders import one another in one direction only.
ACYCLIC_FOLDERS = ("authorizer.cli", "authorizer.console", "authorizer.sidecar")


def sibling_graph(graph: dict[str, set[str]], folder: str) -> dict[str, set[str]]:
    """The imports between the direct modules and sub-folders of a folder."""

    def child(module: str) -> str:
        return ".".join(module.split(".")[: folder.count(".") + 2])

    inside = {name: imported for name, imported in graph.items() if name.startswith(f"{folder}.")}
    siblings: dict[str, set[str]] = {child(name): set() for name in inside}
    for name, imported in inside.items():
        found = {child(other) for other in imported if other in inside}
        siblings[child(name)] |= found - {child(name)}
    return siblings


@pytest.mark.parametrize("folder", ACYCLIC_FOLDERS)
def test_sub_folders_do_not_import_in_a_circle(folder: str) -> None:
    """Also not for types, and not by way of a module beside them."""
    siblings = sibling_graph(import_graph(), folder)
    assert len(siblings) > 1
    assert circles(siblings) == []


def test_a_circle_of_sub_folders_is_found() -> None:
    """Each module's imports are fine by themselves; together they go both ways."""
    graph = {"f.a.x": {"f.b.y", "g"}, "f.a.z": set(), "f.b.y": set(), "f.b.w": {"f.a.z"}, "g": {"f.a.x"}}
    assert sibling_graph(graph, "f") == {"f.a": {"f.b"}, "f.b": {"f.a"}}
    assert circles(sibling_graph(graph, "f")) == [{"f.a", "f.b"}]


def test_pyspark_only_in_the_jobs() -> None:
    """Spark is imported in snapshot/jobs and nowhere else, so that aclog runs without it."""
    users = {
        path.relative_to(ROOT).as_posix()
        for path in python_files()
        for _, name in imports_of(path)
        if name.partition(".")[0] == "pyspark"
    }
    assert {user for user in users if not user.startswith("snapshot/jobs/")} == set()


def lines_by_kind_of_log(source: str) -> list[int]:
    """Lines where code depends on the kind of a log: by its class, or by what it happens to have.

    A class named ``...Log`` in ``isinstance``, ``issubclass`` or ``case``; ``getattr`` and ``hasattr`` of
    something named ``...log``; a protocol that ``isinstance`` can check.
    """
    nodes = ast.walk(ast.parse(source))
    return [node.lineno for node in nodes if isinstance(node, ast.expr | ast.pattern) and _is_by_kind(node)]


def _is_by_kind(node: ast.expr | ast.pattern) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
            return any(_last_name(part).endswith("Log") for part in ast.walk(kinds))
        case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[subject, *_]):
            return _last_name(subject).lower().endswith("log")
        case ast.MatchClass(cls=kind):
            return _last_name(kind).endswith("Log")
        case ast.Name(id="runtime_checkable") | ast.Attribute(attr="runtime_checkable"):
            return True
    return False


def _last_name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def test_no_code_depends_on_the_kind_of_a_log() -> None:
    """MetadataLog says all that callers need; only records/log knows which kinds there are."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in python_files()
        if not path.is_relative_to(ROOT / "records" / "log")
        for line in lines_by_kind_of_log(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(log, DirectoryLog)",
        "isinstance(self._log, directory.log.DirectoryLog | TopicLog)",
        "issubclass(type(log), (TopicLog, int))",
        'getattr(log, "uncommitted_from", None)',
        'hasattr(self._log, "reach")',
        "match log:\n    case DirectoryLog(): pass",
        "@runtime_checkable\nclass RemoteLog(Protocol): ...",
    ],
)
def test_a_line_that_depends_on_the_kind_of_a_log_is_found(source: str) -> None:
    """Each way to write one."""
    assert lines_by_kind_of_log(source)


#: What only programs call that use aclog as a library (KIP-504's interface, a node's loader, a sidecar's
#: client).
FOR_PROGRAMS = {
    *("Authorizer", "reconfigurable_configs", "reconfigure", "validate_reconfiguration"),
    "add_publisher",
    # of a sidecar's client
    *("AsyncClient", "filtered", "authorized_operations", "acl", "wait_until_ready", "serves_from_cache"),
    *("decide_all", "is_allowed", "was_decided"),
}
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def names_in(node: ast.AST) -> Counter[str]:
    """How often each name is read there, as it stands or as an attribute."""
    names: list[str] = []
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            names.append(each.id)
        elif isinstance(each, ast.Attribute):
            names.append(each.attr)
    return Counter(names)


def reads_of(name: str, node: ast.AST) -> int:
    return sum(name in (getattr(each, "id", None), getattr(each, "attr", None)) for each in ast.walk(node))


def definitions(tree: ast.AST) -> Iterator[Definition]:
    """Functions and classes, but for methods that another library calls by its own class's name for them.

    A declared endpoint is called by the router.
    """
    for node in ast.walk(tree):
        inherits = isinstance(node, ast.ClassDef) and node.bases
        for each in ast.iter_child_nodes(node):
            if isinstance(each, Definition) and not inherits and not is_endpoint(each):
                yield each


def is_endpoint(definition: Definition) -> bool:
    calls = (each.func for each in definition.decorator_list if isinstance(each, ast.Call))
    return any(isinstance(called, ast.Name) and called.id == "declare_endpoint" for called in calls)


def test_the_product_has_no_code_for_tests_alone() -> None:
    """A function or class that no command, job or other part of the product uses is none of the product."""
    used: Counter[str] = Counter()
    defined: dict[str, str] = {}
    for path in python_files():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used.update(names_in(tree))
        for each in definitions(tree):
            defined[each.name] = f"{path.relative_to(ROOT)}:{each.lineno} {each.name}"
            used[each.name] -= reads_of(each.name, each)  # one that only calls itself is not used
    expected = {name for name in defined if name.endswith(("__", "_command"))} | FOR_PROGRAMS
    assert [where for name, where in defined.items() if used[name] <= 0 and name not in expected] == []


#: ``name``: at the beginning of a part of a docstring, or a line below "Args:".
DESCRIBED = re.compile(r"(?:^|[;.]\s)``(\w+)``: ")
ARGUMENTS = re.compile(r"^Args:\n((?:    .*\n?|\n)+)", re.MULTILINE)


def described_but_absent(source: str) -> Iterator[tuple[str, str]]:
    """(function, name) of what a docstring describes as a parameter, and is none."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text, of = ast.get_docstring(node) or "", node.args
        parameters = [*of.posonlyargs, *of.args, *of.kwonlyargs, of.vararg, of.kwarg]
        names = {each.arg for each in parameters if each is not None}
        arguments = ARGUMENTS.search(text)
        listed = re.findall(r"^    (\w+):", arguments[1], re.MULTILINE) if arguments else []
        yield from ((node.name, name) for name in (*DESCRIBED.findall(text), *listed) if name not in names)


def test_docstrings_describe_parameters_that_exist() -> None:
    absent = [
        (str(path.relative_to(ROOT)), *found)
        for path in python_files()
        for found in described_but_absent(path.read_text(encoding="utf-8"))
    ]
    assert absent == []


@pytest.mark.parametrize(
    "text",
    [
        "Read it; ``old``: its name.",
        "``old``: its name.",
        "Read it.\n\n    Args:\n        old: its name.\n    ",
    ],
)
def test_a_docstring_with_an_absent_parameter_is_found(text: str) -> None:
    source = f'def read(name):\n    """{text}"""\n'
    assert list(described_but_absent(source)) == [("read", "old")]
    assert list(described_but_absent(source.replace("old", "name"))) == []


@pytest.mark.parametrize("layer", LAYERS)
def test_package_is_typed(layer: str) -> None:
    """Every package says to type checkers that its annotations count."""
    assert (ROOT / layer / "py.typed").is_file()


def test_tests_are_not_packages() -> None:
    """An __init__.py in a test folder could shadow a layer of the same name (style: names are flat)."""
    found = {path.parent.name for path in (ROOT / "tests").rglob("__init__.py")}
    assert found == {"support"}


def test_every_module_can_be_imported() -> None:
    """Neither ruff nor mypy notices a run-time import of a name that exists under TYPE_CHECKING only."""
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in python_files()
        if path.name != "__main__.py"
    ]
    program = f"import importlib\nfor name in {names!r}:\n    importlib.import_module(name)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
