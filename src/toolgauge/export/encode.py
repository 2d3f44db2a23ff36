"""From scorecards to requests: the scorecards' spans and the log records of their results, in one go.

Both say much the same, so each result is looked at once. Requests come as they fill up, and the rest at the end.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from toolgauge.export.attributes import ResultWriter, Said
from toolgauge.export.emit_settings import EmitSettings
from toolgauge.export.places import Place, PlaceWriter
from toolgauge.export.redact import Redactor
from toolgauge.export.scorecard_span import ScorecardSpan, SpanWriter
from toolgauge.export.wire import ITEM, Around, Requests
from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.model.outcomes import Scorecard

# gRPC servers, the Collector's among them, refuse 4 MiB and more unless told otherwise.
_MAX_REQUEST_BYTES = 2 * 1024 * 1024
# Between two looks whether a request is full, and for as long as the parts of results are kept.
_RESULTS_AT_ONCE = 50


class ScorecardEncoder:
    """Encodes scorecards by the same settings. `count_judged` is told how many spans a scorecard's span judges."""

    def __init__(
        self, redactor: Redactor, settings: EmitSettings, around: Around, count_judged: Callable[[int], None]
    ) -> None:
        self._results = ResultWriter(redactor, settings)
        self._places = PlaceWriter()
        self._spans = SpanWriter()
        self._around = around
        self._count_judged = count_judged

    def encode(self, scorecards: Sequence[Scorecard]) -> Iterator[Outgoing]:
        """Yield requests of at most about 2 MiB, none when there is nothing to export."""
        spans, records = Requests(self._around, _MAX_REQUEST_BYTES), Requests(self._around, _MAX_REQUEST_BYTES)
        for scorecard in scorecards:
            span = ScorecardSpan()
            yield from self._add_results(scorecard, span, records)
            if not span.is_empty:
                yield from _own("traces", self._add_span(scorecard, span, spans))
        yield from _own("traces", spans.rest())
        yield from _own("logs", records.rest())

    def _add_results(self, scorecard: Scorecard, span: ScorecardSpan, records: Requests) -> Iterator[Outgoing]:
        places = self._places.of(scorecard)
        for first in range(0, len(scorecard.results), _RESULTS_AT_ONCE):
            part = scorecard.results[first : first + _RESULTS_AT_ONCE]
            said = self._results.said(part)
            stand = places.places(part)
            span.add(part, said, stand)
            yield from _own("logs", records.add(_records(said, stand)))

    def _add_span(self, scorecard: Scorecard, span: ScorecardSpan, spans: Requests) -> bytes | None:
        if span.judged:
            self._count_judged(span.judged)
        body = b"".join((self._spans.head(scorecard), *span.pieces()))
        return spans.add(ITEM[len(body)] + body)


def _records(all_said: Iterable[Said], places: Iterable[Place]) -> bytes:
    pieces: list[bytes] = []
    for said, place in zip(all_said, places, strict=True):
        if said.record:
            frame = ITEM[said.record_size + place.record_size]
            pieces += (frame, said.record, place.record, said.record_end)
    return b"".join(pieces)


def _own(signal: Signal, body: bytes | None) -> tuple[Outgoing, ...]:
    return () if body is None else (Outgoing(signal=signal, body=body, spans=0, own=True),)
