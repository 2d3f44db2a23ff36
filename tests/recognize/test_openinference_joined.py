"""Recordings of OpenInference's instrumentations, read and joined: the calls that were really made.

The files in `cases/openinference` name the instrumentation and its version. Beside it ran google-adk 2.13, dspy,
portkey-ai, google-genai, beeai-framework, litellm, mistralai (newest in autumn 2026), langchain 0.2.
"""

from pathlib import Path

from tests.assemble.support import joined
from tests.recognize.support import recorded
from toolgauge.dialects.openinference import OpenInference
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.trajectory import Trajectory

CASES = Path(__file__).parent / "cases" / "openinference"


def trajectory(name: str) -> Trajectory:
    return joined(*recorded(OpenInference(), str(CASES / f"{name}.otlp.pb")))


def calls(found: Trajectory) -> list[tuple[int, str, object, str]]:
    """Turn, name, arguments and state of each call."""
    return [
        (call.turn, call.name, call.arguments.value if isinstance(call.arguments, Recorded) else None, call.state)
        for call in found.calls
    ]


def outcomes(found: Trajectory) -> list[tuple[str | None, str | None]]:
    """The id of each call and the message of its failure."""
    return [(call.call_id, call.error.message if call.error is not None else None) for call in found.calls]


def weather_of(*cities: str) -> list[tuple[int, str, object, str]]:
    return [(0, "get_weather", {"city": city}, "executed") for city in cities]


def test_calls_of_an_adk_run_whose_model_calls_share_one_span_keep_their_order():
    found = trajectory("google-adk-1.0.5-sequence")
    assert calls(found) == [
        (0, "find_order", {"customer": "Ana"}, "executed"),
        (1, "get_order", {"order_id": "A-17"}, "executed"),
        (2, "refund", {"order_id": "A-17", "amount": 20.5}, "executed"),
    ]
    assert outcomes(found) == [("call_1", None), ("call_2", None), ("call_3", None)]


def test_calls_of_one_output_on_a_shared_adk_span_are_one_turn():
    assert calls(trajectory("google-adk-1.0.5-parallel")) == weather_of("Paris", "Rome", "Oslo")


def test_dspy_tool_is_named_without_its_method_and_its_arguments_are_opened():
    found = trajectory("dspy-0.1.48-tool-error")
    assert calls(found) == [
        (0, "refund", {"order_id": "BAD", "amount": 1.5}, "executed"),
        (1, "finish", {}, "executed"),
    ]
    assert outcomes(found) == [(None, "order BAD cannot be refunded"), (None, None)]
    assert found.root is not None


def test_portkey_calls_and_offer_are_read_from_the_response_and_the_request():
    found = trajectory("portkey-0.1.22-parallel")
    assert calls(found) == weather_of("Paris", "Rome", "Oslo")
    assert outcomes(found) == [("call_1", None), ("call_2", None), ("call_3", None)]
    assert [tool.name for tool in found.tools_offered or ()] == [
        "get_weather",
        "find_order",
        "get_order",
        "refund",
        "book",
    ]


def test_calls_that_googles_sdk_made_by_itself_are_seen():
    found = trajectory("google-genai-1.4.14-automatic")
    assert calls(found) == weather_of("Paris", "Rome", "Oslo")
    assert found.calls[2].result == Recorded({"city": "Oslo", "temp_c": 21})


def test_langchains_stand_in_for_an_invented_tool_is_no_call_and_parts_are_no_agents():
    found = trajectory("langchain-0.1.35-unknown-tool")
    assert calls(found) == [
        (0, "get_wether", {"city": "Paris"}, "rejected"),
        (1, "get_weather", {"city": "Paris"}, "executed"),
    ]
    assert found.agents == ()


def test_old_langchain_call_that_could_not_be_parsed_counts_once():
    (call,) = trajectory("langchain-0.1.35-bad-json").calls
    assert (call.name, call.call_id, call.state) == ("get_weather", "call_1", "rejected")
    assert call.arguments == Unparsed('{"city": "Par')
