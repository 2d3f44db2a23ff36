"""From results to `gen_ai.evaluation.result` log records.

Encoded here and not through the SDK, whose queue lost a third of a burst and which costs ten times as much.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Iterator, Sequence

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from toolgauge.emit import names
from toolgauge.emit.annotations import sound
from toolgauge.emit.attributes import Places, ResultWriter
from toolgauge.emit.fit import fit_time, raw_id
from toolgauge.emit.redact import Redactor
from toolgauge.emit.settings import EventsMode
from toolgauge.model.outcomes import Outcome, OutcomeWord, Result, Scorecard, outcome_word

_WORDS: dict[EventsMode, frozenset[OutcomeWord]] = {
    "scored": frozenset({"pass", "fail", "error"}),
    "failed": frozenset({"fail", "error"}),
    "all": frozenset({"pass", "fail", "error", "not_evaluated"}),
}
_SAMPLED = 1


class EventEncoder:
    """Encodes the results that `mode` asks for, in requests of at most about `max_bytes`."""

    def __init__(
        self, mode: EventsMode, redactor: Redactor, resource: Resource, scope: InstrumentationScope, max_bytes: int
    ) -> None:
        self._words = _WORDS[mode]
        self._writer = ResultWriter(_begin, LogRecord, redactor)
        self._resource = resource
        self._scope = scope
        self._max_bytes = max_bytes

    def encode(self, scorecards: Sequence[Scorecard]) -> Iterator[bytes]:
        """Yield serialised export requests; none when there is nothing to say."""
        request, records = self._empty_request()
        size = 0
        for scorecard in scorecards:
            places: Places = {}
            for result in scorecard.results:
                outcome = sound(result.outcome)
                if outcome_word(outcome) not in self._words:
                    continue
                size += self._append(records, scorecard, result, outcome, places)
                if size >= self._max_bytes:
                    yield request.SerializeToString()
                    request, records = self._empty_request()
                    size = 0
        if size:
            yield request.SerializeToString()

    def _empty_request(self) -> tuple[ExportLogsServiceRequest, ScopeLogs]:
        request = ExportLogsServiceRequest()
        resource_logs = request.resource_logs.add()
        resource_logs.resource.CopyFrom(self._resource)
        scope_logs = resource_logs.scope_logs.add()
        scope_logs.scope.CopyFrom(self._scope)
        return request, scope_logs

    def _append(
        self, records: ScopeLogs, scorecard: Scorecard, result: Result, outcome: Outcome, places: Places
    ) -> int:
        record = records.log_records.add()
        self._writer.write(record, scorecard.trajectory, result, outcome, places)
        record.time_unix_nano = record.observed_time_unix_nano = fit_time(scorecard.scored_at_ns)
        if result.target is not None:
            record.trace_id = raw_id(result.target.trace_id, 16)
            record.span_id = raw_id(result.target.span_id, 8)
        else:
            record.trace_id = raw_id(scorecard.trajectory.trace_id, 16)
        return record.ByteSize()


def _begin(word: OutcomeWord) -> LogRecord:
    # A failed check and a failed evaluation are what people filter logs for.
    warn = word in {"fail", "error"}
    return LogRecord(
        severity_number=SeverityNumber.SEVERITY_NUMBER_WARN if warn else SeverityNumber.SEVERITY_NUMBER_INFO,
        severity_text="WARN" if warn else "INFO",
        event_name=names.EVENT_NAME,
        flags=_SAMPLED,
    )
