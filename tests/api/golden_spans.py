"""Golden cases as runs of an agent: spans of the SDK, and the criteria that judge each of them."""

import json
import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import set_span_in_context

from tests.golden.goldens import Golden
from toolgauge.cases.actual import trajectory_of
from toolgauge.cases.expectations import expected_of
from toolgauge.model.content import Recorded
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.trajectory import ToolCall, Trajectory

CASE = "case.id"
_SECOND = 1_000_000_000


def criterion_name(golden: Golden) -> str:
    return golden.case.name.replace("/", ".").lower()


def written_criterion(golden: Golden) -> JsonObject:
    """Write the criterion as it would stand in a file."""
    case = golden.case
    written: JsonObject = {
        "name": criterion_name(golden),
        "evaluator": case.evaluator,
        "when": {"attributes": {CASE: case.name}},
        "pass_at": case.pass_at,
        **case.config,
    }
    expected = expected_of(case.expected)
    return written if expected is None else {**written, **_expected(expected)}


def _expected(expected: Expected) -> JsonObject:
    turns: list[Json] = [[_expected_call(call) for call in turn] for turn in expected.turns]
    return {"expected_turns": turns} if expected.per_turn else {"expected": turns[0] if turns else []}


def _expected_call(call: ExpectedCall) -> Json:
    return {"name": call.name, **({} if call.args is None else {"args": call.args})}


def is_sendable(golden: Golden) -> bool:
    """Return whether JSON, and so a span, can hold all of the case."""
    return _is_finite(golden.case.actual) and _is_finite(golden.case.expected)


def _is_finite(value: Json) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(_is_finite, value.values()))
        case list():
            return all(map(_is_finite, value))
        case _:
            return True


def spans_of(goldens: Sequence[Golden]) -> tuple[ReadableSpan, ...]:
    """Run an agent once for each case, as an instrumented application would have done."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("golden")
    for number, golden in enumerate(goldens):
        clock = iter(range(1_700_000_000 + number * 1_000, 1_700_000_999 + number * 1_000))
        root = tracer.start_span(
            "invoke_agent a",
            start_time=next(clock) * _SECOND,
            attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a", CASE: golden.case.name},
        )
        inside = set_span_in_context(root)
        for name, attributes in _steps(trajectory_of(golden.case.actual)):
            tracer.start_span(name, inside, start_time=next(clock) * _SECOND, attributes=attributes).end(
                next(clock) * _SECOND
            )
        root.end(next(clock) * _SECOND)
    return exporter.get_finished_spans()


def _steps(trajectory: Trajectory) -> Iterator[tuple[str, dict[str, str]]]:
    for _, group in groupby(trajectory.calls, key=lambda call: call.turn):
        calls = list(group)
        parts = [
            {"type": "tool_call", "id": f"call-{call.order}", "name": call.name, "arguments": _arguments(call)}
            for call in calls
        ]
        output = json.dumps([{"role": "assistant", "parts": parts, "finish_reason": "tool_call"}])
        yield "chat m", {"gen_ai.operation.name": "chat", "gen_ai.output.messages": output}
        for call in calls:
            yield (
                f"execute_tool {call.name}",
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": call.name,
                    "gen_ai.tool.call.id": f"call-{call.order}",
                    "gen_ai.tool.call.arguments": json.dumps(_arguments(call)),
                },
            )


def _arguments(call: ToolCall) -> Json:
    match call.arguments:
        case Recorded(value=value):
            return value
        case _:
            return {}
