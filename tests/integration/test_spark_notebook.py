"""The notebook of the history's tables: its queries are valid, and it runs from end to end."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from authorizer.cli.quickstart.directory import EXAMPLE_LOG
from authorizer.cli.spark.access_analysis import ReleaseHosts, SettingsAnalysis
from authorizer.engine.decisions.state import AuthorizerSettings
from snapshot.jobs.changes.changes_job import run_changes
from snapshot.jobs.changes.tables.schema import TABLES
from snapshot.jobs.changes.tables.sql import define_functions
from snapshot.jobs.running.job import JobSettings
from snapshot.jobs.sources.logs import resolve_logs
from support.data import TESTS
from support.naive_tables import assert_tables_are_of, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.integration]

NOTEBOOK = TESTS.parent / "examples" / "notebooks" / "acl_history.ipynb"
QUESTIONS = 8


def code_cells() -> Iterator[ast.Module]:
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            yield ast.parse("".join(cell["source"]))


def test_the_queries_fit_the_tables(spark: SparkSession) -> None:
    """Spark resolves each one on empty tables: the columns, the functions and the parameters exist."""
    session = spark.newSession()
    for table in TABLES:
        session.createDataFrame([], table.ddl).createOrReplaceTempView(table.name)
    define_functions(session, {"c": ()}, ReleaseHosts())
    statements: list[str] = []
    parameters: dict[str, str] = {}
    for module in code_cells():
        for node in ast.walk(module):
            match node:
                case ast.Assign(targets=[ast.Name("parameters")], value=value):
                    parameters = ast.literal_eval(value)
                case ast.Call(func=ast.Name("ask"), args=[ast.Constant(str(statement))]):
                    statements.append(statement)
    assert len(statements) == QUESTIONS
    for statement in statements:
        quoted: dict[str, Any] = {name: f"{value}'" for name, value in parameters.items()}
        assert session.sql(statement, **quoted).columns


@pytest.mark.long
def test_the_notebook_answers_eight_questions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the tables of the example log, in a kernel with its own Spark; the answers are those of the log."""
    import nbformat  # noqa: PLC0415 - slow, and only here
    from nbclient import NotebookClient  # noqa: PLC0415

    output = tmp_path / "out"
    settings = JobSettings(
        logs=tuple(resolve_logs([f"file:{EXAMPLE_LOG}"])),
        checkpoint=f"file://{tmp_path / 'checkpoint'}",
        store="",
        shards=2,
    )
    analysis = SettingsAnalysis(AuthorizerSettings())
    run_changes(spark, settings, f"file://{output}", lambda _: None, access_analysis=analysis)
    assert_tables_are_of(output, EXAMPLE_LOG)
    monkeypatch.setenv("ACLOG_HISTORY", f"file://{output}")
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    shown = "import json\nprint(json.dumps([json.loads(each.to_json(orient='records')) for each in answers]))"
    notebook.cells.append(nbformat.v4.new_code_cell(shown))  # type: ignore[no-untyped-call]
    done = NotebookClient(notebook, timeout=600, kernel_name="python3").execute(cwd=str(tmp_path))
    plots = [
        data
        for cell in done.cells
        if cell.cell_type == "code"
        for data in cell.outputs
        if "image/png" in data.get("data", {})
    ]
    assert len(plots) == 3
    (text,) = (each.text for each in done.cells[-1].outputs if each.output_type == "stream")
    answers = json.loads(text)
    assert len(answers) == QUESTIONS
    readers, access, effects, opened, denials, grants, short, counts = answers
    effective = rows_of(output, "access_changes")
    assert len(effects) == len(effective)
    assert len(opened) == sum(
        row["change"] == "granted" and row["principal"] == "User:*" for row in effective
    )
    assert {"User:dave"} <= {row["principal"] for row in access} | {row["principal"] for row in readers}
    assert denials
    assert all(row["principal"] in ("User:alice", "User:*") for row in grants)
    assert grants
    assert short
    assert counts
