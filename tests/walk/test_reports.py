"""Situations that people reported in public issue trackers, and others of the same kinds in the shapes of other producers.

A folder of `tests/reports` has the spans of one situation, in the attribute shape of its producer with invented values, and what is
right: `expect` in `input.truth.json` names fields of each call, and criteria that must or must not fail.
"""

import json
from pathlib import Path
from typing import cast

import pytest

import toolgauge
from toolgauge.model.json import Json, JsonObject
from toolgauge.report.json_objects import trajectory_object

REPORTS = Path(__file__).parent.parent / "reports"


def look_up(value: Json, path: str) -> Json:
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


@pytest.mark.parametrize("name", sorted(folder.name for folder in REPORTS.iterdir()))
def test_a_reported_situation_comes_out_right(name: str):
    folder = REPORTS / name
    expect = cast("JsonObject", json.loads((folder / "input.truth.json").read_text())["expect"])
    criteria = folder / "criteria.yaml"
    found = toolgauge.check(folder / "input.otlp.json", [criteria] if criteria.exists() else [])
    shown = [trajectory_object(one.trajectory) for one in found.trajectories if one.trajectory.scope == "trace"]
    calls = [call for one in shown for call in cast("list[JsonObject]", one["tool_calls"])]
    wanted = cast("list[JsonObject]", expect["calls"])
    assert [{key: look_up(call, key) for key in fields} for call, fields in zip(calls, wanted, strict=True)] == wanted
    failing = {result.criterion for one in found.trajectories for result in one.results if result.outcome == "fail"}
    assert failing.isdisjoint(cast("list[str]", expect.get("never_fails", [])))
    assert failing >= set(cast("list[str]", expect.get("fails", [])))
    results = [(result.criterion, result.outcome) for one in found.trajectories for result in one.results]
    assert {*results} >= cast("JsonObject", expect.get("results", {})).items()
