"""Reads Laminar's spans: functions observed as tools, and model calls with the messages of their providers."""

from collections.abc import Iterator

from toolgauge.model.observations import Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions
from toolgauge.recognize.dialect import PlainDialect, ToolFields

_TYPE = "lmnr.span.type"
_TOOL = ToolFields(arguments=("lmnr.span.input",), result=("lmnr.span.output",))
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
            if (call := _TOOL.read(span, span.name)) is not None:
                yield call
        elif kind == "LLM":
            yield from self._conventions.model_call(attributes, span.ref.trace_id)
        elif conventions.OPERATION in attributes:
            yield from self._conventions.read_span(span)
