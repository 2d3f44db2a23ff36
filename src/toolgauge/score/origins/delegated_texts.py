"""Texts that an agent gave to a sub-agent, which reads them as its user's, although a model wrote them."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter

from msgspec.structs import replace

from toolgauge.model.content import Recorded
from toolgauge.model.json import leaves
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Run, ToolCall, Trajectory

# So many calls that began before a run are looked at for the one that started it.
_MAX_CALLS = 64
_START = attrgetter("start_ns")


def without_delegated(trajectory: Trajectory) -> Trajectory:
    """Take the texts that agents wrote out of the messages and prompts of their sub-agents."""
    # Rule: an argument of several words of the call around a sub-agent is its caller's, unless the caller was given the same words.
    if len(trajectory.runs) <= 1:
        return trajectory
    runs = {run.span: run for run in trajectory.runs}
    inner = [run for run in trajectory.runs if run.is_agent and run.above in runs]
    if not inner:
        return trajectory
    calls: defaultdict[SpanRef | None, list[ToolCall]] = defaultdict(list)
    for call in sorted(trajectory.calls, key=_START):
        calls[call.run].append(call)
    times = [message.time_ns for message in trajectory.messages]
    texts = [message.text for message in trajectory.messages]
    for run in inner:
        above = runs[run.above] if run.above is not None else run
        written = [text for text in _arguments(run, calls[run.above]) if text not in (above.prompt or text)]
        if not written:
            continue
        for place in range(bisect_left(times, run.start_ns), bisect_right(times, run.end_ns)):
            texts[place] = _without(texts[place], written)
        runs[run.span] = replace(run, prompt=_without(run.prompt or "", written))
    messages = [replace(one, text=text) for one, text in zip(trajectory.messages, texts, strict=True)]
    return replace(trajectory, messages=tuple(messages), runs=tuple(runs.values()))


def ran_within(run: Run, call: ToolCall) -> bool:
    """Return whether a sub-agent of the agent that made the call ran while the call did."""
    is_below = run.is_agent and run.span != call.run and run.above == call.run
    return is_below and call.start_ns <= run.start_ns and run.end_ns <= call.end_ns


def _arguments(run: Run, calls: Sequence[ToolCall]) -> list[str]:
    """Return the texts of several words in the arguments of the calls within which a run lies."""
    started = calls[: bisect_right(calls, run.start_ns, key=_START)][-_MAX_CALLS:]
    found: list[str] = []
    for call in started:
        if ran_within(run, call) and isinstance(call.arguments, Recorded):
            texts = [leaf.strip() for leaf in leaves(call.arguments.value) if isinstance(leaf, str)]
            found += [text for text in texts if len(text.split(None, 1)) > 1]
    return found


def _without(text: str, written: Sequence[str]) -> str:
    for one in written:
        text = text.replace(one, " ")
    return text.strip()
