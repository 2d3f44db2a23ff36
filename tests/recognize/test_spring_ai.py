"""Spring AI 1.1 and 2.0 as they left through Micrometer and OTLP, and forms of their spans by hand."""

from tests.recognize.support import log, observations, other_error, span
from tests.rows import each_row
from toolgauge.dialects.javascript_and_java import SpringAI
from toolgauge.model.content import Content, Recorded, Unparsed
from toolgauge.model.json import Value
from toolgauge.model.observations import AgentRun, CallExecuted

TOOL: dict[str, Value] = {"spring.ai.kind": "tool_call", "spring.ai.tool.definition.name": "add"}


@each_row(
    ("written", "result"),
    [
        ("no such order", Unparsed("no such order")),
        ('"no such order"', Recorded("no such order")),
        ("21.5", Recorded(21.5)),
        ("", Recorded("")),
        ('{"pages": 1', Recorded('{"pages": 1')),
    ],
)
def test_bare_text_is_no_result_in_json(written: str, result: Content):
    (call, _) = observations(SpringAI(), span(TOOL | {"spring.ai.tool.call.result": written}, status="ok"))
    assert call == CallExecuted(name="add", result=result)


def test_a_tool_that_ends_the_run_failed():
    (call, _) = observations(SpringAI(), span(TOOL, status="error", status_message="no connection"))
    assert call == CallExecuted(name="add", error=other_error("no connection"))


@each_row("names", ["", "[", "{}", '["", 1]', "add, take", None])
def test_names_in_another_form_offer_nothing(names: Value):
    attributes = {"spring.ai.kind": "chat_client", "spring.ai.chat.client.tool.names": names}
    assert observations(SpringAI(), span(attributes)) == [AgentRun(agent=None)]


def test_model_calls_without_tools_and_log_records_are_not_claimed():
    assert not SpringAI().claims(span({"gen_ai.operation.name": "chat"}))
    assert not SpringAI().claims(log("x", attributes={"spring.ai.kind": "tool_call"}))
