"""Looks at the calls of runs that have not ended, for criteria that notify people: a loop of hours is found when it begins.

Spans of calls come in; notices leave. Nothing is scored: counts for each open trace are shown to evaluators that have
`while_open`. Each instrumentation of a run is counted on its own, so that doubled spans do not double a count.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import cast

from msgspec import Struct

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import canonical
from toolgauge.model.notices import Counts, LooksAtOpenRuns, Notice, OpenCall
from toolgauge.model.observations import CallExecuted, Reading
from toolgauge.score.contracts import ToolKinds
from toolgauge.score.criterion import Criterion
from toolgauge.score.effects import does_once_more
from toolgauge.score.patterns import Globs
from toolgauge.score.recorded_values import Contents, lasting, result_value

# Traces, the least recently heard of forgotten first; different calls and tools of one, later ones are not counted.
_MAX_RUNS, _MAX_CALLS = 5_000, 500
# So much of a text is compared.
_MAX_RESULT = 20_000


class _Same(Struct):
    """Identical calls: how many, how many with an effect, the last of them, and the results with nothing changed in between."""

    identical: int = 0
    effects: int = 0
    changes: int = -1
    result: int | None = None
    contents: Contents | None = None
    end_ns: int = 0


class _Run(Struct):
    start_ns: int
    end_ns: int = 0
    changes: int = 0
    calls: dict[Hashable, _Same] = {}
    by_tool: dict[str, Counts] = {}


def looks_at_open_runs(criterion: Criterion) -> bool:
    """Return whether a criterion can be judged before its run has ended: only if service and agent decide where it applies.

    Evaluators of plug-ins are not asked: this thread has no deadline for them.
    """
    is_plain = not criterion.when.attributes and criterion.when.case is None and criterion.sample == 1
    is_ours = type(criterion.evaluator).__module__.startswith("toolgauge.")
    return is_plain and is_ours and criterion.enforce == "live" and hasattr(criterion.evaluator, "while_open")


class OpenRuns:
    """The calls of open runs, by trace and instrumentation. Belongs to one thread."""

    def __init__(self, criteria: Sequence[Criterion], kinds: ToolKinds) -> None:
        self._kinds = kinds
        # Criteria, and the globs for services and agents whose runs they are for; `None` is for all.
        self._rules: list[tuple[Criterion, Sequence[Globs | None]]] = []
        for one in filter(looks_at_open_runs, criteria):
            globs = [None if glob is None else Globs([glob]) for glob in (one.when.service, one.when.agent)]
            self._rules.append((one, globs))
        self._runs: dict[str, dict[str, _Run]] = {}
        # Criteria that were announced, by trace.
        self._announced: dict[str, set[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def forget(self, trace_id: str) -> None:
        """Forget a run that was closed."""
        self._runs.pop(trace_id, None)
        self._announced.pop(trace_id, None)

    def add(self, reading: Reading, now_ns: int) -> Iterator[Notice]:
        """Count the calls that a span shows; yield the criteria that their run fails already, each once."""
        for seen in reading.observations:
            if type(seen) is CallExecuted:
                call = self._counted(reading, seen)
                if call is not None:
                    yield from self._notices(reading, seen, call, now_ns)

    def _counted(self, reading: Reading, seen: CallExecuted) -> OpenCall | None:
        """Count a call; `None` for one that was seen before, or made at the same time as an equal one."""
        trace_id = reading.ref.trace_id
        # Taken out and put back: the least recently used comes first.
        runs = self._runs[trace_id] = self._runs.pop(trace_id, {})
        if len(self._runs) > _MAX_RUNS:
            self.forget(next(iter(self._runs)))
        run = runs.setdefault(reading.scope, _Run(reading.start_ns))
        name, has_worked, writes = seen.name, seen.error is None, self._kinds.writes(seen.name)
        # Equal arguments share a key; arguments that were not recorded have none.
        key: int | None = None
        if isinstance(seen.arguments, Recorded):
            key = hash(canonical(seen.arguments.value))
        elif isinstance(seen.arguments, Unparsed):
            key = hash(seen.arguments.text)
        same = None if key is None else run.calls.get((seen.agent, name, key))
        if same is None:
            same = _Same()
            if key is not None and len(run.calls) < _MAX_CALLS:
                run.calls[seen.agent, name, key] = same
        elif reading.start_ns < same.end_ns:
            return None
        run.start_ns, run.end_ns = min(run.start_ns, reading.start_ns), max(run.end_ns, reading.end_ns)
        result = _result(seen.result)
        is_apart = same.changes != run.changes
        has_changed = has_worked and writes and result != same.result
        if is_apart or same.contents is None:
            same.contents = Contents()
        # An unknown result does not count as progress.
        is_new = has_worked and result is not None and same.contents.add(seen.result, result, (name, seen.arguments))
        same.identical = 1 if is_apart or is_new else same.identical + 1
        same.effects = (0 if is_apart else same.effects) + (has_worked and writes)
        if has_worked and ((writes and (is_apart or has_changed)) or self._kinds.pauses(name)):
            run.changes += 1
        same.changes, same.result, same.end_ns = run.changes, result, max(same.end_ns, reading.end_ns)
        calls, failed = run.by_tool.get(name, (0, 0))
        if calls or len(run.by_tool) < _MAX_CALLS:
            run.by_tool[name] = calls + 1, failed + (not has_worked)
        arguments = seen.arguments.value if isinstance(seen.arguments, Recorded) else None
        return OpenCall(
            name=name,
            writes=writes,
            once_more=does_once_more(name, self._kinds),
            may_repeat=self._kinds.may_repeat(name),
            has_worked=has_worked,
            arguments=arguments if isinstance(arguments, dict) else None,
            identical=same.identical,
            effects=same.effects,
            by_tool=run.by_tool,
            elapsed_ns=run.end_ns - run.start_ns,
        )

    def _notices(self, reading: Reading, seen: CallExecuted, call: OpenCall, now_ns: int) -> Iterator[Notice]:
        for criterion, globs in self._rules:
            pairs = zip(globs, (reading.service, seen.agent), strict=True)
            if criterion.name in self._announced.get(reading.ref.trace_id, ()) or not all(
                glob is None or (name is not None and glob.match(name)) for glob, name in pairs
            ):
                continue
            explanation = cast("LooksAtOpenRuns", criterion.evaluator).while_open(call)
            if explanation is not None:
                self._announced.setdefault(reading.ref.trace_id, set()).add(criterion.name)
                yield Notice(
                    service=reading.service,
                    agent=seen.agent,
                    tool=seen.name if criterion.evaluator.level == "call" else None,
                    criterion=criterion.name,
                    trace_id=reading.ref.trace_id,
                    explanation=explanation,
                    at_ns=now_ns,
                    is_open=True,
                    is_marked=criterion.notify,
                )


def _result(content: Content) -> int | None:
    """Return a hash that equal results share, apart from times and counters; `None` where none was recorded."""
    match content:
        case Recorded(value=str() as text) | Unparsed(text=text):
            return lasting(text[:_MAX_RESULT])
        case Recorded(value=value):
            return lasting(result_value(value))
        case NotRecorded():
            return None
