"""docs/decision-log.md shows real events, valid settings and a program that runs."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from authorizer.configuration.decision_log import FIELDS
from authorizer.configuration.load import load_config
from authorizer.node.decision_log.event import DecisionData, DecisionEvent, encode_event
from records.properties import parse_properties
from support.cloud_events import cloud_event
from support.data import TESTS

PATH = TESTS.parent / "docs" / "decision-log.md"
PAGE = PATH.read_text(encoding="utf-8")


def block(language: str) -> str:
    return PAGE.partition(f"```{language}\n")[2].partition("```")[0]


def test_the_example_is_an_event_with_every_field() -> None:
    """Of an event over HTTP: a client id comes with Kafka's protocol."""
    shown = cloud_event(block("json"))
    of_kafkas_protocol = {"client_id": "", "correlation_id": 0}
    assert list(shown) == list(DecisionEvent.__struct_fields__)
    assert list(shown["data"]) == [
        name for name in DecisionData.__struct_fields__ if name not in of_kafkas_protocol
    ]
    complete = {**shown, "data": {**shown["data"], **of_kafkas_protocol}}
    event = msgspec.convert(complete, DecisionEvent)
    event.data.client_id = event.data.correlation_id = msgspec.UNSET
    assert cloud_event(encode_event(event)) == shown


def test_every_field_is_explained() -> None:
    table = PAGE.partition("| field |")[2].partition("\n\n")[0]
    explained = {name.rpartition(".")[2] for name in re.findall(r"`([a-z_.]+)`", table)}
    of_cloud_events = {"specversion", "type", "datacontenttype", "data"}
    fields = {*DecisionEvent.__struct_fields__, *DecisionData.__struct_fields__}
    assert fields - of_cloud_events - explained == set()


def test_its_settings_are_valid_and_every_condition_is_explained() -> None:
    text = block("properties")
    config = load_config(environ={}, flags=parse_properties(text))
    assert (len(config.decision_log), len(config.decision_log_rules)) == (2, 3)
    assert set(re.findall(r"`([a-z_]+)=`", PAGE)) == set(FIELDS)


def test_its_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = Sybil(parsers=[PythonCodeBlockParser()]).parse(PATH).examples()
    example.evaluate()
    assert Path("decisions.jsonl").exists()
