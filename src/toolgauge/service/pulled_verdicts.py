"""Reads people's verdicts from a backend as feedback."""

from toolgauge.backends.person_verdicts import PersonVerdict
from toolgauge.backends.settings import BackendSettings
from toolgauge.backends.vendors import pull_verdicts
from toolgauge.model.errors import RecordingError
from toolgauge.model.feedback import Feedback
from toolgauge.recognize.feedback_reader import verdict_of
from toolgauge.service.destinations import USER_AGENT


async def pull(name: str, settings: BackendSettings, since_ns: int) -> list[PersonVerdict]:
    """Read what people said since a time, and which runs were queued; raise `RecordingError` when the backend refuses."""
    ended = await pull_verdicts(name, settings, since_ns, USER_AGENT)
    if not isinstance(ended, list):
        raise RecordingError(f"cannot read verdicts from `{name}` ({settings.endpoint}): {ended.reason}")
    return ended


def as_feedback(verdict: PersonVerdict) -> Feedback:
    """Read a verdict as feedback: its label, else its number."""
    passed = None if verdict.label is None else verdict_of(verdict.label)
    if passed is None and verdict.value is not None:
        passed = verdict_of(verdict.value)
    return Feedback(
        name=verdict.name,
        passed=passed,
        value=verdict.value,
        trace_id=verdict.trace_id,
        conversation_id=verdict.conversation_id,
    )
