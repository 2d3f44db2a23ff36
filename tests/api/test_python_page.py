"""The examples of `docs/python.md` do what the page has them do."""

import re
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import toolgauge
from toolgauge.export.sdk import trace_request
from toolgauge.service.criteria_factory import checked_evaluator
from toolgauge.testing.evaluators import check_evaluator

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
# `tests/examples/test_frameworks.py` runs the section about applications, which needs a destination.
PROGRAMS = PAGE.read_text().partition("\n## Inside an application\n")[0]
BLOCKS = re.findall(r"^```(python|yaml)\n(.*?)^```", PROGRAMS, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the recording of a refund, in which the examples run."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    refund = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "issue_refund",
        "gen_ai.tool.call.arguments": '{"order_id": "A-17", "amount": 20}',
    }
    provider.get_tracer("shop").start_span("execute_tool issue_refund", attributes=refund).end()
    (tmp_path / "run.otlp.pb").write_bytes(trace_request(exporter.get_finished_spans()))
    (tmp_path / "criteria.yaml").write_text("[]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_examples_run(folder: Path):
    names: dict[str, object] = {"__name__": "example"}
    for language, block in BLOCKS:
        if language == "python":
            exec(compile(block, "docs/python.md", "exec"), names)  # noqa: S102 # what a reader does
    assert isinstance(names["evaluation"], toolgauge.Evaluation)
    assert (folder / "run.otlp.pb").exists()


def test_the_evaluator_of_the_page_scores_in_a_criteria_file(folder: Path):
    (code,) = [block for language, block in BLOCKS if language == "python" and "class NoRefund" in block]
    (criteria,) = [block for language, block in BLOCKS if language == "yaml"]
    (folder / "checks.py").write_text(code)
    (folder / "criteria.yaml").write_text(criteria)
    evaluation = toolgauge.check("run.otlp.pb", "criteria.yaml", defaults=False)
    (result,) = evaluation["no-refund"]
    assert (result.evaluator, result.outcome, result.explanation) == ("./checks.py:NoRefund", "fail", "1 refunds")
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "docs/python.md", "exec"), names)  # noqa: S102 # what a reader does
    made = checked_evaluator(names["NoRefund"](), "NoRefund")
    check_evaluator(made)  # pyright: ignore[reportArgumentType] # it asks nothing
