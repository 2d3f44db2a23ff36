"""Where results stand: tool, agent, service, ids and times, written once for all results about one call.

In several forms, since the same is said with other tags in an event of the scorecard's span, in its links and in a
log record.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from toolgauge.export import names
from toolgauge.export.attributes import EVENT_ATTRIBUTES, RECORD_ATTRIBUTES
from toolgauge.export.fit import MAX_IDENTIFIER, fit_text, fit_time, raw_id
from toolgauge.export.memo import Memo
from toolgauge.export.wire import IntegerAttribute, TextAttribute, attribute, field, fixed64, length, tag, time_tag
from toolgauge.model.outcomes import Result, Scorecard
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory

# Fields of a span's events, of log records, and of a span's links.
_EVENT_TIME, _EVENT_NAME = time_tag(1), field(tag(2), names.EVENT_NAME.encode())
_RECORD_TIME, _OBSERVED_TIME = time_tag(1), time_tag(11)
_TRACE_ID, _SPAN_ID = tag(9), tag(10)
_LINK, _LINK_TRACE_ID, _LINK_SPAN_ID = tag(13), tag(1), tag(2)
# Before ids of the length that they should have.
_BEFORE_SPAN_ID = _SPAN_ID + length(8)
_BEFORE_LINKED_TRACE, _BEFORE_LINKED_SPAN = _LINK + length(28) + _LINK_TRACE_ID + length(16), _LINK_SPAN_ID + length(8)
# A run may have a hundred thousand calls: what was written of the first ones is written again then.
_MAX_PLACES = 2048


class Place(Struct, frozen=True, gc=False):
    """What all results about one call and span share.

    `judged` names the span in an event, behind all that is said there; `link` is a whole field of the scorecard's span.
    """

    target: SpanRef | None
    event: bytes
    judged: bytes
    event_size: int
    record: bytes
    record_size: int
    link: bytes


class PlaceWriter:
    """Writes places, and remembers what was said of tools, agents and services."""

    def __init__(self) -> None:
        # In events and in records, each with the tag of what mostly comes next, the id of the call.
        self.tools: Memo[str, tuple[bytes, bytes]] = Memo()
        self._repeated: Memo[tuple[str, str], bytes] = Memo()
        self.call_id = TextAttribute(names.CALL_ID, MAX_IDENTIFIER)
        self.judged = TextAttribute(names.JUDGED_SPAN, MAX_IDENTIFIER, EVENT_ATTRIBUTES)
        self.span_end = IntegerAttribute(names.SPAN_END)

    def of(self, scorecard: Scorecard) -> "Places":
        """Begin with a scorecard."""
        return Places(self, scorecard)

    def tool(self, name: str) -> tuple[bytes, bytes]:
        """Write the name of a tool that is not among the known `tools`."""
        written = _before_another((attribute(names.TOOL, fit_text(name, MAX_IDENTIFIER)),))
        self.tools.keep(name, written, len(name) + 2 * len(written[0]))
        return written

    def _kept(self, key: str, text: str) -> bytes:
        written = attribute(key, fit_text(text, MAX_IDENTIFIER))
        self._repeated.keep((key, text), written, len(text) + len(written))
        return written

    def who(self, trajectory: Trajectory, agent: str | None) -> list[bytes]:
        """Write what all calls of an agent share."""
        repeated = self._repeated
        # The id of a conversation is the same for all its turns.
        conversation_id, service = trajectory.conversation_id, trajectory.service
        return [
            repeated.get((key, text)) or self._kept(key, text)
            for key, text in ((names.AGENT, agent), (names.CONVERSATION, conversation_id), (names.SERVICE, service))
            if text is not None
        ]


class Places:
    """The places of one scorecard."""

    __slots__ = (
        "_begin_event",
        "_begin_link",
        "_begin_record",
        "_known",
        "_times",
        "_trace_field",
        "_trajectory",
        "_who",
        "_writer",
    )

    def __init__(self, writer: PlaceWriter, scorecard: Scorecard) -> None:
        self._writer = writer
        self._trajectory = scorecard.trajectory
        self._known: dict[int, Place] = {}
        # By agent, in events and in records, each with the tag of what mostly comes next, the end of the span.
        self._who: dict[str | None, tuple[bytes, bytes]] = {}
        time = fixed64(fit_time(scorecard.scored_at_ns))
        self._begin_event = _EVENT_TIME + time + _EVENT_NAME
        self._times = _RECORD_TIME + time + _OBSERVED_TIME + time
        trace_id = raw_id(scorecard.trajectory.trace_id, 16)
        self._trace_field = field(_TRACE_ID, trace_id)
        # Of nearly all records and links, this is all that stands before the span id.
        self._begin_record = self._times + self._trace_field + _BEFORE_SPAN_ID
        self._begin_link = _BEFORE_LINKED_TRACE + trace_id + _BEFORE_LINKED_SPAN if trace_id else b""

    def places(self, results: Iterable[Result]) -> list[Place]:
        """Write the places of some of the scorecard's results."""
        places: list[Place] = []
        known = self._known
        for result in results:
            call = result.call
            # By identity: the scorecard keeps its calls for as long as this is in use.
            place = known.get(id(call))
            if place is None or place.target is not result.target:
                if len(known) >= _MAX_PLACES:
                    known.clear()
                    self._who.clear()
                place = known[id(call)] = self._written(call, result.target)
            places.append(place)
        return places

    def _written(self, call: ToolCall | None, target: SpanRef | None) -> Place:
        if target is None:
            begin_record, link, judged = self._times + self._trace_field, b"", b""
        else:
            span_id = raw_id(target.span_id, 8)
            # An id of this length that could be read has nothing in it but digits and letters.
            is_plain = span_id and len(target.span_id) == 2 * len(span_id)
            judged = (self._writer.judged.plain if is_plain else self._writer.judged.written)(target.span_id)
            if span_id and self._begin_link and target.trace_id == self._trajectory.trace_id:
                begin_record, link = self._begin_record + span_id, self._begin_link + span_id
            else:
                begin_record, link = self._elsewhere(target)
        event, record = self._of_trajectory(begin_record) if call is None else self._of_call(call, begin_record)
        return Place(target, event, judged, len(event) + len(judged), record, len(record), link)

    def _elsewhere(self, target: SpanRef) -> tuple[bytes, bytes]:
        """Begin a record and write a link: a conversation has several traces, and a sender's ids may be anything."""
        trace_id, span_id = raw_id(target.trace_id, 16), raw_id(target.span_id, 8)
        link = field(_LINK, field(_LINK_TRACE_ID, trace_id) + field(_LINK_SPAN_ID, span_id))
        return self._times + field(_TRACE_ID, trace_id) + field(_SPAN_ID, span_id), link

    def _of_call(self, call: ToolCall, begin_record: bytes) -> tuple[bytes, bytes]:
        writer = self._writer
        in_event, in_record = writer.tools.get(call.name) or writer.tool(call.name)
        who_in_event, who_in_record = self._who.get(call.agent) or self._of_agent(call.agent)
        call_id = end = b""
        if call.call_id is not None:
            call_id = writer.call_id.written(call.call_id)
        else:
            in_event, in_record = in_event[:-1], in_record[:-1]
        if call.end_ns > 0:
            end = writer.span_end.written(call.end_ns)
        else:
            who_in_event, who_in_record = who_in_event[:-1], who_in_record[:-1]
        event = b"".join((self._begin_event, in_event, call_id, who_in_event, end))
        return event, b"".join((begin_record, in_record, call_id, who_in_record, end))

    def _of_trajectory(self, begin_record: bytes) -> tuple[bytes, bytes]:
        trajectory = self._trajectory
        attributes = self._writer.who(trajectory, trajectory.agents[0] if trajectory.agents else None)
        if trajectory.end_ns > 0:
            attributes.append(self._writer.span_end.written(trajectory.end_ns))
        # What comes first is no attribute, but between all others stands the tag of one.
        event = EVENT_ATTRIBUTES.join((self._begin_event, *attributes))
        return event, RECORD_ATTRIBUTES.join((begin_record, *attributes))

    def _of_agent(self, agent: str | None) -> tuple[bytes, bytes]:
        who = self._who[agent] = _before_another(self._writer.who(self._trajectory, agent))
        return who


def _before_another(attributes: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Write attributes of an event and of a record, each with its tag, of one byte, and that of one more."""
    return EVENT_ATTRIBUTES.join((b"", *attributes, b"")), RECORD_ATTRIBUTES.join((b"", *attributes, b""))
