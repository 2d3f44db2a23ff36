"""The dialect keeps toolgauge's contract and reads what Acme writes.

Record your own producer instead: point its OTLP exporter at a file or a Collector, and decode the bytes as here.
"""

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode
from toolgauge_dialect_acme import Acme

from toolgauge.model.content import Recorded
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    ToolDefinition,
    ToolsOffered,
)
from toolgauge.model.records import Span
from toolgauge.testing.dialects import check_dialect, decoded

CALLS = (
    '[{"id": "c1", "tool": "find_order", "input": {"order_id": "A-17"}}, {"tool": "refund", "input": "{\\"a\\": 1}"}]'
)


MESSAGES = (
    '[{"role": "user", "content": "Where is my order?"},'
    ' {"role": "assistant", "tool_calls": [{"id": "c0", "function": {"name": "look", "arguments": "{}"}}]},'
    ' {"role": "tool", "tool_call_id": "c0", "content": "found"}]'
)


def recorded() -> bytes:
    """One run of an agent, as its exporter sends it."""
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    start = provider.get_tracer("acme").start_as_current_span
    with start("run", attributes={"acme.step": "run", "acme.agent": "support", "acme.thread": "t-1"}):
        model = {"acme.step": "llm", "acme.llm.messages": MESSAGES, "acme.llm.tools": '[{"name": "find_order"}]'}
        with start(
            "llm",
            attributes={
                **model,
                "acme.llm.calls": CALLS,
                "acme.llm.answer": '{"role": "assistant", "content": "I look."}',
            },
        ):
            pass
        tool = {"acme.step": "tool", "acme.tool": "find_order", "acme.tool.id": "c1", "acme.agent": "support"}
        with start("tool", attributes={**tool, "acme.tool.input": '{"order_id": "A-17"}'}) as span:
            span.set_status(Status(StatusCode.ERROR, "no such order"))
    return encode_spans(memory.get_finished_spans()).SerializeToString()


def spans() -> list[Span]:
    """Decode the recording as toolgauge does."""
    return decoded(Acme(), recorded())


def test_the_contract_is_kept():
    check_dialect(Acme(), spans())


def test_every_step_is_read():
    llm, tool, run = (list(Acme().read(span)) for span in spans())
    assert run == [ConversationSeen(conversation_id="t-1", rank=2), AgentRun(agent="support")]
    assert llm == [
        ModelCall(agent=None),
        ToolsOffered(tools=(ToolDefinition(name="find_order"),)),
        CallAnswered(call_id="c0", result=Recorded("found")),
        MessageSeen(role="user", text="Where is my order?"),
        CallRequested(position=0, name="find_order", call_id="c1", arguments=Recorded({"order_id": "A-17"})),
        CallRequested(position=1, name="refund", arguments=Recorded({"a": 1})),
        MessageSeen(role="assistant", text="I look."),
    ]
    (executed,) = tool
    assert isinstance(executed, CallExecuted)
    assert (executed.name, executed.call_id, executed.agent) == ("find_order", "c1", "support")
    assert executed.error == CallError(kind="error", message="no such order")
