"""Reads Laminar's spans: functions observed as tools, and model calls with the messages of their providers."""

from collections.abc import Iterable, Iterator

from toolgauge.model.observations import CallExecuted, CallRequested, MessageSeen, Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions_reader import PlainDialect

_TYPE = "lmnr.span.type"
_INPUT = "lmnr.span.input"
_OUTPUT = "lmnr.span.output"
_ASSOCIATION = "lmnr.association.properties."
_SESSION = _ASSOCIATION + "session_id"


class Laminar(PlainDialect):
    """Reads the spans to which Laminar gives a type; of those of other producers it gives only a path."""

    name = "laminar"
    rank = 55
    marks = ("lmnr.",)
    prefixes = (_ASSOCIATION, _ASSOCIATION + "metadata.")
    grounds = Grounds(keys=(_TYPE,))

    def claims(self, record: Record) -> bool:
        """Claim spans with Laminar's type, but no model calls in Traceloop's keys."""
        if isinstance(record, LogRecord):
            return False
        attributes = record.attributes
        kind = attributes.get(_TYPE)
        return kind is not None and (
            kind != "LLM" or conventions.INPUT in attributes or conventions.OUTPUT in attributes
        )

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        yield from conventions.conversation(attributes, (_SESSION,))
        kind = attributes.get(_TYPE)
        if kind == "TOOL":
            yield CallExecuted(
                name=values.as_str(attributes.get(conventions.TOOL_NAME)) or span.name,
                call_id=conventions.call_id(attributes),
                arguments=values.arguments(attributes.get(_INPUT)),
                result=values.result(attributes.get(_OUTPUT)),
                error=conventions.call_error(span),
            )
        elif kind == "LLM":
            yield from self._conventions.model_call(attributes, span.ref.trace_id)
        elif conventions.OPERATION in attributes:
            yield from self._conventions.read_span(span)

    def history(self, span: Span) -> Iterable[CallRequested | MessageSeen]:
        """Read the calls in the history that a model was given, and the texts of the user between them."""
        return self._conventions.history(span)
