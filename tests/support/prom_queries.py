"""The Prometheus queries in deploy/: the dashboard's panels and the alerts' expressions."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
    """The queries of all panels, as Grafana sends them."""
    for panel in panels():
        for target in panel["targets"]:
            expression = target["expr"]
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            assert "$" not in expression, f"{panel['title']} has a variable that the dashboard has not"
            yield PromQuery(panel["title"], expression)


def alerts() -> list[dict[str, Any]]:
    """The alert rules."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]
