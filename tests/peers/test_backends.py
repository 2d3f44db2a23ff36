"""Agents' spans through `toolgauge serve` into a real backend: its own table has the scores, each once."""

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.peers.backends import MLflow, Phoenix, Shown
from tests.peers.runs import CALL, WHOLE, FailedRun, failed_runs
from tests.wire.agent_runs import CRITERIA
from tests.wire.support import RETRY_SOON, serving, until


@pytest.fixture
def settings(tmp_path: Path) -> tuple[str, ...]:
    criteria = tmp_path / "criteria.yaml"
    criteria.write_text(CRITERIA)
    return (f"criteria_files=[{criteria}]", f"state.directory={tmp_path / 'state'}")


def spans_to(url: str, *more: str) -> str:
    keys = (f"endpoint: {url}", "protocol: http", "signals: [traces]", *more, RETRY_SOON)
    return f"exporters.otlp={{{', '.join(keys)}}}"


def scores_to(vendor: str, url: str) -> str:
    return f"exporters.{vendor}={{endpoint: {url}, criteria: [{CALL}, {WHOLE}], {RETRY_SOON}}}"


def to_phoenix(phoenix: Phoenix) -> tuple[str, ...]:
    return spans_to(phoenix.url), scores_to("phoenix", phoenix.url)


def to_mlflow(mlflow: MLflow) -> tuple[str, ...]:
    return spans_to(mlflow.url, 'headers: {x-mlflow-experiment-id: "0"}'), scores_to("mlflow", mlflow.url)


def test_phoenix_shows_the_score_of_a_failed_call_on_its_tool_span_and_a_run_no_longer_than_it_was(
    phoenix: Phoenix, settings: tuple[str, ...], tmp_path: Path
):
    (run,) = failed_runs(1)
    spans = len(ExportTraceServiceRequest.FromString(run.body).resource_spans[0].scope_spans[0].spans)
    with serving(tmp_path, *settings, *to_phoenix(phoenix)) as toolgauge:
        toolgauge.send(run.body, "http")
        (shown,) = until(lambda: phoenix.scores([run.tool_span]), "the annotation")
        # With the scorecard.
        _, length_s = until(
            lambda: found if (found := phoenix.trace(run.trace_id))[0] > spans else None, "the scorecard"
        )
    assert shown == Shown(run.tool_span, CALL, 0.0, "fail", "CODE")
    assert length_s == 5


def test_mlflow_shows_the_score_of_a_failed_call_on_its_tool_span_and_a_run_no_longer_than_it_was(
    mlflow: MLflow, settings: tuple[str, ...], tmp_path: Path
):
    (run,) = failed_runs(1)
    with serving(tmp_path, *settings, *to_mlflow(mlflow)) as toolgauge:
        toolgauge.send(run.body, "http")
        shown = until(lambda: [one for one in mlflow.scores([run.trace_id]) if one.name == CALL], "the assessment")
    assert shown == [Shown(run.tool_span, CALL, 0.0, "fail", "CODE")]
    # It has ended, and left nothing that it had to send.
    assert mlflow.length_s(run.trace_id) == 5


def scored_once_after_a_kill(
    folder: Path,
    settings: Sequence[str],
    look: Callable[[Sequence[FailedRun]], list[Shown]],
    whole: Callable[[FailedRun], str],
) -> None:
    """Kill toolgauge as soon as the first of many scores is there; each is there once after a restart."""
    runs = failed_runs(30)
    with serving(folder, *settings) as toolgauge:
        for run in runs:
            toolgauge.send(run.body, "http")
        until(lambda: look(runs), "the first score")
        toolgauge.signal(signal.SIGKILL)
        toolgauge.ended()
    assert len(look(runs)) < 2 * len(runs), "it was killed too late"
    with serving(folder, *settings):
        until(lambda: len(look(runs)) >= 2 * len(runs), "all scores")
    expected = [(run.tool_span, CALL) for run in runs] + [(whole(run), WHOLE) for run in runs]
    assert sorted((one.place, one.name) for one in look(runs)) == sorted(expected)


def test_phoenix_has_each_score_once_after_toolgauge_was_killed(
    phoenix: Phoenix, settings: tuple[str, ...], tmp_path: Path
):
    scored_once_after_a_kill(
        tmp_path,
        (*settings, *to_phoenix(phoenix)),
        lambda runs: phoenix.scores([span for run in runs for span in (run.tool_span, run.root_span)]),
        lambda run: run.root_span,
    )


def test_mlflow_has_each_score_once_after_toolgauge_was_killed(
    mlflow: MLflow, settings: tuple[str, ...], tmp_path: Path
):
    scored_once_after_a_kill(
        tmp_path,
        (*settings, *to_mlflow(mlflow)),
        lambda runs: mlflow.scores([run.trace_id for run in runs]),
        lambda run: run.trace_id,
    )
