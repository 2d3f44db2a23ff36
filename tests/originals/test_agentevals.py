"""`agentevals.trajectory_match`: what agentevals 0.0.9 gave for these cases, and what a trajectory makes of them."""

from msgspec.structs import replace

from tests.originals.support import score
from tests.rows import each_row
from tests.score.support import (
    expect,
    expected,
    expected_turns,
    judge,
    not_evaluated,
    scored,
    tool_call,
    trajectory,
    user,
)
from toolgauge.model.content import NOT_RECORDED, NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Errored, Scored
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.originals.agentevals import TrajectoryMatch

MODEL = SpanRef("0af7651916cd43dd8448eb211c80319c", "1111111111111111")
QUESTION: JsonObject = {"role": "user", "content": "q"}


def assistant(*calls: tuple[str, JsonObject]) -> JsonObject:
    made: list[Json] = [{"name": name, "args": args} for name, args in calls]
    return {"role": "assistant", "content": "", "tool_calls": made}


def value(evaluator: TrajectoryMatch, made: list[Json], wanted: list[Json]) -> float | str:
    return score(evaluator, {"messages": wanted}, {"messages": made})


def asked(*calls: ToolCall) -> Trajectory:
    """Build a trajectory whose calls were seen in outputs of a model."""
    return trajectory(*(replace(call, requested_by=MODEL) for call in calls))


@each_row(
    ("made", "same"),
    [
        ([{"role": "human", "content": "x"}, {"role": "ai", "content": "y"}], 1),
        ([QUESTION, {"role": "assistant", "content": None}], 0),
        ([{"role": "system", "content": ""}, QUESTION, {"role": "assistant", "content": "y"}], 0),
        ([QUESTION, {"role": "assistant", "content": "y"}, QUESTION], 0),
        ([{"role": "oracle", "content": ""}], "invalid_case"),
    ],
)
def test_messages_with_text_are_compared_by_role_and_place(made: list[Json], same: float | str):
    assert value(TrajectoryMatch(), made, [QUESTION, {"role": "assistant", "content": "z"}]) == same


def test_texts_stand_before_or_after_the_same_calls():
    call: Json = assistant(("a", {}))
    text: Json = {"role": "assistant", "content": "x"}
    assert value(TrajectoryMatch(), [QUESTION, call, text, call], [QUESTION, call, text, call]) == 1
    assert value(TrajectoryMatch(), [QUESTION, call, text, call], [QUESTION, call, call, text]) == 0
    unordered = TrajectoryMatch(trajectory_match_mode="unordered")
    assert value(unordered, [QUESTION, call, text, call], [QUESTION, call, call, text]) == 1


@each_row(
    ("override", "same"),
    [
        (["x"], 1),
        (["y"], 0),
        (["nope", "z.nope", "x.deeper"], 1),
        (["z.q"], 1),
        (["z"], 0),
        ("ignore", 1),
        ("fuzzy", 1),
        ("exact", 0),
        # Empty in any way: as if there were none.
        ([], 0),
        ("", 0),
        (None, 0),
        (0, 0),
    ],
)
def test_an_override_names_a_mode_or_the_paths_that_count(override: Json, same: float):
    evaluator = TrajectoryMatch.model_validate({"tool_args_match_overrides": {"a": override}})
    made: list[Json] = [assistant(("a", {"x": None, "y": 1, "z": {"q": 1, "r": 1}}))]
    assert value(evaluator, made, [assistant(("a", {"y": 2, "z": {"q": True, "r": 2}}))]) == same


@each_row(
    ("override", "raised"), [(5, "ValueError"), (True, "ValueError"), ({"x": 1}, "ValueError"), ([1], "AttributeError")]
)
def test_a_wrong_override_is_an_error_once_a_call_of_its_tool_is_compared(override: Json, raised: str):
    evaluator = TrajectoryMatch.model_validate({"tool_args_match_overrides": {"a": override}})
    assert value(evaluator, [assistant(("a", {}))], [assistant(("a", {}))]) == raised
    assert value(evaluator, [assistant(("b", {}))], [assistant(("b", {}))]) == 1
    assert value(evaluator, [assistant(("a", {}))], [assistant(("a", {})), QUESTION]) == 0


