"""`agentevals.trajectory_match`: what agentevals 0.0.9 gave for these cases, and what a trajectory makes of them."""

import time

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

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
from toolgauge.model.outcomes import Errored, Outcome, Scored
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.originals.agentevals import TrajectoryMatch

MODEL = SpanRef("0af7651916cd43dd8448eb211c80319c", "1111111111111111")
QUESTION: JsonObject = {"role": "user", "content": "q"}


def assistant(*calls: tuple[str, JsonObject]) -> JsonObject:
    made: list[Json] = [{"name": name, "args": args} for name, args in calls]
    return {"role": "assistant", "content": "", "tool_calls": made}


def raw(arguments: Json) -> JsonObject:
    return {"role": "assistant", "content": "", "tool_calls": [{"name": "a", "arguments": arguments}]}


def offline(evaluator: TrajectoryMatch, made: list[Json], wanted: list[Json]) -> Outcome:
    return evaluator.score_case({"messages": wanted}, {"messages": made}).outcome


def value(evaluator: TrajectoryMatch, made: list[Json], wanted: list[Json]) -> float:
    outcome = offline(evaluator, made, wanted)
    assert isinstance(outcome, Scored), outcome
    return outcome.value


def error(evaluator: TrajectoryMatch, made: list[Json], wanted: list[Json]) -> str:
    outcome = offline(evaluator, made, wanted)
    assert isinstance(outcome, Errored), outcome
    return outcome.error_type


def asked(*calls: ToolCall) -> Trajectory:
    """Build a trajectory whose calls were seen in outputs of a model."""
    return trajectory(*(replace(call, requested_by=MODEL) for call in calls))


@each_row(
    ("mode", "some_none", "none_some", "none_none"),
    [("strict", 0, 0, 1), ("unordered", 0, 0, 1), ("subset", 0, 1, 1), ("superset", 1, 0, 1)],
)
def test_an_empty_side_is_within_the_other(mode: str, some_none: float, none_some: float, none_none: float):
    evaluator = TrajectoryMatch.model_validate({"trajectory_match_mode": mode})
    some: list[Json] = [QUESTION, assistant(("a", {}))]
    none: list[Json] = [QUESTION]
    assert value(evaluator, some, none) == some_none
    assert value(evaluator, none, some) == none_some
    assert value(evaluator, none, none) == none_none


def test_calls_of_one_message_have_no_order_and_messages_have():
    evaluator = TrajectoryMatch()
    together: list[Json] = [assistant(("a", {"x": 1}), ("b", {}))]
    assert value(evaluator, together, [assistant(("b", {}), ("a", {"x": 1}))]) == 1
    assert value(evaluator, together, [assistant(("a", {"x": 1})), assistant(("b", {}))]) == 0
    assert (
        value(evaluator, [assistant(("b", {})), assistant(("a", {}))], [assistant(("a", {})), assistant(("b", {}))])
        == 0
    )


def test_roles_go_by_both_of_their_names_and_texts_do_not_count():
    made: list[Json] = [{"role": "human", "content": "x"}, {"role": "ai", "content": "y"}]
    assert value(TrajectoryMatch(), made, [QUESTION, {"role": "assistant", "content": None}]) == 1
    assert value(TrajectoryMatch(), [{"role": "developer", "content": ""}], [{"role": "system", "content": ""}]) == 0
    assert error(TrajectoryMatch(), [{"role": "oracle", "content": ""}], [QUESTION]) == "ValueError"


def test_no_calls_and_an_empty_list_of_them_are_the_same_and_only_the_assistant_calls():
    made: list[Json] = [{"role": "assistant", "content": "", "tool_calls": []}]
    assert value(TrajectoryMatch(), made, [{"role": "assistant", "content": "done"}]) == 1
    made = [{**assistant(("a", {})), "role": "user"}]
    assert value(TrajectoryMatch(), made, [QUESTION]) == 1


@each_row(
    ("made", "wanted", "same"),
    [
        (1, 1.0, 1),
        (True, 1, 1),
        (0, False, 1),
        ("1", 1, 0),
        (None, "None", 0),
        ("é", "e\u0301", 0),
        ([2, 1], [1, 2], 0),
        ({"a": 1, "b": [True]}, {"b": [1.0], "a": 1}, 1),
        ([], {}, 0),
        (None, "", 0),
    ],
)
def test_arguments_are_equal_as_in_python(made: Json, wanted: Json, same: float):
    evaluator = TrajectoryMatch(trajectory_match_mode="unordered")
    assert value(evaluator, [assistant(("a", {"x": made}))], [assistant(("a", {"x": wanted}))]) == same


