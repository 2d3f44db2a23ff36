"""`repeated_calls` finds agents that go round in circles, and leaves alone those that poll, retry or are asked again."""

from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import agent_run, judge, not_evaluated, tool_call, trajectory, user
from toolgauge.evaluators.repeated_calls import RepeatedCalls
from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.notices import OpenCall
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Scored
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory

FAILED = CallError(kind="TimeoutError", message="no answer")
REPEATED = RepeatedCalls()


def values(of: Trajectory, evaluator: RepeatedCalls = REPEATED) -> list[float | str]:
    """The score of each call, rounded, or why it has none."""
    return [
        round(outcome.value, 2) if isinstance(outcome, Scored) else getattr(outcome, "reason", "error")
        for outcome in judge(evaluator, of)
    ]


def find(order: int = 1, result: Content | None = None, *, turn: int | None = None) -> ToolCall:
    return tool_call("find", {"order": order}, result=result or Recorded({"status": "open"}), turn=turn)


def failing(turn: int | None = None) -> ToolCall:
    return tool_call("pay", {"card": "a"}, error=FAILED, turn=turn)


def test_the_tenth_identical_call_fails_a_run_that_is_still_open():
    tenth = OpenCall(
        name="find",
        writes=False,
        once_more=False,
        may_repeat=False,
        has_worked=True,
        arguments={},
        identical=10,
        effects=10,
        by_tool={},
        elapsed_ns=0,
    )
    assert REPEATED.while_open(replace(tenth, identical=9)) is None
    assert REPEATED.while_open(tenth) is not None


def test_a_repeat_names_the_call_before_and_how_many_there_are():
    _, second, third = judge(REPEATED, trajectory(find(), tool_call("look"), find(), find()))[1:]
    assert isinstance(second, Scored)
    assert isinstance(third, Scored)
    assert ("2 times" in second.explanation, second.explanation.endswith("call 1")) == (True, True)
    assert ("3 times" in third.explanation, third.explanation.endswith("call 3")) == (True, True)
    assert (second.parts, third.parts) == ({"identical": 2}, {"identical": 3})


def test_a_state_changing_call_that_succeeded_begins_anew():
    change = tool_call("refund", {"order": 1})
    assert values(trajectory(find(), change, find(), writing_tools=["refund"])) == [1, 1]
    assert values(trajectory(find(), change, find())) == [1, 1, 0.5]
    failed = replace(change, error=FAILED)
    assert values(trajectory(find(), failed, find(), writing_tools=["refund"])) == [1, 1, 0.5]


def test_acts_that_worked_are_not_judged_and_those_that_failed_are():
    act = tool_call("refund", {"order": 1}, result=Recorded("done"))
    assert not_evaluated(REPEATED, trajectory(act, act, act, writing_tools=["refund"])) == "no_calls"
    failed = [replace(act, error=FAILED)] * 3
    assert values(trajectory(*failed, act, writing_tools=["refund"])) == [1, 1, 0.33]
    setting = replace(act, name="set_state")
    assert values(trajectory(setting, setting, setting, writing_tools=["set_state"])) == [1, 0.5, 0.33]


def test_a_result_that_changes_is_progress():
    working = [find(result=Recorded({"done": share})) for share in (0.1, 0.5, 0.5)]
    assert values(trajectory(*working)) == [1, 1, 0.5]


def other(count: int) -> list[ToolCall]:
    """Identical calls, each with another result."""
    return [find(result=Recorded({"row": f"{number}"})) for number in range(count)]


def back_and_forth(count: int) -> list[ToolCall]:
    """Identical calls whose results are two in turn."""
    return [find(result=Recorded({"row": "ab"[number % 2]})) for number in range(count)]


def test_beyond_twenty_calls_with_new_content_the_value_falls_and_passes_all_the_same():
    pages = values(trajectory(*other(45)))
    assert (pages[19], pages[20], pages[29], pages[39], pages[44]) == (1, 0.95, 0.67, 0.5, 0.5)
    last = judge(REPEATED, trajectory(*other(25)))[-1]
    assert isinstance(last, Scored)
    assert last.parts == {"identical": 1, "fresh": 25}


def test_a_last_page_that_comes_back_repeats():
    pages = other(7)
    assert values(trajectory(*pages, pages[-1], pages[-1])) == [1] * 7 + [0.5, 0.33]


def test_results_that_come_back_fall_from_the_third_without_new_content_on_and_fail_from_the_fifth_on():
    assert values(trajectory(*back_and_forth(7))) == [1, 1, 1, 0.67, 0.5, 0.4, 0.33]
    sixth = judge(REPEATED, trajectory(*back_and_forth(6)))[-1]
    assert isinstance(sixth, Scored)
    assert (sixth.parts, "5 times" in sixth.explanation) == ({"identical": 1, "stale": 5}, True)


WORDS = "the quick brown fox jumps over the lazy dog while many agents call tools"


