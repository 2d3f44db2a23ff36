"""The properties of a trajectory by which a regression is explained."""

from msgspec.structs import replace

from tests.export.scorecards import call, trajectory
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.observations import CallError
from toolgauge.model.trajectory import Message, SpanSource
from toolgauge.watch.fingerprint import fingerprint, joined, of_tool

TIMEOUT = CallError(kind="timeout", message="secret")


def test_a_run_has_the_properties_of_its_models_versions_and_libraries() -> None:
    source = SpanSource(
        service="s", scope="lib", dialect="genai", spans=(), model_calls=1, has_runs=True, version="2.1"
    )
    found = fingerprint(
        replace(
            trajectory(),
            properties={"gen_ai.response.model": "A"},
            resource={"service.version": "1.0"},
            sources=(source,),
        )
    )
    assert found == {"gen_ai.response.model": "A", "service.version": "1.0", "otel.scope.version lib": "2.1"}


def test_tools_have_the_shape_of_their_arguments_and_the_kinds_of_their_errors() -> None:
    calls = (
        replace(call("find_order", error=TIMEOUT), arguments=Recorded({"order_id": "7", "limit": 3, "tags": None})),
        replace(call("find_order"), arguments=Recorded({"order_id": "8"})),
        replace(call("refund"), arguments=Unparsed("{", "unparsable")),
    )
    assert fingerprint(trajectory(*calls)) == {
        "toolgauge.tool.arguments find_order": "limit:integer order_id:string tags:null",
        "toolgauge.tool.errors find_order": "timeout",
        "toolgauge.tool.arguments refund": "unreadable",
        "toolgauge.tool.errors refund": "none",
    }


def test_of_texts_only_sizes_forms_and_hashes_are_kept() -> None:
    system, later = Message("system", "You are secret.", 0), Message("user", "y" * 900, 1)
    for text, form in (
        ("secret\n```x```", "code lines"),
        ("où est ma commande", "plain"),
        ("где мой заказ", "other script"),
    ):
        found = fingerprint(replace(trajectory(), messages=(system, Message("user", text, 0), later)))
        assert (found["toolgauge.user_message.size"], found["toolgauge.user_message.form"]) == ("at most 50", form)
        assert len(found["gen_ai.system_instructions"]) == 8
        assert "secret" not in repr(found)


def test_a_conversation_keeps_its_first_message_and_all_errors() -> None:
    errors, size = "toolgauge.tool.errors find_order", "toolgauge.user_message.size"
    earlier = {errors: "timeout", size: "at most 50", "service.version": "1"}
    later = {errors: "none", size: "at most 200", "service.version": "2"}
    assert joined(earlier, later) == {errors: "timeout", size: "at most 50", "service.version": "2"}


def test_a_property_of_another_tool_does_not_explain_the_scores_of_a_tool() -> None:
    own = {"toolgauge.tool.errors find_order": "none", "service.version": "1", "otel.scope.version lib": "2"}
    assert of_tool({**own, "toolgauge.tool.errors refund": "timeout"}, "find_order") == own
