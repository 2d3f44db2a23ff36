"""Reads external verdicts: the event `gen_ai.evaluation.result` as a log record or on a span, or its attributes on a span,
and OpenInference's evaluations and annotations.

Records of our own scope never get here. An evaluation that failed itself (`error.type`) is no verdict, nor is one of another
toolgauge.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from math import isfinite

from toolgauge.model.feedback import EVALUATION_EVENT, EXPLANATION, MAX_REASON, OWN_IDENTIFIER, SOURCE, Feedback
from toolgauge.model.json import Value
from toolgauge.model.records import LogRecord, Span
from toolgauge.recognize import values
from toolgauge.recognize.conventions import CONVERSATION, SESSION

_INLINE = re.compile(
    r"(trace\.|session\.)?(?:evaluations|annotations)\.[0-9]{1,9}\.(?:evaluation|annotation)\.(?=name\Z)"
)
_SPAN_KIND, _EVALUATOR = "openinference.span.kind", "EVALUATOR"
_NAME = "gen_ai.evaluation.name"
_VALUE = "gen_ai.evaluation.score.value"
_LABEL = "gen_ai.evaluation.score.label"
_ERROR = "error.type"
_MAX_NAME = 128
# One span is one operation: nobody judges it more often.
_MOST_EVENTS = 20


def feedback_of_record(record: LogRecord) -> Feedback | None:
    """Read the verdict of a log record; `None` where it is none, or names neither trace nor conversation."""
    if record.event_name != EVALUATION_EVENT:
        return None
    attributes = record.attributes
    trace_id = record.trace_id if record.ref is None else record.ref.trace_id
    conversation_id = None
    if trace_id is None:
        conversation_id = values.identifier(attributes.get(CONVERSATION)) or values.identifier(attributes.get(SESSION))
        if conversation_id is None:
            return None
    return _feedback(attributes, trace_id, conversation_id)


def feedback_of_span(span: Span, linked_trace: str | None = None) -> Iterator[Feedback]:
    """Yield the verdicts in the events and in the attributes of a span; an evaluator's are about the `linked_trace`."""
    attributes = span.attributes
    trace_id = (attributes.get(_SPAN_KIND) == _EVALUATOR and linked_trace) or span.ref.trace_id
    for event, _ in zip(span.events, range(_MOST_EVENTS), strict=False):
        if event.name == EVALUATION_EVENT:
            found = _feedback(event.attributes, trace_id, None)
            if found is not None:
                yield found
    found = _feedback(attributes, trace_id, None)
    if found is not None:
        yield found
    inline = (match for match in map(_INLINE.match, attributes) if match is not None)
    for match in islice(inline, _MOST_EVENTS):
        slot = match[0]
        identifier = attributes.get(f"{slot}identifier")
        about = (trace_id, None)
        if match[1] == "session.":
            about = None, values.identifier(attributes.get(SESSION))
        if about == (None, None) or (isinstance(identifier, str) and identifier.startswith(OWN_IDENTIFIER)):
            continue
        written = {
            _NAME: attributes.get(f"{slot}name"),
            _LABEL: attributes.get(f"{slot}label"),
            _VALUE: attributes.get(f"{slot}score"),
            EXPLANATION: attributes.get(f"{slot}explanation"),
        }
        found = _feedback(written, *about)
        if found is not None:
            yield found


def _feedback(attributes: Mapping[str, Value], trace_id: str | None, conversation_id: str | None) -> Feedback | None:
    name = attributes.get(_NAME)
    if not isinstance(name, str) or not name or _ERROR in attributes:
        return None
    label, value = attributes.get(_LABEL), attributes.get(_VALUE)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        value = None
    if isinstance(label, str):
        # A longer label means neither.
        label = label[:_MAX_NAME]
    explanation, source = attributes.get(EXPLANATION), attributes.get(SOURCE)
    return Feedback(
        name=name[:_MAX_NAME],
        label=label if isinstance(label, str | bool) else None,
        value=value,
        trace_id=trace_id,
        conversation_id=conversation_id,
        reason=explanation[:MAX_REASON] if isinstance(explanation, str) else "",
        source=source[:_MAX_NAME] if isinstance(source, str) else "",
    )
