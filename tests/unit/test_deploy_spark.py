"""deploy/kubernetes/spark-changes.yaml: Kubernetes knows every field, and aclog every option."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from authorizer.configuration.load import load_config
from support.cli_commands import parsed_command
from support.data import TESTS

MANIFEST = TESTS.parent / "deploy" / "kubernetes" / "spark-changes.yaml"
SCHEMA = json.loads((TESTS / "data" / "kubernetes" / "v1.37.0.json").read_text(encoding="utf-8"))
DEFINITIONS = {"ConfigMap": "io.k8s.api.core.v1.ConfigMap", "Deployment": "io.k8s.api.apps.v1.Deployment"}


def objects() -> dict[str, Any]:
    return {each["kind"]: each for each in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))}


def test_manifest_matches_kubernetes_schema() -> None:
    found = objects()
    assert found.keys() == DEFINITIONS.keys()
    for kind, each in found.items():
        schema = {**SCHEMA, "$ref": f"#/$defs/{DEFINITIONS[kind]}"}
        assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(each)] == []


def test_one_driver_runs_at_a_time() -> None:
    """Two instances of one job would use the same checkpoint."""
    spec = objects()["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_command_and_volumes_fit(tmp_path: Path) -> None:
    """The options exist, files are below the volumes, and each key of the configuration is known."""
    found = objects()
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (driver,) = pod["containers"]
    # The configuration exists in the container only.
    parsed_command([each for each in driver["args"] if not each.startswith("--config=")])
    mounts = {mount["name"]: mount["mountPath"] for mount in driver["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    paths = [each.partition("=")[2] for each in driver["args"] if "=/" in each]
    assert all(any(path.startswith(f"{mount}/") for mount in mounts.values()) for path in paths)
    (tmp_path / "client.properties").write_text("security.protocol=PLAINTEXT\n")
    text = found["ConfigMap"]["data"]["aclog.properties"].replace(mounts["client"], str(tmp_path))
    (tmp_path / "aclog.properties").write_text(text)
    assert load_config(tmp_path / "aclog.properties", environ={}).snapshot_keep == 3
