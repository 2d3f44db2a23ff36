"""A recording in figures: what was read, by which dialects, from whom, and what could not be observed and why."""

from collections import Counter
from collections.abc import Iterator, Mapping

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import JsonObject
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.offline.replay.style import PLAIN, Style, shortened
from toolgauge.offline.replay.tally import Tally

_NAME_LENGTH = 120


class Stats:
    """Counts trajectories; what the recognizer read comes from the tally."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._trajectories: Counter[str] = Counter()
        self._without_calls = 0
        self._calls: Counter[str] = Counter()
        self._states: Counter[str] = Counter()
        self._arguments: Counter[str] = Counter()
        self._results: Counter[str] = Counter()
        self._not_observable: Counter[str] = Counter()

    def add(self, trajectory: Trajectory) -> None:
        """Count one trajectory."""
        self._tally.take(trajectory.trace_id)
        self._trajectories[trajectory.closed_because] += 1
        if trajectory.calls:
            self._not_observable["tool_definitions"] += trajectory.tools_offered is None
            self._not_observable["conversation_id"] += trajectory.conversation_id is None
            self._not_observable["user_text"] += not any(message.role == "user" for message in trajectory.messages)
        else:
            self._without_calls += 1
        for call in trajectory.calls:
            self._add_call(call)

    def _add_call(self, call: ToolCall) -> None:
        self._calls[call.dialect] += 1
        self._states[call.state] += 1
        self._arguments[_state_of(call.arguments)] += 1
        # A call that failed has an error in place of a result.
        self._results["error" if call.error is not None else _state_of(call.result)] += 1
        self._not_observable["call_id"] += call.call_id is None

    def as_object(self) -> JsonObject:
        """Describe the recording for `inspect --stats --json`."""
        tally = self._tally
        in_recording, read = tally.in_recording, tally.read
        return {
            "records": {
                "all": in_recording.total(),
                "read": read.total(),
                "unread": max(in_recording.total() - read.total(), 0),
                "undecodable": tally.undecodable,
                "dialect_errors": tally.dialect_errors,
                "without_trace": sum(heard.nowhere for heard in tally.producers.values()),
            },
            "dialects": _object(tally.dialects),
            "scopes": {scope: {"all": count, "read": read[scope]} for scope, count in sorted(in_recording.items())},
            "trajectories": {
                "all": self._trajectories.total(),
                "without_calls": self._without_calls,
                "closed_because": _object(self._trajectories),
            },
            "calls": {
                "all": self._calls.total(),
                "dialects": _object(self._calls),
                "states": _object(self._states),
                "arguments": _object(self._arguments),
                "results": _object(self._results),
            },
            "not_observable": _object(self._not_observable),
        }

    def lines(self, style: Style = PLAIN) -> Iterator[str]:
        """Describe the recording for a person."""
        tally = self._tally
        total, read = tally.in_recording.total(), tally.read.total()
        yield style.head(f"spans and log records: {total}")
        yield from _rows({"read": read, "unread": max(total - read, 0), "undecodable": tally.undecodable})
        yield from _rows(_without_zeros({"a dialect failed on": tally.dialect_errors}))
        yield style.head("dialects (spans and log records read)")
        yield from _rows(tally.dialects)
        yield style.head("scopes (read of all)")
        for scope, count in tally.in_recording.most_common():
            yield f"  {tally.read[scope]:>7} of {count:<7} {shortened(scope or '(no scope)', _NAME_LENGTH)}"
        without = f"{self._without_calls} without tool calls"
        yield style.head(f"trajectories: {self._trajectories.total()}, {without} (closed because)")
        yield from _rows(self._trajectories)
        yield style.head(f"tool calls: {self._calls.total()} (states)")
        yield from _rows(self._states)
        for title, counts in (
            ("arguments", self._arguments),
            ("results", self._results),
            ("not observable (traces, calls for call_id)", self._not_observable),
        ):
            yield style.head(title)
            yield from _rows(_without_zeros(counts))


def _state_of(content: Content) -> str:
    match content:
        case Recorded():
            return "recorded"
        case Unparsed(reason=reason) | NotRecorded(reason=reason):
            return reason


def _object(counts: Counter[str]) -> JsonObject:
    return {name: count for name, count in counts.most_common() if count}


def _without_zeros(counts: Mapping[str, int]) -> Counter[str]:
    return Counter({name: count for name, count in counts.items() if count})


def _rows(counts: Mapping[str, int]) -> Iterator[str]:
    for name, count in counts.items():
        yield f"  {count:>7} {name}"