def test_other_orders_and_pieces_of_the_same_words_are_no_new_content():
    pieces = [WORDS, WORDS[4:], WORDS[10:40], WORDS[:50], f"{WORDS[20:]}; {WORDS[:9]}", WORDS[16:]]
    assert values(trajectory(*[find(result=Recorded(piece)) for piece in pieces])) == [1, 1, 0.67, 0.5, 0.4, 0.33]


@each_row(("name", "arguments"), [("scroll_down", {"by": "page"}), ("fetchNextPage", {"of": "list"}), ("read_on", {})])
def test_of_tools_that_page_and_calls_without_arguments_each_other_result_is_new(name: str, arguments: Json):
    shown = [tool_call(name, arguments, result=Recorded(f"the section of the {part}")) for part in "abcdefg"]
    assert values(trajectory(*shown)) == [1] * 7


def test_identical_calls_in_traces_of_one_conversation_are_found():
    calls = [replace(call, span=SpanRef(f"{number:032x}", "1")) for number, call in enumerate(back_and_forth(6))]
    assert values(trajectory(*calls, scope="conversation")) == [1, 1, 1, 0.67, 0.5, 0.4]


def test_results_that_differ_in_what_changes_by_itself_are_the_same():
    first: JsonObject = {"open": 3, "as_of": "2026-01-31T09:30:00Z"}
    second: JsonObject = {"as_of": "2026-01-31T09:30:01Z", "open": 3}
    assert values(trajectory(*[find(result=Recorded(one)) for one in (first, second, first)])) == [1, 0.5, 0.33]
    unparsed = [find(result=Unparsed(text)) for text in ("at 09:30:01", "at 09:30:02")]
    assert values(trajectory(*unparsed)) == [1, 0.5]


def test_the_first_retry_after_an_error_is_excused_and_a_storm_is_not():
    assert values(trajectory(failing(), failing(), failing(), failing())) == [1, 1, 0.33, 0.25]
    assert values(trajectory(*[failing()] * 4), RepeatedCalls(retries=2)) == [1, 1, 1, 0.25]
    assert values(trajectory(*[failing()] * 2), RepeatedCalls(retries=0)) == [1, 0.5]
    ignoring = RepeatedCalls(failed_calls="ignore")
    assert values(trajectory(failing(), failing(), find(), find()), ignoring) == [1, 0.5]
    excused = judge(REPEATED, trajectory(failing(), failing()))[1]
    assert isinstance(excused, Scored)
    assert ("excused" in excused.explanation, excused.parts) == (True, {"identical": 2})


def test_failing_calls_of_one_turn_are_no_retries():
    assert values(trajectory(failing(0), failing(0))) == [1, 0.5]


def test_a_message_of_the_user_excuses_the_first_repeat_of_the_same_result():
    asked = (user("where is it?", 0), user("look again", 1), user("and now?", 2))
    assert values(trajectory(find(), find(), find(), messages=asked)) == [1, 1, 0.33]


def test_a_message_of_the_user_begins_anew_where_results_are_not_known():
    unseen = find(result=NotRecorded())
    asked = (user("where is it?", 0), user("look again", 2))
    # The third call has 2/3 as one of three whatever the results are; as a repeat it would have 1/3.
    assert values(trajectory(unseen, unseen, unseen, unseen, messages=asked)) == [1, 0.5, 0.67, 0.5]


def test_agents_do_not_repeat_each_other():
    calls = [replace(find(), agent=agent) for agent in ("clerk", "cook", "clerk")]
    assert values(trajectory(*calls)) == [1, 1, 0.5]


def test_outermost_runs_of_a_trace_share_calls_only_where_they_share_a_history():
    spans = [SpanRef("a" * 32, str(number)) for number in range(4)]
    runs = [agent_run(span) for span in spans]
    calls = [replace(find(), run=span) for span in spans]
    assert values(replace(trajectory(*calls), runs=tuple(runs))) == [1, 1, 1, 1]
    runs[1:3] = [replace(run, has_history=True) for run in runs[1:3]]
    assert values(replace(trajectory(*calls), runs=tuple(runs))) == [1, 0.5, 0.33, 1]


@each_row(
    "name",
    ["wait_for_job", "poll_queue", "get_job_status", "check_import_status", "getRunStatus", "jobs__check_run_status"],
)
def test_tools_whose_names_show_that_they_poll_are_not_judged(name: str):
    states = [tool_call(name, {"job": 1}, result=Recorded(state)) for state in ("50 %", "75 %", "75 %", "75 %", "done")]
    assert not_evaluated(REPEATED, trajectory(*states)) == "no_calls"


@each_row("length", [2, 3, 5, 6])
def test_rounds_of_state_changing_calls_with_the_same_results_are_found(length: int):
    names = [f"set_{number}" for number in range(length)]
    rounds = trajectory(*[tool_call(name, result=Recorded("ok")) for name in names * 3], writing_tools=names)
    assert values(rounds) == [1] * (2 * length - 1) + [0.5] * length + [0.33]
