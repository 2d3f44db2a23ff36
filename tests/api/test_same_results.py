"""The same results as the commands: golden cases as `score`, recordings as `replay`, criteria as objects and in files."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import toolgauge
from tests.api.golden_spans import criterion_name, is_sendable, spans_of, written_criterion
from tests.api.sdk_spans import read_back
from tests.golden.goldens import Golden, read_goldens
from tests.rows import each_row
from toolgauge import plugins
from toolgauge.cases.scoring import Cases
from toolgauge.cli.main import commands
from toolgauge.report.explanations import figure

GOLDENS = Path(__file__).parents[1] / "golden"
CORPUS = Path(__file__).parents[1] / "corpus"
# Originals that judge the calls of a trajectory alone, which spans can have; others look at a case as it was written.
OF_CALLS = ("deepeval.tool_correctness", "ragas.tool_call_accuracy", "ragas.tool_call_f1", "strands.tool_called")
EACH = 30


@pytest.fixture(scope="module")
def goldens() -> list[Golden]:
    chosen = [golden for golden in read_goldens(GOLDENS) if is_sendable(golden)]
    return [
        golden for evaluator in OF_CALLS for golden in [one for one in chosen if one.case.evaluator == evaluator][:EACH]
    ]


@pytest.fixture(scope="module")
def by_objects(goldens: Sequence[Golden]) -> list[toolgauge.Criterion]:
    """Criteria whose evaluators are objects."""
    made: list[toolgauge.Criterion] = []
    for golden in goldens:
        keys = {key: value for key, value in written_criterion(golden).items() if key not in golden.case.config}
        del keys["evaluator"]
        evaluator = getattr(plugins.evaluator(golden.case.evaluator), "model_validate")(golden.case.config)  # noqa: B009
        made.append(toolgauge.Criterion(**keys, evaluator=evaluator))  # pyright: ignore[reportArgumentType]
    return made


def test_golden_cases_give_what_score_gives(
    goldens: Sequence[Golden], by_objects: Sequence[toolgauge.Criterion], tmp_path: Path
):
    spans = spans_of(goldens)
    evaluation = toolgauge.check(spans, by_objects, defaults=False)
    found = {result.criterion: (result.value, result.reason) for result in evaluation.results}
    cases = Cases()
    scored = {criterion_name(golden): figure(cases.score(golden.case).outcome) for golden in goldens}
    assert found == scored

    file = tmp_path / "criteria.yaml"
    file.write_text(json.dumps([written_criterion(golden) for golden in goldens]))
    from_file = toolgauge.check(spans, file, defaults=False)
    assert [(one.revision, str(one)) for one in from_file.results] == [
        (one.revision, str(one)) for one in evaluation.results
    ]


RECORDINGS = (
    "pydantic-ai/bad_args.otlp.pb",
    "pydantic-ai/mcp_sequence3.otlp.pb",
    "google-adk/content_off.otlp.pb",
    "openinference-langgraph/error.otlp.pb",
    "openinference-crewai/retry.otlp.pb",
    "vercel-ai/parallel.01.otlp.pb",
)


def found_by(evaluation: toolgauge.Evaluation) -> list[tuple[object, ...]]:
    return [
        (one.criterion, one.revision, one.level, one.outcome, one.value, one.reason, one.call and one.call.name)
        for one in evaluation.results
    ]


@each_row("recording", RECORDINGS)
def test_spans_of_the_sdk_give_what_their_recording_gives(recording: str):
    path = CORPUS / recording
    from_spans = toolgauge.check(read_back(path))
    assert found_by(from_spans) == found_by(toolgauge.check(path))
    assert from_spans.results


def test_logs_are_read_beside_spans():
    spans, logs = (CORPUS / "openai-v2" / f"event_parallel.{name}" for name in ("otlp.pb", "logs.otlp.pb"))
    messages = [
        ExportTraceServiceRequest.FromString(spans.read_bytes()),
        ExportLogsServiceRequest.FromString(logs.read_bytes()),
    ]
    both = found_by(toolgauge.check(messages))
    assert both == found_by(toolgauge.check([spans, logs]))
    assert both != found_by(toolgauge.check(messages[:1]))


@each_row("recording", RECORDINGS[:2])
def test_an_evaluation_has_the_results_of_replay(recording: str):
    path = str(CORPUS / recording)
    replayed = CliRunner().invoke(commands, ["check", "--fail-on", "nothing", path, "--json"])
    lines = [json.loads(line) for line in replayed.stdout.splitlines()]
    assert [
        (one["criterion"], one["revision"], one["outcome"], one["value"], one["reason"], one["tool"]) for one in lines
    ] == [
        (name, revision, word, value, reason, tool)
        for name, revision, _, word, value, reason, tool in found_by(toolgauge.check(path))
    ]
