"""Makes the destination of a backend, and reads people's verdicts from it: the only place where a vendor's name becomes code."""

import asyncio
from functools import partial

from toolgauge.backends import (
    datadog_evaluations,
    langfuse_scores,
    langsmith_feedback,
    mlflow_assessments,
    opik_feedback_scores,
    phoenix_annotations,
)
from toolgauge.backends.score_sender import Reading, ScoreDestination, ScoreSender, Write
from toolgauge.backends.settings import (
    BackendSettings,
    DatadogSettings,
    LangfuseSettings,
    LangsmithSettings,
    MlflowSettings,
    OpikSettings,
    PhoenixSettings,
    Vendor,
)
from toolgauge.export.sender import Permanent, Transient
from toolgauge.export.settings import checked_headers
from toolgauge.model.errors import ConfigError
from toolgauge.model.feedback import Feedback
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import NO_LEDGER, Ledger

# Between the attempts to read.
_WAITS_S, _LONGEST_WAIT_S = (0.5, 2.0, 5.0), 60.0
_WITHOUT_SETTINGS: dict[Vendor, Write] = {
    "phoenix": phoenix_annotations.write,
    "langfuse": langfuse_scores.write,
    "mlflow": mlflow_assessments.write,
}


def backend_destination(
    name: str, settings: BackendSettings, metrics: SelfMetrics, user_agent: str, ledger: Ledger = NO_LEDGER
) -> ScoreDestination:
    """Make the destination. Raise `ConfigError` when its key or a header cannot be used."""
    return ScoreDestination(name, settings, metrics, _sender(name, settings, user_agent), ledger)


def _sender(name: str, settings: BackendSettings, user_agent: str) -> ScoreSender:
    headers = dict(checked_headers({**settings.with_key.authorization, **settings.headers}, name))
    match settings:
        case LangsmithSettings():
            write = partial(langsmith_feedback.write, settings=settings)
        case OpikSettings():
            write = partial(opik_feedback_scores.write, settings=settings)
        case DatadogSettings():
            write = partial(datadog_evaluations.write, settings=settings)
        case _:
            write = _WITHOUT_SETTINGS[settings.vendor]
    return ScoreSender(settings, write, {**headers, "User-Agent": user_agent})


async def pull_verdicts(
    name: str, settings: BackendSettings, since_ns: int, user_agent: str
) -> list[Feedback] | Transient | Permanent:
    """Read the verdicts of people since a time; try again a few times where the backend is busy. Raise as `backend_destination`."""
    sender = _sender(name, settings, user_agent)
    await sender.start()
    try:
        for wait_s in _WAITS_S:
            ended = await sender.exchange(_read(settings, since_ns))
            if not isinstance(ended, Transient):
                return ended
            await asyncio.sleep(min(ended.retry_after_s or wait_s, _LONGEST_WAIT_S))
        return await sender.exchange(_read(settings, since_ns))
    finally:
        await sender.close()


def _read(settings: BackendSettings, since_ns: int) -> Reading:
    match settings:
        case PhoenixSettings():
            return phoenix_annotations.read(since_ns, settings)
        case MlflowSettings():
            return mlflow_assessments.read(since_ns, settings)
        case LangsmithSettings():
            return langsmith_feedback.read(since_ns, settings)
        case OpikSettings():
            return opik_feedback_scores.read(since_ns, settings)
        case LangfuseSettings():
            return langfuse_scores.read(since_ns)
        case _:
            raise ConfigError(f"verdicts of people cannot be read from `{settings.vendor}`")
