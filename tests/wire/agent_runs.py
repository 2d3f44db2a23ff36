"""Runs of an agent as an SDK exports them: children first, the root last, in batches; and what is true of each.

An agent handles an order in five calls. Every third one forgets to notify the customer, and asks for the order once more.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span, Status

TOOLS = ("find_order", "check_stock", "issue_refund", "notify_customer", "close_case")
_FORGETFUL = ("find_order", "check_stock", "find_order", "issue_refund", "close_case")
# What judges the whole: who did everything passes the first three, who was forgetful fails them.
CRITERIA = """
criteria:
  - {name: whole-f1, evaluator: tool_call_f1, expected: [{name: find_order}, {name: check_stock}, {name: issue_refund}, {name: notify_customer}, {name: close_case}]}
  - {name: whole-order, evaluator: tool_call_order, expected: [{name: find_order}, {name: check_stock}, {name: issue_refund}, {name: notify_customer}, {name: close_case}]}
  - {name: whole-count, evaluator: tool_call_count, counts: {notify_customer: 1, find_order: 1}}
"""
JUDGING_THE_WHOLE = ("whole-f1", "whole-order", "whole-count")


@dataclass(frozen=True)
class AgentRun:
    """One run that lasted from `start_ns` to `end_ns`."""

    number: int
    start_ns: int
    end_ns: int
    trace: int = 0

    @property
    def trace_id(self) -> bytes:
        return (self.trace << 64 | self.number + 1).to_bytes(16, "big")

    @property
    def is_forgetful(self) -> bool:
        return self.number % 3 == 0

    @property
    def truth(self) -> str:
        """The outcome of every criterion that judges the whole."""
        return "fail" if self.is_forgetful else "pass"

    def spans(self) -> list[Span]:
        """Return all spans in the order in which they ended."""
        tools = _FORGETFUL if self.is_forgetful else TOOLS
        spans: list[Span] = []
        history: list[object] = [
            _message("user", {"type": "text", "content": f"I want my money back for order {self.number}."})
        ]
        step_ns = (self.end_ns - self.start_ns) // (len(tools) + 1)
        for turn, tool in enumerate(tools):
            at_ns = self.start_ns + turn * step_ns
            call = {
                "type": "tool_call",
                "id": f"call_{self.number}_{turn}",
                "name": tool,
                "arguments": {"order": self.number},
            }
            asked = _message("assistant", call)
            spans.append(self._chat(turn, at_ns, step_ns * 3 // 4, history, asked, "tool_call"))
            spans.append(self._tool(turn, at_ns + step_ns * 3 // 4 + 1, step_ns // 8, tool, call["id"]))
            answer = {"type": "tool_call_response", "id": call["id"], "result": {"order": self.number}}
            history = [*history, asked, _message("tool", answer)]
        at_ns = self.start_ns + len(tools) * step_ns
        said = _message("assistant", {"type": "text", "content": "It is done."})
        # It ends with the run: both leave in one batch.
        spans.append(self._chat(len(tools), at_ns, self.end_ns - at_ns, history, said, "stop"))
        spans.append(
            self._span(
                0,
                "invoke_agent clerk",
                self.start_ns,
                self.end_ns - self.start_ns,
                {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk"},
            )
        )
        return spans

    def _chat(self, turn: int, at_ns: int, length_ns: int, history: Sequence[object], output: object, why: str) -> Span:
        values = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(history),
            "gen_ai.output.messages": json.dumps([output]),
            "gen_ai.response.finish_reasons": why,
        }
        return self._span(2 * turn + 1, "chat model", at_ns, length_ns, values)

    def _tool(self, turn: int, at_ns: int, length_ns: int, tool: str, call_id: object) -> Span:
        values = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": str(call_id),
            "gen_ai.tool.call.arguments": json.dumps({"order": self.number}),
            "gen_ai.tool.call.result": json.dumps({"order": self.number}),
        }
        return self._span(2 * turn + 2, f"execute_tool {tool}", at_ns, length_ns, values)

    def _span(self, place: int, name: str, at_ns: int, length_ns: int, values: dict[str, str]) -> Span:
        return Span(
            trace_id=self.trace_id,
            span_id=(place + 1).to_bytes(8, "big"),
            parent_span_id=b"" if place == 0 else (1).to_bytes(8, "big"),
            # Sampled, and it is known that the parent is in the same process.
            flags=0x101,
            name=name,
            start_time_unix_nano=at_ns,
            end_time_unix_nano=at_ns + length_ns,
            attributes=pairs(values),
        )


def run_of(
    number: int,
    *tools: str,
    failing: str = "",
    start_ns: int = 1,
    run: Mapping[str, str] | None = None,
    call: Mapping[str, str] | None = None,
) -> list[Span]:
    """A run that calls these tools, one of which may fail, with more attributes of the run's span and of its calls'."""
    trace_id, root_id = number.to_bytes(16, "big"), (1).to_bytes(8, "big")
    spans = [Span(span_id=root_id, name="invoke_agent")]
    spans[0].attributes.extend(pairs({"gen_ai.operation.name": "invoke_agent", **(run or {})}))
    for place, tool in enumerate(tools, 2):
        span = Span(span_id=place.to_bytes(8, "big"), parent_span_id=root_id, name=f"execute_tool {tool}")
        values = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, **(call or {})}
        if tool == failing:
            span.status.code = Status.STATUS_CODE_ERROR
            values["error.type"] = "TimeoutError"
        span.attributes.extend(pairs(values))
        spans.append(span)
    for place, span in enumerate(spans):
        span.trace_id, span.start_time_unix_nano = trace_id, start_ns + place
        span.end_time_unix_nano = span.start_time_unix_nano + (1 if place else 900_000)
    return spans


def pairs(values: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in values.items()]


def request(spans: Sequence[Span], service: str = "shop", **resource: str) -> bytes:
    """Put spans into one export request; more attributes of the resource have `_` for their points."""
    exported = ExportTraceServiceRequest()
    group = exported.resource_spans.add()
    values = {"service.name": service, **{name.replace("_", "."): value for name, value in resource.items()}}
    group.resource.attributes.extend(pairs(values))
    group.scope_spans.append(ScopeSpans(spans=spans))
    return exported.SerializeToString()


def batches(spans: Sequence[Span], count: int) -> Iterator[list[Span]]:
    """Cut spans into so many batches that follow each other."""
    size = -(-len(spans) // count)
    for first in range(0, len(spans), size):
        yield list(spans[first : first + size])


def _message(role: str, *parts: object) -> dict[str, object]:
    return {"role": role, "parts": list(parts)}
