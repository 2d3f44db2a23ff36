"""What only the history of a later model call tells of a call."""

# pyright: reportUnknownMemberType=false

from collections.abc import Iterator
from typing import ClassVar

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from pydantic import BaseModel

from tests.walk.support import START_NS, Walk, key_value
from toolgauge.config.load import load
from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Level, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.criterion import Criterion
from toolgauge.service.pipeline_factory import make_rules

RUN, CHAT, TOOL, NEXT = b"the--run", b"the-chat", b"the-tool", b"nextchat"


class Seen(BaseModel):
    """Keeps the trajectories that it is given."""

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        del expected
        TRAJECTORIES.append(trajectory)
        yield None, Scored(value=1.0, explanation="seen")


TRAJECTORIES: list[Trajectory] = []


def trajectories(evaluator: Seen, *bodies: bytes) -> list[Trajectory]:
    """Send requests, let everything close, and return what an evaluator saw."""
    TRAJECTORIES.clear()
    criterion = Criterion(name="seen", evaluator_name="seen", evaluator=evaluator, revision="1")
    walk = Walk(criteria=(criterion,))
    for body in bodies:
        walk.send(body)
    walk.wait(1000)
    return [*TRAJECTORIES]


def conversation(answer: str, *, call_id: str | None = "call-1") -> bytes:
    """A run: a model asks for a call, the tool runs, and the next input of the model holds the answer."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add().scope_spans.add()
    identified = f',"id":"{call_id}"' if call_id is not None else ""
    asked = f'[{{"role":"assistant","parts":[{{"type":"tool_call","name":"find","arguments":{{"a":1}}{identified}}}]}}]'
    asking = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": asked}
    ran = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.arguments": '{"a":1}'}
    if call_id is not None:
        ran["gen_ai.tool.call.id"] = call_id
    ended = '[{"role":"assistant","parts":[{"type":"text","content":"it is 42"}]}]'
    told = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": answer, "gen_ai.output.messages": ended}
    spans = ((CHAT, 1, asking), (TOOL, 3, ran), (NEXT, 5, told), (RUN, 0, {"gen_ai.operation.name": "invoke_agent"}))
    for span_id, start, keys in spans:
        span = Span(
            trace_id=b"one-trace-of-all",
            span_id=span_id,
            parent_span_id=b"" if span_id == RUN else RUN,
            start_time_unix_nano=START_NS + start,
            end_time_unix_nano=START_NS + (9 if span_id == RUN else start + 1),
            status=Status(code=Status.STATUS_CODE_UNSET),
        )
        span.attributes.extend(key_value(key, value) for key, value in keys.items())
        group.spans.append(span)
    return request.SerializeToString()


ANSWER = '[{"role":"tool","parts":[{"type":"tool_call_response","id":"call-1","response":"42"%s}]}]'


@pytest.mark.parametrize("mark", [',"is_error":true', ',"isError":true', ',"status":"error"', ',"is_\\u0065rror":true'])
def test_a_failure_that_only_the_history_tells_is_not_missed(mark: str):
    (trajectory,) = trajectories(Seen(), conversation(ANSWER % mark))
    (call,) = trajectory.calls
    assert call.error is not None


def test_calls_without_ids_are_still_found_by_their_arguments():
    (trajectory,) = trajectories(Seen(), conversation(ANSWER.replace('"id":"call-1",', "") % "", call_id=None))
    (call,) = trajectory.calls
    assert (call.name, call.state) == ("find", "executed")
    assert call.requested_by is not None
    assert call.executed_by is not None


def test_a_conversation_that_a_criterion_asks_for_later_holds_the_spans_of_open_traces():
    walk = Walk()
    body = ExportTraceServiceRequest.FromString(conversation(ANSWER % ""))
    for span in body.resource_spans[0].scope_spans[0].spans:
        span.attributes.append(key_value("gen_ai.conversation.id", "a conversation"))
    walk.send(body.SerializeToString())
    TRAJECTORIES.clear()
    criterion = Criterion(name="seen", evaluator_name="seen", evaluator=Seen(), revision="1", scope="conversation")
    walk.pipeline.adopt(
        make_rules(
            load((), (), {}), (criterion,), walk.metrics, running=load((), (), {}), read=walk.pipeline.scorer.wanted
        )
    )
    walk.wait(1000)
    (trajectory,) = TRAJECTORIES
    assert (trajectory.scope, trajectory.conversation_id, len(trajectory.calls)) == (
        "conversation",
        "a conversation",
        1,
    )
