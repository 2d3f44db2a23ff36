"""From results to `gen_ai.evaluation.result` log records.

Encoded here and not through the SDK, whose queue lost a third of a burst and which costs ten times as much.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Iterator, Sequence

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from toolgauge.emit import names
from toolgauge.emit.annotations import sound
from toolgauge.emit.attributes import Places, ResultWriter
from toolgauge.emit.fit import fit_time, raw_id
from toolgauge.emit.settings import EventsMode
from toolgauge.emit.wire import RequestWriter, elements, field, tag, time_field, time_tag
from toolgauge.model.outcomes import OutcomeWord, Result, Scorecard, outcome_word

_WORDS: dict[EventsMode, frozenset[OutcomeWord]] = {
    "scored": frozenset({"pass", "fail", "error"}),
    "failed": frozenset({"fail", "error"}),
    "all": frozenset({"pass", "fail", "error", "not_evaluated"}),
}
_SAMPLED = 1
# So many records are written without a pause.
_PAUSE_EVERY = 100
# Fields of LogRecord.
_TIME, _OBSERVED_TIME = time_tag(1), time_tag(11)
_ATTRIBUTES, _TRACE_ID, _SPAN_ID = tag(6), tag(9), tag(10)


class EventEncoder:
    """Encodes the results that `mode` asks for, in requests of at most about `max_bytes`."""

    def __init__(
        self, mode: EventsMode, writer: ResultWriter, resource: Resource, scope: InstrumentationScope, max_bytes: int
    ) -> None:
        self._beginnings = {word: _begin(word) for word in _WORDS[mode]}
        self._writer = writer
        self._requests = RequestWriter(resource, scope, max_bytes)

    def encode(self, scorecards: Sequence[Scorecard], places: Places) -> Iterator[bytes | None]:
        """Yield serialised export requests, none when there is nothing to say, and pauses."""
        return self._requests.requests(self._paced(scorecards, places))

    def _paced(self, scorecards: Sequence[Scorecard], places: Places) -> Iterator[bytes | None]:
        left = _PAUSE_EVERY
        for scorecard in scorecards:
            for record in self._records(scorecard, places):
                yield record
                left -= 1
                if not left:
                    left = _PAUSE_EVERY
                    yield None

    def _records(self, scorecard: Scorecard, places: Places) -> Iterator[bytes]:
        time_ns = fit_time(scorecard.scored_at_ns)
        times = time_field(_TIME, time_ns) + time_field(_OBSERVED_TIME, time_ns)
        for result in scorecard.results:
            outcome = sound(result.outcome)
            beginning = self._beginnings.get(outcome_word(outcome))
            if beginning is not None:
                attributes = self._writer.attributes(scorecard.trajectory, result, outcome, places)
                yield b"".join((beginning, times, _where(scorecard, result), elements(_ATTRIBUTES, attributes)))


def _where(scorecard: Scorecard, result: Result) -> bytes:
    target = result.target
    if target is None:
        return field(_TRACE_ID, raw_id(scorecard.trajectory.trace_id, 16))
    return field(_TRACE_ID, raw_id(target.trace_id, 16)) + field(_SPAN_ID, raw_id(target.span_id, 8))


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
