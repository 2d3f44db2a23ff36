"""What `gen_ai.evaluation.result` log records begin with, and for which outcomes there are any.

Written by ourselves and not through the SDK, whose queue lost a third of a burst and which costs ten times as much.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Mapping

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from toolgauge.export import names
from toolgauge.export.emit_settings import EventsMode
from toolgauge.model.outcomes import OutcomeWord

_WORDS: dict[EventsMode, frozenset[OutcomeWord]] = {
    "scored": frozenset({"pass", "fail", "error"}),
    "failed": frozenset({"fail", "error"}),
    "all": frozenset({"pass", "fail", "error", "not_evaluated"}),
}
_SAMPLED = 1


def beginnings(mode: EventsMode) -> Mapping[OutcomeWord, bytes]:
    """Write the beginnings of log records, by outcomes that `mode` asks for."""
    return {word: _begin(word) for word in _WORDS[mode]}


def _begin(word: OutcomeWord) -> bytes:
    # A failed check and a failed evaluation are what people filter logs for.
    warn = word in {"fail", "error"}
    record = LogRecord(
        severity_number=SeverityNumber.SEVERITY_NUMBER_WARN if warn else SeverityNumber.SEVERITY_NUMBER_INFO,
        severity_text="WARN" if warn else "INFO",
        event_name=names.EVENT_NAME,
        flags=_SAMPLED,
    )
    return record.SerializeToString()