@each_row(("arguments", "raised"), [("{not json", "JSONDecodeError"), ("[1]", "JSONDecodeError")])
def test_unreadable_arguments_are_an_error_before_anything_is_compared(arguments: str, raised: str):
    raw: JsonObject = {"role": "assistant", "content": "", "tool_calls": [{"name": "a", "arguments": arguments}]}
    assert value(TrajectoryMatch(), [raw], [QUESTION, QUESTION]) == raised
    assert value(TrajectoryMatch(), [QUESTION], [raw]) == "invalid_case"


# -- live -----------------------------------------------------------------------------------------------------------


def test_calls_of_one_model_output_are_one_message_and_so_is_a_group():
    grouped = Expected(turns=((replace(expect("a"), group=1), replace(expect("b"), group=1), expect("c")),))
    together = asked(tool_call("b", turn=0), tool_call("a", turn=0), tool_call("c", turn=1))
    one_by_one = asked(tool_call("a"), tool_call("b"), tool_call("c"))
    assert scored(TrajectoryMatch(), together, grouped).value == 1
    assert scored(TrajectoryMatch(), one_by_one, grouped).value == 0
    assert scored(TrajectoryMatch(), one_by_one, expected(expect("a"), expect("b"), expect("c"))).value == 1


def test_strict_needs_to_know_which_calls_came_together():
    executed = trajectory(tool_call("a"), tool_call("b"))
    assert not_evaluated(TrajectoryMatch(), executed, expected(expect("a"), expect("b"))) == "no_content"
    unordered = TrajectoryMatch(trajectory_match_mode="unordered")
    assert scored(unordered, executed, expected(expect("b"), expect("a"))).value == 1
    assert scored(TrajectoryMatch(), trajectory(tool_call("a")), expected(expect("a"))).value == 1


def test_user_turns_are_told_apart_where_they_are_expected():
    calls = tool_call("a", turn=0), tool_call("b", turn=1)
    judged = replace(asked(*calls), messages=(user("one", 0), user("two", 1)))
    assert scored(TrajectoryMatch(), judged, expected_turns((expect("a"),), (expect("b"),))).value == 1
    assert scored(TrajectoryMatch(), judged, expected_turns((), (expect("a"), expect("b")))).value == 0
    silent = replace(judged, messages=())
    assert not_evaluated(TrajectoryMatch(), silent, expected_turns((expect("a"),), (expect("b"),))) == "incomplete"


def test_what_was_not_recorded_is_not_evaluated_and_what_cannot_be_read_is_an_error():
    wanted = expected(expect("a", {"x": 1}))
    assert not_evaluated(TrajectoryMatch(), asked(tool_call("a", arguments=NOT_RECORDED)), wanted) == (
        "arguments_not_recorded"
    )
    redacted = asked(tool_call("a", arguments=NotRecorded("redacted")))
    assert not_evaluated(TrajectoryMatch(), redacted, wanted) == "redacted"
    assert scored(TrajectoryMatch(tool_args_match_mode="ignore"), redacted, wanted).value == 1
    (outcome,) = judge(TrajectoryMatch(), asked(tool_call("a", arguments=Unparsed("{"))), wanted)
    assert outcome == Errored(error_type="JSONDecodeError", message="the arguments of `a` are unparsable")
    (outcome,) = judge(TrajectoryMatch(), asked(tool_call("a", arguments=Recorded([1]))), wanted)
    assert isinstance(outcome, Errored)
    assert outcome.error_type == "ValidationError"


def test_hidden_calls_no_reference_and_references_of_ours_are_no_score():
    assert not_evaluated(TrajectoryMatch(), asked(tool_call("a")), None) == "no_reference"
    hidden = replace(asked(), hidden_turns=2)
    assert not_evaluated(TrajectoryMatch(), hidden, expected(expect("a"))) == "no_content"
    (outcome,) = judge(TrajectoryMatch(), asked(tool_call("a")), expected(expect("a", optional=True)))
    assert isinstance(outcome, Errored)
    assert outcome.error_type == "unsupported_reference"


def test_deep_and_wide_arguments_are_compared():
    deep: Json = 1
    for _ in range(50_000):
        deep = [deep]
    wide: list[Json] = list(range(20_000))
    judged = asked(*[tool_call("a", {"deep": deep, "wide": wide}, turn=0)] * 3)
    wanted = expected(*[replace(expect("a", {"deep": deep, "wide": [*wide]}), group=1)] * 3)
    outcomes = list(TrajectoryMatch().evaluate(judged, wanted))
    assert outcomes == [(None, Scored(value=1.0, explanation="the calls match (strict)"))]
