"""Recorded runs whose upper spans are traced elsewhere, or filtered out on the way, are whole all the same."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec.structs import replace

from tests.assemble.support import SECOND_NS, no_history
from tests.captures import Captured, all_captures
from tests.property.test_half_runs import recorded
from tests.rows import each_row
from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.observations import AgentRun, CallExecuted, ModelCall, Reading
from toolgauge.model.records import PackedHead
from toolgauge.model.trajectory import Trajectory
from toolgauge.selfmetrics import SelfMetrics

_Found: TypeAlias = list[Reading | PackedHead]
HOUR_NS = 3600 * SECOND_NS
# A model call alone below a span that is filtered out, in a service whose other traces show the parents of their spans.
WAITING_IN_VAIN = {"litellm": 1}
# Models that ran after the span of the agent's run had ended, with nothing between that shows whose they are.
ENDS_EARLY = {"traceloop-llama-index": 2}


def filtered(found: _Found) -> _Found:
    """Leave what a Collector passes on that drops all but the spans of agents, models and tools."""
    return [
        one
        for one in found
        if isinstance(one, Reading)
        and any(isinstance(seen, AgentRun | ModelCall | CallExecuted) for seen in one.observations)
    ]


def without_flags(found: _Found) -> _Found:
    return [replace(one, parent_is_remote=None) if isinstance(one, Reading) else one for one in found]


ARRIVING: dict[str, Callable[[_Found], _Found]] = {
    "as recorded": list,
    "without flags": without_flags,
    "filtered": filtered,
    "filtered, without flags": lambda found: filtered(without_flags(found)),
}


def lacks_parents(found: _Found) -> bool:
    spans = [one for one in found if isinstance(one, Reading) and not one.is_log]
    arrived = {one.ref.span_id for one in spans}
    return any(one.parent_span_id is not None and one.parent_span_id not in arrived for one in spans)


def closed(traces: Iterable[_Found], arriving: str, *, at_shutdown: bool) -> list[Trajectory]:
    box = filled(map(ARRIVING[arriving], traces), conversations=False)
    return [*(box.close_all(1) if at_shutdown else box.closed(HOUR_NS))]


def filled(traces: Iterable[_Found], *, conversations: bool) -> Assembler:
    box = Assembler(AssembleSettings(), SelfMetrics(MetricRegistry()), no_history, conversations=conversations)
    for spans in traces:
        for one in spans:
            if isinstance(one, Reading):
                box.add(one, 0)
            else:
                box.add_heads([one], 0)
    return box


def conversations(traces: Iterable[_Found]) -> list[Trajectory]:
    box = filled(traces, conversations=True)
    found = [*box.closed(HOUR_NS), *box.closed(2 * HOUR_NS)]
    return [one for one in found if one.scope == "conversation"]


def test_nothing_is_half_a_run_for_want_of_spans_that_never_come(captured: Captured):
    traces = recorded(captured)
    for arriving in ARRIVING:
        found = closed(traces.values(), arriving, at_shutdown=False)
        assert found, arriving
        half = [one for one in found if one.incomplete]
        assert len(half) <= (WAITING_IN_VAIN.get(captured.folder, 0) if arriving.startswith("filtered") else 0), (
            arriving
        )
        assert [one.trace_id for one in half if one.calls] == [], arriving


def test_runs_of_agents_that_have_ended_are_whole_at_shutdown(captured: Captured):
    traces = recorded(captured)
    for arriving in ARRIVING:
        found = closed(traces.values(), arriving, at_shutdown=True)
        half = {one.trace_id for one in found if one.incomplete}
        runs = [one.trace_id for one in found if one.trace_id in half and one.has_agent_run]
        if not arriving.startswith("filtered"):
            assert half == set(), arriving
            continue
        assert len(runs) <= ENDS_EARLY.get(captured.folder, 0), arriving
        # Models and tools without an agent, below a span of another kind: whether that has ended, nothing shows without it.
        assert half <= {trace_id for trace_id, spans in traces.items() if lacks_parents(filtered(spans))}, arriving


def test_recorded_conversations_are_whole(captured: Captured):
    assert [one.trace_id for one in conversations(recorded(captured).values()) if one.incomplete] == []


@each_row("folder", ["google-adk", "otel-util-genai", "pydantic-ai", "strands", "vercel-ai"])
def test_without_their_first_turn_they_are_half_conversations(folder: str):
    traces = recorded(all_captures()[folder])
    whole = next(
        one
        for one in conversations(traces.values())
        if len({call.span.trace_id for call in one.calls}) > 1 and one.has_beginning
    )
    first = whole.calls[0].span.trace_id
    rest = conversations(spans for trace_id, spans in traces.items() if trace_id != first)
    (half,) = [one for one in rest if one.conversation_id == whole.conversation_id]
    assert half.incomplete == "a model was given answers to calls of earlier turns, of which no span came"
