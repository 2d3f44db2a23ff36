"""Datadog LLM Observability: external evaluations of spans (`/api/intake/llm-obs/v2/eval-metric`).

`source:otel` has Datadog wait for spans that arrive over OTLP. An evaluation has no id and is never overwritten: sent twice it
counts twice. Sessions have no evaluations; results of conversations go to the root of the last trace.
"""

import re
from collections.abc import Sequence

from toolgauge.backends.score_sender import Exchange, Request, Rest
from toolgauge.backends.settings import DatadogSettings
from toolgauge.export.score_lines import Score

_UNFIT = re.compile(r"[^A-Za-z0-9_]")
_MILLISECOND = 1_000_000


def write(scores: Sequence[Score], settings: DatadogSettings) -> Exchange[Rest]:
    """Write all evaluations in one request: if a second one failed, its retry would count the first one's twice."""
    metrics = [_metric(score, settings) for score in scores if score.span_id is not None]
    if metrics:
        body = {"data": {"type": "evaluation_metric", "attributes": {"metrics": metrics}}}
        yield Request(path="/api/intake/llm-obs/v2/eval-metric", body=body)
    return Rest(left_out=len(scores) - len(metrics))


def _metric(score: Score, settings: DatadogSettings) -> dict[str, object]:
    is_number = score.value is not None
    metric: dict[str, object] = {
        "join_on": {"span": {"span_id": str(int(score.span_id or "0", 16)), "trace_id": str(int(score.trace_id, 16))}},
        "label": _UNFIT.sub("_", score.name),
        "metric_type": "score" if is_number else "categorical",
        "ml_app": settings.ml_app or score.service or "unknown",
        "timestamp_ms": score.scored_ns // _MILLISECOND,
        "tags": ["source:otel", f"evaluator:{score.evaluator}", f"criterion_revision:{score.revision}"],
        "eval_scope": "trace" if score.level == "trajectory" else "span",
        "metadata": {**score.metadata, "annotator_kind": score.annotator_kind},
        "reasoning": score.explanation,
    }
    if is_number:
        return {**metric, "score_value": score.value, "assessment": score.word}
    return {**metric, "categorical_value": score.word}