@each_row(
    ("mode", "arguments", "more_made", "more_wanted"),
    [
        ("strict", "subset", 0, 1),
        ("strict", "superset", 1, 0),
        ("superset", "subset", 0, 1),
        # The sides are swapped here, and with them what the modes mean.
        ("subset", "subset", 1, 0),
        ("subset", "superset", 0, 1),
        ("unordered", "subset", 0, 0),
        ("unordered", "ignore", 1, 1),
    ],
)
def test_modes_of_arguments_mean_their_opposite_where_sides_are_swapped(
    mode: str, arguments: str, more_made: float, more_wanted: float
):
    evaluator = TrajectoryMatch.model_validate({"trajectory_match_mode": mode, "tool_args_match_mode": arguments})
    more: list[Json] = [assistant(("a", {"x": 1, "y": 2}))]
    less: list[Json] = [assistant(("a", {"x": 1}))]
    assert value(evaluator, more, less) == more_made
    assert value(evaluator, less, more) == more_wanted


def test_the_first_call_that_fits_is_taken_even_if_another_needs_it():
    evaluator = TrajectoryMatch(trajectory_match_mode="superset", tool_args_match_mode="superset")
    made: list[Json] = [assistant(("a", {"x": 1, "y": 2}), ("a", {"x": 1}))]
    assert value(evaluator, made, [assistant(("a", {"x": 1}), ("a", {"y": 2}))]) == 0
    assert value(evaluator, made, [assistant(("a", {"y": 2}), ("a", {"x": 1}))]) == 1


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
    assert error(evaluator, [assistant(("a", {}))], [assistant(("a", {}))]) == raised
    assert value(evaluator, [assistant(("b", {}))], [assistant(("b", {}))]) == 1
    assert value(evaluator, [assistant(("a", {}))], [assistant(("a", {})), QUESTION]) == 0


@each_row(
    ("arguments", "raised"),
    [
        ("{not json", "JSONDecodeError"),
        ("", "JSONDecodeError"),
        ("[1]", "ValidationError"),
        ("null", "ValidationError"),
        ('"x"', "ValidationError"),
    ],
)
def test_unreadable_arguments_are_an_error_before_anything_is_compared(arguments: str, raised: str):
    assert error(TrajectoryMatch(), [raw(arguments)], [QUESTION, QUESTION]) == raised
    assert error(TrajectoryMatch(), [QUESTION], [raw(arguments)]) == raised


def test_what_is_wrong_first_is_the_error():
    calls: list[Json] = [{"name": "a", "arguments": "[1]"}, {"name": "a", "arguments": "{"}]
    both: JsonObject = {"role": "assistant", "content": "", "tool_calls": calls}
    assert error(TrajectoryMatch(), [both], [both]) == "JSONDecodeError"
    assert error(TrajectoryMatch(), [{**both, "role": "oracle", "tool_calls": calls[:1]}], []) == "ValueError"
    # Nobody looks at what others than the assistant call.
    assert value(TrajectoryMatch(), [{**both, "role": "user", "tool_calls": calls[:1]}], [QUESTION]) == 1


def test_readable_text_is_as_good_as_an_object():
    assert value(TrajectoryMatch(), [raw('{"x": "a\tb"}')], [assistant(("a", {"x": "a\tb"}))]) == 1


def test_unknown_parameters_and_modes_are_refused():
    for wrong in ({"mode": "strict"}, {"trajectory_match_mode": "any"}, {"tool_args_match_mode": "fuzzy"}):
        with pytest.raises(ValidationError):
            TrajectoryMatch.model_validate(wrong)


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


def test_an_expected_call_without_arguments_matches_by_name():
    judged = asked(tool_call("a", {"x": 1}))
    assert scored(TrajectoryMatch(), judged, expected(expect("a"))).value == 1
    assert scored(TrajectoryMatch(), judged, expected(expect("a", {}))).value == 0


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


def test_thousands_of_calls_of_one_tool_are_told_apart_by_their_arguments():
    made = asked(*[tool_call("a", {"x": number}) for number in range(3000)])
    wanted = expected(*[expect("a", {"x": number}) for number in reversed(range(3000))])
    started = time.process_time()
    outcomes = list(TrajectoryMatch(trajectory_match_mode="unordered").evaluate(made, wanted))
    assert outcomes == [(None, Scored(value=1.0, explanation="the calls match (unordered)"))]
    # Comparing each with each takes minutes.
    assert time.process_time() - started < 5


def test_deep_and_wide_arguments_are_compared():
    deep: Json = 1
    for _ in range(50_000):
        deep = [deep]
    wide: list[Json] = list(range(20_000))
    judged = asked(*[tool_call("a", {"deep": deep, "wide": wide}, turn=0)] * 3)
    wanted = expected(*[replace(expect("a", {"deep": deep, "wide": [*wide]}), group=1)] * 3)
    outcomes = list(TrajectoryMatch().evaluate(judged, wanted))
    assert outcomes == [(None, Scored(value=1.0, explanation="the calls match (strict)"))]
