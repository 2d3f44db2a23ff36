"""Strands Agents 1.62.0: what its tracer writes by default and with the latest conventions."""

from tests.recognize.support import CORPUS, event, observations, recorded, records, seen, span
from tests.rows import each_row
from toolgauge.dialects.amazon import Strands
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.json import Json
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
from toolgauge.testing.dialects import check_dialect

SCOPE = "strands.telemetry.tracer"
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.id": "1"}
LIMA: Json = {"city": "Lima", "unit": "celsius"}
WEATHER: Json = {"city": "Lima", "temp": 18.25, "unit": "celsius"}
NAMES = ("get_user", "get_weather", "send_email", "create_order", "flaky_lookup", "delete_file")


def test_default_form_is_read_from_the_message_events():
    readings = recorded(Strands(), "strands/unknown_tool.otlp.pb")

    assert seen(readings, CallRequested) == [
        CallRequested(position=0, name="get_wether", call_id="call_56e27d59", arguments=Recorded({"city": "Lima"})),
        CallRequested(position=0, name="get_weather", call_id="call_f519f70a", arguments=Recorded(LIMA)),
    ]
    assert seen(readings, CallExecuted) == [
        CallExecuted(
            name="get_wether",
            call_id="call_56e27d59",
            arguments=Recorded({"city": "Lima"}),
            result=Recorded("Unknown tool: get_wether"),
            error=CallError(kind="Exception", message="Unknown tool: get_wether"),
        ),
        CallExecuted(name="get_weather", call_id="call_f519f70a", arguments=Recorded(LIMA), result=Recorded(WEATHER)),
    ]
    assert seen(readings, AgentRun) == [AgentRun(agent="assistant")]
    assert len(seen(readings, ModelCall)) == 3
    refused = CallError(kind="_OTHER", message="Unknown tool: get_wether")
    assert set(map(repr, seen(readings, CallAnswered))) == {
        repr(CallAnswered(call_id="call_56e27d59", result=Recorded("Unknown tool: get_wether"), error=refused)),
        repr(CallAnswered(call_id="call_f519f70a", result=Recorded(WEATHER))),
    }


def test_default_form_tells_the_names_of_the_tools_and_the_schemas_of_those_that_ran():
    offers = seen(recorded(Strands(), "strands/one_call.otlp.pb"), ToolsOffered)
    by_size = {len(offer.tools): offer for offer in offers if isinstance(offer, ToolsOffered)}
    assert by_size[6] == ToolsOffered(tools=tuple(ToolDefinition(name=name) for name in NAMES))
    (ran,) = by_size[1].tools
    assert (ran.name, ran.description) == ("get_weather", "Current weather of a city.")
    assert ran.parameters is not None
    assert ran.parameters["required"] == ["city"]


def test_latest_form_is_read_from_its_events_and_attributes():
    readings = recorded(Strands(), "strands/bad_json_latest.otlp.pb")

    assert seen(readings, CallRequested) == [
        CallRequested(position=0, name="get_weather", call_id="call_cfc0641d", arguments=Recorded({})),
        CallRequested(position=0, name="get_weather", call_id="call_6df7ddce", arguments=Recorded(LIMA)),
    ]
    failed, fine = seen(readings, CallExecuted)
    assert isinstance(failed, CallExecuted)
    assert failed.error is not None
    assert failed.error.kind == "ValueError"
    assert fine == CallExecuted(
        name="get_weather", call_id="call_6df7ddce", arguments=Recorded(LIMA), result=Recorded(WEATHER)
    )
    (offer,) = {repr(offer) for offer in seen(readings, ToolsOffered) if "get_user" in repr(offer)}
    assert "'required': ['user_id']" in offer
    assert "'json'" not in offer


def test_texts_are_what_was_said_once_without_blocks():
    readings = recorded(Strands(), "strands/one_call.otlp.pb")
    texts = {(seen_.role, seen_.text) for seen_ in seen(readings, MessageSeen) if isinstance(seen_, MessageSeen)}
    assert ("system", "You are a helpful assistant.") in texts
    assert ("user", "What is the weather in Lima?") in texts
    assert not [text for _, text in texts if "{" in text]


def test_a_session_that_the_application_sets_is_the_conversation():
    readings = recorded(Strands(), "strands/double_sequence3.otlp.pb")
    assert set(seen(readings, ConversationSeen)) == {ConversationSeen(conversation_id="sess-double", rank=1)}


@each_row(
    ("blocks", "result"),
    [
        ('[{"text": "20"}]', Recorded(20)),
        ('[{"text": "plain"}]', Recorded("plain")),
        ('[{"json": {"a": 1}}]', Recorded({"a": 1})),
        ('[{"text": "one"}, {"text": "two"}]', Recorded(["one", "two"])),
        ('[{"document": {"name": "x"}}]', Recorded([{"document": {"name": "x"}}])),
        ('[{"text": "cut of', Recorded('[{"text": "cut of')),
        ("[]", Recorded([])),
        (None, NOT_RECORDED),
    ],
)
def test_results_are_taken_out_of_their_blocks(blocks: str | None, result: object):
    events = [event("gen_ai.choice", {"message": blocks, "id": "1"})]
    assert observations(Strands(), span(TOOL, events=events, scope=SCOPE)) == [
        CallExecuted(name="f", call_id="1", result=result)  # pyright: ignore[reportArgumentType] - contents of all kinds
    ]


def test_broken_arguments_stay_text():
    events = [event("gen_ai.tool.message", {"role": "tool", "content": '{"city": ', "id": "1"})]
    assert observations(Strands(), span(TOOL, events=events, scope=SCOPE)) == [
        CallExecuted(name="f", call_id="1", arguments=Unparsed('{"city": '))
    ]


def test_a_tool_that_answers_with_an_error_has_failed_though_its_span_went_well():
    events = [event("gen_ai.choice", {"message": '[{"text": "no such city"}]'})]
    told = span({**TOOL, "gen_ai.tool.status": "error"}, events=events, scope=SCOPE, status="ok")
    assert observations(Strands(), told) == [
        CallExecuted(
            name="f",
            call_id="1",
            result=Recorded("no such city"),
            error=CallError(kind="_OTHER", message="no such city"),
        )
    ]


@each_row("value", ["{", "[[[", '[{"toolUse": 7}]', '[{"toolUse": {"name": 3}}, null, 5]', 7, ["a"]])
def test_broken_blocks_are_no_calls(value: str | int | list[str]):
    chat = {"gen_ai.operation.name": "chat"}
    events = [event("gen_ai.choice", {"message": value}), event("gen_ai.tool.message", {"content": value})]
    found = observations(Strands(), span(chat, events=events, scope=SCOPE))
    assert not [one for one in found if isinstance(one, CallRequested)]


def test_spans_of_others_are_left_to_others():
    assert not Strands().claims(span(TOOL, scope="somebody.else"))
    assert Strands().claims(span({**TOOL, "gen_ai.system": "strands-agents"}, scope="wrapped"))


def test_it_keeps_the_contract():
    captures = sorted(f"strands/{path.name}" for path in (CORPUS / "strands").glob("*.otlp.pb"))
    check_dialect(Strands(), records(Strands(), *captures))
