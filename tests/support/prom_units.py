"""Units of PromQL expressions, by the names of their metrics."""

from __future__ import annotations

import re
from typing import Final

import promql_parser

#: Grafana's units of each unit that an expression can have.
GRAFANA_UNITS: Final = {
    "seconds": {"s"},
    "milliseconds": {"ms"},
    "bytes": {"bytes"},
    "bytes a second": {"Bps"},
    "per second": {"reqps", "ops"},
    "count": {"short", "locale", "bool"},
    "ratio": {"percentunit"},
}
_SUFFIXES: Final = {"_seconds": "seconds", "_ms": "milliseconds", "_bytes": "bytes"}
_RATES: Final = {"count": "per second", "bytes": "bytes a second", "seconds": "ratio"}


def unit_of(expression: promql_parser.Expr) -> str | None:
    """The unit of an expression's value; None for a number without one. Raises ValueError for two units."""
    match expression:
        case promql_parser.VectorSelector():
            assert expression.name is not None
            return _unit_of_metric(expression.name)
        case promql_parser.MatrixSelector():
            return unit_of(expression.vector_selector)
        case promql_parser.AggregateExpr():
            return "count" if str(expression.op) == "count" else unit_of(expression.expr)
        case promql_parser.ParenExpr():
            return unit_of(expression.expr)
        case promql_parser.Call():
            return _unit_of_call(expression)
        case promql_parser.BinaryExpr():
            units = {unit_of(expression.lhs), unit_of(expression.rhs)} - {None}
            if len(units) > 1:
                raise ValueError(f"two units: {units}")
            return "ratio" if str(expression.op) == "/" else next(iter(units), None)
    return None


def _unit_of_metric(name: str) -> str:
    if name.endswith(("_count", "_bucket")):
        return "count"
    name = name.removesuffix("_total")
    return next((unit for suffix, unit in _SUFFIXES.items() if name.endswith(suffix)), "count")


def _unit_of_call(call: promql_parser.Call) -> str | None:
    match call.func.name:
        case "histogram_quantile":
            names = re.findall(r"(\w+)_bucket\b", call.prettify())
            return _unit_of_metric(names[0])
        case "rate":
            return _RATES[unit_of(call.args[0]) or "count"]
        case "time":
            return "seconds"
    return unit_of(call.args[0])
