"""`known_tool` finds invented tools."""

from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import TRACE, agent_run, judge, not_evaluated, scored, tool_call, trajectory
from toolgauge.evaluators.tool_checks import KnownTool
from toolgauge.model.content import Recorded
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.outcomes import NotEvaluated, Scored
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall

SPAN = SpanRef(TRACE, "00000000000000aa")


def invented(name: str) -> ToolCall:
    return tool_call(name, state="requested_only")


def test_an_invented_tool_is_not_known_and_the_closest_is_named():
    judged = trajectory(tool_call("pay"), invented("serch_flights"), invented("zzz"), offered=["pay", "search_flights"])
    known, close, far = judge(KnownTool(), judged)
    assert [getattr(one, "value", None) for one in (known, close, far)] == [1.0, 0.0, 0.0]
    assert ("`search_flights`" in str(close), "closest" in str(far)) == (True, False)
    assert scored(KnownTool(), trajectory(invented("search"), offered=[])).value == 0.0
    assert not_evaluated(KnownTool(), trajectory(tool_call("search"))) == "no_tool_offer"
    assert scored(KnownTool(), trajectory(invented("shop__find"), offered=["crm__find"])).value == 0.0


@each_row("name", ["Search", "search ", "SEARCH"])
def test_names_are_compared_as_they_are(name: str):
    assert scored(KnownTool(), trajectory(invented(name), offered=["search"])).value == 0.0


def test_a_name_that_the_framework_did_not_know_is_invented_however_alike():
    unknown = replace(invented("find"), state="rejected", error=CallError(kind="unknown_tool", message="no such tool"))
    assert scored(KnownTool(), trajectory(unknown, offered=["crm__find"])).value == 0.0


def test_registered_tools_stand_in_where_no_offer_was_recorded():
    registered = {"search": ToolDefinition(name="search")}
    unrecorded = replace(trajectory(tool_call("search"), invented("serch")), registered_tools=registered)
    assert [one.value for one in judge(KnownTool(), unrecorded) if isinstance(one, Scored)] == [1.0, 0.0]
    assert all("(as registered)" in str(one) for one in judge(KnownTool(), unrecorded))
    recorded = replace(trajectory(invented("search"), offered=["pay"]), registered_tools=registered)
    assert scored(KnownTool(), recorded).value == 0.0


@each_row(
    ("call", "proof"),
    [
        (tool_call("crm_find", result=Recorded({"ok": True})), "it was executed and answered"),
        (replace(tool_call("web_search", state="requested_only"), by_provider=True), "the model's provider ran it"),
        (tool_call("wire_money", state="paused"), "a person was asked about the call"),
        (replace(tool_call("find", state="cancelled"), executed_by=SPAN), "it was cancelled while it ran"),
        (tool_call("transfer_to_refund_agent", state="requested_only"), "it names an agent of this run"),
        (tool_call("refund_agent", state="requested_only"), "it names an agent of this run"),
    ],
)
def test_a_call_that_shows_that_its_tool_exists_means_that_the_recorded_offer_is_incomplete(call: ToolCall, proof: str):
    judged = replace(trajectory(call, offered=["search"]), agents=("Refund Agent",))
    (outcome,) = judge(KnownTool(), judged)
    assert isinstance(outcome, NotEvaluated)
    assert (outcome.reason, outcome.explanation) == (
        "no_tool_offer",
        f"`{call.name}` was not among the recorded tools on offer, but {proof}: the record is incomplete",
    )


@each_row("name", ["tool_search", "tool_search_tool_bm25", "search_tools", "ToolSearch", "mcp"])
def test_an_offer_that_grows_proves_no_invention(name: str):
    (outcome,) = judge(KnownTool(), trajectory(invented("crm_find"), offered=[name]))
    assert isinstance(outcome, NotEvaluated)
    assert outcome.reason == "no_tool_offer"


def test_a_call_of_another_than_the_runs_that_were_seen_has_no_offer():
    offered = (ToolDefinition(name="search"),)
    run = agent_run(SPAN, tools=offered)
    judged = trajectory(replace(tool_call("search"), run=SpanRef(TRACE, "00000000000000cc")), offered=["search"])
    assert not_evaluated(KnownTool(), replace(judged, runs=(run,))) == "no_tool_offer"
    registered = replace(judged, runs=(run,), registered_tools={"search": offered[0]})
    assert scored(KnownTool(), registered).value == 1.0
    without = replace(trajectory(tool_call("search"), offered=["search"]), runs=(replace(run, tools_offered=None),))
    assert scored(KnownTool(), without).value == 1.0
