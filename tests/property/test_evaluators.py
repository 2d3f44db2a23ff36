"""What holds for our evaluators on any calls: shares, stable, best pairing, and no values in explanations."""

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.score.support import expect, expected, judge, tool_call, trajectory
from toolgauge.evaluators.error_handling import ErrorHandling
from toolgauge.evaluators.expected_calls import ToolCallF1
from toolgauge.evaluators.repeated_calls import RepeatedCalls
from toolgauge.evaluators.run_checks import Coverage
from toolgauge.evaluators.tool_call_args import ToolCallArgs, ToolParameterMatch
from toolgauge.evaluators.tool_checks import KnownTool, ToolSuccess
from toolgauge.evaluators.tool_trajectory import ToolTrajectory
from toolgauge.model.content import NOT_RECORDED, NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import ExpectedCall
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Scored
from toolgauge.model.ports import Evaluator
from toolgauge.model.trajectory import CallState, ToolCall
from toolgauge.score.rules import ArgumentRules

NAMES = st.sampled_from(["pay", "book"])
# Long enough never to occur in the words of an explanation by chance.
SECRETS: st.SearchStrategy[Json] = st.sampled_from(["secret-a", "secret-b", 918273, 918274, True, None])
ARGS: st.SearchStrategy[JsonObject] = st.dictionaries(st.sampled_from(["x", "y", "z"]), SECRETS, max_size=3)
CONTENT = st.one_of(
    st.builds(Recorded, ARGS),
    st.just(NOT_RECORDED),
    st.just(NotRecorded("redacted")),
    st.builds(Unparsed, st.just("secret-c"), st.sampled_from(["unparsable", "truncated"])),
    st.just(Recorded(["secret-d"])),
)
ERRORS = st.one_of(st.none(), st.just(CallError(kind="TimeoutError", message="secret-e")))
STATES: st.SearchStrategy[CallState] = st.sampled_from(["executed", "rejected", "requested_only"])


@st.composite
def any_call(draw: st.DrawFn) -> ToolCall:
    return tool_call(draw(NAMES), arguments=draw(CONTENT), error=draw(ERRORS), state=draw(STATES))


@st.composite
def any_expected_call(draw: st.DrawFn) -> ExpectedCall:
    repeat = draw(st.sampled_from([(1, 1), (0, 2), (2, 3)]))
    return expect(draw(NAMES), draw(st.one_of(st.none(), ARGS)), optional=draw(st.booleans()), repeat=repeat)


RULES = ArgumentRules.model_validate(
    {
        "pay.x": {"rule": "one_of", "values": ["secret-a", 918274], "omissible": True},
        "*.y": {"rule": "numeric", "absolute": 1},
        "book.*": "similarity",
    }
)

EVALUATORS: list[Evaluator] = [
    ToolSuccess(),
    ToolSuccess(failed_calls="ignore"),
    ToolSuccess(retries="ignore"),
    Coverage(),
    ErrorHandling(),
    RepeatedCalls(),
    RepeatedCalls(retries=0, failed_calls="ignore"),
    KnownTool(tools=("p*",)),
    ToolCallF1(),
    ToolCallF1(match="name", tools="writes"),
    ToolCallArgs(),
    ToolCallArgs(strict=True),
    ToolCallArgs(subset=True, failed_calls="ignore"),
    ToolCallArgs(similarity="json"),
    ToolCallArgs(arguments=RULES, volatile=("z",)),
    ToolParameterMatch(),
    ToolParameterMatch(match_mode="name_and_args", ordered=True),
    ToolParameterMatch(match_mode="name_and_required_args", arguments=RULES),
    ToolTrajectory(),
    ToolTrajectory(mode="subset", match="name", strict=True),
    ToolTrajectory(mode="in_order", never_before={"b*": ("p*",)}, failed_calls="ignore"),
]


@pytest.mark.parametrize("evaluator", EVALUATORS, ids=repr)
@given(st.lists(any_call(), max_size=5), st.lists(any_expected_call(), max_size=4))
def test_outcomes_are_shares_stable_and_without_values(
    evaluator: Evaluator, calls: list[ToolCall], wanted: list[ExpectedCall]
):
    judged = trajectory(*calls, offered=["pay"], writing_tools=["pay"])
    outcomes = judge(evaluator, judged, expected(*wanted))
    assert outcomes == judge(evaluator, judged, expected(*wanted))
    for outcome in outcomes:
        if isinstance(outcome, Scored):
            assert 0 <= outcome.value <= 1
            assert outcome.explanation
            assert "secret" not in outcome.explanation
            assert "9182" not in outcome.explanation
            assert all(0 <= outcome.parts[name] <= 1 for name in ("recall", "precision") if name in outcome.parts)


def share(wanted: JsonObject, given_: JsonObject, *, subset: bool) -> float:
    names = wanted.keys() if subset else wanted.keys() | given_.keys()
    met = sum(name in given_ and repr(given_[name]) == repr(value) for name, value in wanted.items())
    return met / len(names) if names else 1.0


def best_mean(wanted: Sequence[JsonObject], made: Sequence[JsonObject], *, subset: bool) -> float:
    places = [*range(len(made)), *[-1] * len(wanted)]
    return max(
        sum(share(wanted[row], made[column], subset=subset) for row, column in enumerate(way) if column >= 0)
        for way in set(permutations(places, len(wanted)))
    ) / len(wanted)


@pytest.mark.parametrize("subset", [True, False])
@given(st.lists(ARGS, min_size=1, max_size=4), st.lists(ARGS, max_size=4))
def test_arguments_are_paired_for_the_greatest_sum(
    subset: bool,  # noqa: FBT001 (a table)
    wanted: list[JsonObject],
    made: list[JsonObject],
):
    judged = trajectory(*[tool_call("pay", args) for args in made])
    (outcome,) = judge(ToolCallArgs(subset=subset), judged, expected(*[expect("pay", args) for args in wanted]))
    assert isinstance(outcome, Scored)
    assert outcome.value == pytest.approx(best_mean(wanted, made, subset=subset))


def pair_value(evaluator: Evaluator, wanted: JsonObject, made: JsonObject) -> float:
    (outcome,) = judge(evaluator, trajectory(tool_call("pay", made)), expected(expect("pay", wanted)))
    assert isinstance(outcome, Scored)
    return outcome.value


@pytest.mark.parametrize(
    "evaluator",
    [
        ToolCallArgs(volatile=("z",)),
        ToolCallArgs(arguments=RULES),
        ToolCallArgs(arguments=ArgumentRules.model_validate({"*.x": "ignore", "*.y": "casefold"})),
        ToolCallArgs(arguments=ArgumentRules.model_validate({"*": "similarity"}), subset=True),
        ToolParameterMatch(),
        ToolParameterMatch(match_mode="name_and_args", volatile=("z",)),
    ],
    ids=repr,
)
@given(st.lists(ARGS, min_size=1, max_size=3), st.lists(ARGS, max_size=4))
def test_whatever_the_rules_calls_are_paired_for_the_greatest_sum(
    evaluator: Evaluator, wanted: list[JsonObject], made: list[JsonObject]
):
    (outcome,) = judge(
        evaluator, trajectory(*[tool_call("pay", args) for args in made]), expected(*[expect("pay", a) for a in wanted])
    )
    assert isinstance(outcome, Scored)
    places = [*range(len(made)), *[-1] * len(wanted)]
    best = max(
        sum(pair_value(evaluator, wanted[row], made[column]) for row, column in enumerate(way) if column >= 0)
        for way in set(permutations(places, len(wanted)))
    )
    assert outcome.value == pytest.approx(best / len(wanted))
