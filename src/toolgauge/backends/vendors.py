"""Makes the destination of a backend: the only place where a vendor's name becomes code."""

from functools import partial

from toolgauge.backends import (
    datadog_evaluations,
    langfuse_scores,
    langsmith_feedback,
    mlflow_assessments,
    opik_feedback_scores,
    phoenix_annotations,
)
from toolgauge.backends.score_destination import ScoreDestination
from toolgauge.backends.score_sender import ScoreSender, Write
from toolgauge.backends.settings import BackendSettings, DatadogSettings, LangsmithSettings, OpikSettings, Vendor
from toolgauge.export.settings import checked_headers
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import Ledger

_WITHOUT_SETTINGS: dict[Vendor, Write] = {
    "phoenix": phoenix_annotations.write,
    "langfuse": langfuse_scores.write,
    "mlflow": mlflow_assessments.write,
}


def backend_destination(
    name: str, settings: BackendSettings, metrics: SelfMetrics, user_agent: str, ledger: Ledger | None
) -> ScoreDestination:
    """Make the destination. Raise `ConfigError` when its key or a header cannot be used."""
    headers = dict(checked_headers({**settings.with_key.authorization, **settings.headers}, name))
    sender = ScoreSender(settings, _write(settings), {**headers, "User-Agent": user_agent})
    return ScoreDestination(name, settings, metrics, sender, ledger)


def _write(settings: BackendSettings) -> Write:
    match settings:
        case LangsmithSettings():
            return partial(langsmith_feedback.write, settings=settings)
        case OpikSettings():
            return partial(opik_feedback_scores.write, settings=settings)
        case DatadogSettings():
            return partial(datadog_evaluations.write, settings=settings)
        case _:
            return _WITHOUT_SETTINGS[settings.vendor]
