"""The Prometheus queries in deploy/: the dashboard's panels and annotations, and the alerts' expressions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "deploy" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "aclog.json"
#: Values of the dashboard's variables: Grafana's, one job, all nodes and clusters.
VARIABLES = {"$__rate_interval": "1m", '"$job"': '"aclog"', '"$instance"': '".+"', '"$cluster"': '".*"'}


@dataclass(frozen=True, slots=True)
class PromQuery:
    """One expression without variables, and the name of its panel or alert."""

    where: str
    expression: str


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return loaded


def panels() -> list[dict[str, Any]]:
    """The panels that are not rows."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def panel_queries() -> Iterator[PromQuery]:
    """The queries of all panels and annotations."""
    for panel in panels():
        yield from queries_of(panel)
    for annotation in dashboard()["annotations"]["list"]:
        yield _as_sent(annotation["name"], annotation["expr"])


def queries_of(panel: Mapping[str, Any]) -> list[PromQuery]:
    """The queries of one panel."""
    return [_as_sent(panel["title"], target["expr"]) for target in panel["targets"]]


def _as_sent(where: str, expression: str) -> PromQuery:
    """As Grafana sends it."""
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression, f"{where} has a variable that the dashboard has not"
    return PromQuery(where, expression)


def alerts() -> list[dict[str, Any]]:
    """The alert rules."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]
