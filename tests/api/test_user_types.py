"""A program that uses toolgauge passes a strict type check, and one that misuses it does not."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

USES = """
from collections.abc import Iterator, Sequence
from typing import assert_type

from opentelemetry.sdk.trace import ReadableSpan

import toolgauge
from toolgauge import CriterionResult, Evaluation, Expected, NotEvaluated, Scored, ToolCall, Trajectory
from toolgauge.evaluators import ToolCallF1


class Own:
    version = "1"
    level = "call"

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[tuple[ToolCall | None, Scored | NotEvaluated]]:
        for call in trajectory.calls:
            yield call, Scored(value=1.0, explanation="fine")


def check(spans: Sequence[ReadableSpan]) -> Evaluation:
    criteria = [
        toolgauge.Criterion("own", Own(), pass_at=0.5),
        toolgauge.Criterion("args", toolgauge.evaluators.ToolCallArgs(), expected=[{"name": "a", "args": {"x": 1}}]),
        toolgauge.Criterion("f1", ToolCallF1(), expected=["a", ["b", {"name": "c"}]], when={"service": "s*"}),
        toolgauge.Criterion("named", "tool_call_args", tools=["a"], expected=["a"]),
    ]
    return toolgauge.evaluate(spans, [*criteria, "criteria.yaml"], config="toolgauge.yaml", defaults=False)


for evaluated in toolgauge.evaluate(["a.otlp.pb", "b.otlp.pb"]):
    assert_type(evaluated.trajectory.calls, tuple[ToolCall, ...])
    assert_type(evaluated.of("args"), tuple[CriterionResult, ...])
result = toolgauge.evaluate("a.otlp.pb")["args"][0]
assert_type(result.passed, bool | None)
assert_type(result.value, float | None)
assert_type(result.differences[0].expected, str | None)

toolgauge.evaluat  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
toolgauge.evaluate(3)  # pyright: ignore[reportArgumentType]
toolgauge.Criterion("own", 3)  # pyright: ignore[reportArgumentType]
toolgauge.Criterion("own", Own(), enforce="dead")  # pyright: ignore[reportArgumentType]
"""


@pytest.mark.long
@pytest.mark.needs("types")
def test_a_program_passes_a_strict_check(tmp_path: Path):
    (tmp_path / "uses.py").write_text(USES)
    settings = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": "error", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = shutil.which("basedpyright", path=str(Path(sys.executable).parent))
    assert command is not None
    done = subprocess.run(
        [command, "--pythonpath", sys.executable],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "0 errors" in done.stdout, done.stdout
