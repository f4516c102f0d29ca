"""The package ``aclog`` has the names of the public API, typed, and imports only what a program asks for."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import aclog

_SOURCE = Path(aclog.__file__).read_text(encoding="utf-8")


def test_type_checkers_see_the_names_that_programs_get() -> None:
    """One import below TYPE_CHECKING for each name, of the same object."""
    typed = {
        alias.asname
        for node in ast.walk(ast.parse(_SOURCE))
        if isinstance(node, ast.ImportFrom) and node.module not in ("__future__", "importlib", "typing")
        for alias in node.names
    }

    assert typed == set(dir(aclog))


@pytest.mark.parametrize("name", dir(aclog))
def test_every_name_is_importable(name: str) -> None:
    assert getattr(aclog, name) is not None


def test_an_unknown_name_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="Nodes"):
        from aclog import Nodes  # noqa: F401, PLC0415


def test_a_gateway_that_imports_the_client_loads_no_log_and_no_numpy() -> None:
    program = (
        "import sys; from aclog import Client, AuthorizationRequest;"
        "print([name for name in ('numpy', 'pyarrow', 'records.log.open', 'authorizer.node') "
        "if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_a_node_is_imported_without_what_only_some_settings_need() -> None:
    """No snapshot store, no HTTP server, no Kafka client and no Spark."""
    program = (
        "import sys; from aclog import Node;"
        "print([name for name in ('pyarrow', 'fsspec', 'pyspark', 'confluent_kafka', 'kio', 'starlette', "
        "'uvicorn', 'fastavro') if name in sys.modules], 'numpy' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[] True"
