"""A recorded run reduced to the parts of a reference: without messages and results, as many runs are kept."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from toolgauge.authoring.freedoms import Freedom, Freedoms, Place, is_writable, without_long_texts
from toolgauge.export.redact import Redactor
from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Result, Scored
from toolgauge.model.plain_words import error_words
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.contracts import ToolKinds
from toolgauge.score.selection import CUT_SHORT, without_code

# Names a call in the trajectory of a trace and in that of its conversation alike.
CallKey: TypeAlias = tuple[SpanRef, str | None, str, int]
Case: TypeAlias = str | int | float | bool

_MAX_INPUTS, _MAX_INPUT = 20, 1000


class Fault(Struct, frozen=True, kw_only=True):
    """A result that failed; `call` is `None` where it judges the whole run."""

    criterion: str
    explanation: str
    call: CallKey | None
    is_default: bool


class RecordedCall(Struct, frozen=True, kw_only=True):
    """One call of a run. `args` is `None` where `unread` names a reason; `free` are places that hold for this run only."""

    key: CallKey
    name: str
    args: JsonObject | None
    unread: str | None = None
    free: Mapping[Place, Freedom] = {}
    failure: str | None = None


class RecordedRun(Struct, frozen=True, kw_only=True):
    """One run. `case` is `None` where no attribute names its task; `traces` are the traces that it is made of."""

    trace_id: str
    conversation_id: str | None
    case: Case | None
    service: str | None
    version: str | None
    start_ns: int
    traces: tuple[str, ...]
    calls: tuple[RecordedCall, ...]
    faults: tuple[Fault, ...]
    # What the user wrote, secrets masked.
    inputs: tuple[str, ...]


def key_of(call: ToolCall) -> CallKey:
    """Name a call, whatever trajectory it is in."""
    return call.span, call.call_id, call.name, call.position


def case_text(case: Case) -> str:
    """Write a case as references are looked up by it."""
    return case if isinstance(case, str) else json.dumps(case)


def not_whole(trajectory: Trajectory) -> str | None:
    """Return why a run cannot stand for others: not all of it was recorded; `None` where nothing shows that."""
    if trajectory.incomplete is not None:
        return f"it is not whole: {trajectory.incomplete}"
    if trajectory.closed_because in CUT_SHORT:
        return f"it was cut short ({trajectory.closed_because})"
    if trajectory.hidden_turns:
        return f"{trajectory.hidden_turns} of its model calls asked for tools, and which ones was not recorded"
    return None


class RunReader:
    """Makes recorded runs of trajectories. `counts` decides by its name whether a tool's calls are expected."""

    def __init__(self, *, counts: Callable[[str], bool], kinds: ToolKinds, redactor: Redactor, case_key: str) -> None:
        self._counts = counts
        self._kinds = kinds
        self._redactor = redactor
        self._case_key = case_key

    def case_of(self, trajectory: Trajectory) -> Case | None:
        """Return the task of a run; `None` where no attribute names it."""
        return trajectory.attributes.get(self._case_key)

    def read(self, trajectory: Trajectory, traces: Sequence[str], faults: Sequence[Fault]) -> RecordedRun:
        """Make a recorded run."""
        texts = [message.text for message in trajectory.messages if message.role == "user"]
        texts = texts or [run.prompt for run in trajectory.runs if run.prompt and run.above is None]
        # The root of a run repeats the last text: of equal texts the last one counts.
        inputs = list(dict.fromkeys(reversed(texts)))[::-1][:_MAX_INPUTS]
        return RecordedRun(
            trace_id=trajectory.trace_id,
            conversation_id=trajectory.conversation_id,
            case=self.case_of(trajectory),
            service=self._masked(trajectory.service),
            version=self._masked(trajectory.resource.get("service.version")),
            start_ns=trajectory.start_ns,
            traces=tuple(traces),
            calls=tuple(self._calls(trajectory)),
            faults=tuple(faults),
            inputs=tuple(self._redactor.masked(text)[:_MAX_INPUT] for text in inputs),
        )

    def faults(self, results: Sequence[Result]) -> Iterator[Fault]:
        """Yield the results of a trajectory that failed."""
        for result in results:
            if isinstance(result.outcome, Scored) and result.outcome.passed is False:
                yield Fault(
                    criterion=result.criterion,
                    explanation=self._redactor.explain(result.outcome),
                    call=None if result.call is None else key_of(result.call),
                    is_default=result.criterion.startswith("default."),
                )

    def unwritable(self, trajectory: Trajectory) -> str | None:
        """Return which name in a run no file may hold; `None` where all can be written."""
        case = self.case_of(trajectory)
        if case is not None and not self._is_plain(str(case)):
            return "its case looks like a secret or an address"
        names = {call.name for call in without_code(trajectory).calls if self._counts(call.name)}
        return None if all(map(self._is_plain, names)) else "it calls a tool whose name cannot be written"

    def _is_plain(self, name: str) -> bool:
        return bool(name) and is_writable(name) and self._redactor.masked(name) == name

    def _masked(self, text: str | None) -> str | None:
        return None if text is None else self._redactor.masked(text)

    def _calls(self, trajectory: Trajectory) -> Iterator[RecordedCall]:
        freedoms = Freedoms(trajectory, self._redactor)
        for call in without_code(trajectory).calls:
            freedoms.before(call)
            if self._counts(call.name):
                failure = "it was rejected" if call.has_failed else None
                if call.has_failed and call.error is not None:
                    kind = error_words(call.error.kind)
                    failure = "it failed" if kind == "failed" else f"it failed with {self._redactor.masked(kind)}"
                match call.arguments:
                    case Recorded(value=dict() as value):
                        args, unread = value, None
                    case Recorded(value=None):
                        args, unread = {}, None
                    case Recorded():
                        args, unread = None, "its arguments are no object"
                    case NotRecorded(reason="redacted"):
                        args, unread = None, "its arguments were redacted"
                    case NotRecorded():
                        args, unread = None, "its arguments were not recorded"
                    case Unparsed(reason="truncated"):
                        args, unread = None, "its arguments were cut off"
                    case Unparsed():
                        args, unread = None, "its arguments cannot be read"
                if args is not None:
                    unread = freedoms.too_much(args)
                free: Mapping[Place, Freedom] = {}
                if args is not None and unread is None:
                    free = freedoms.of(call, args)
                    args = {name: without_long_texts(value) for name, value in args.items()}
                yield RecordedCall(
                    key=key_of(call),
                    name=call.name,
                    args=args if unread is None else None,
                    unread=unread,
                    free=free,
                    failure=failure,
                )
            if self._kinds.writes(call.name) and not call.has_failed:
                freedoms.note_made(call)
