"""What holds for our evaluators on any calls: shares, stable, best pairing, and no values in explanations."""

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.score.support import expect, expected, scored, tool_call, trajectory
from toolgauge.evaluators.expected_arguments import ToolCallArgs, ToolParameterMatch
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.ports import Evaluator
from toolgauge.score.rules import ArgumentRules

# Long enough never to occur in the words of an explanation by chance.
SECRETS: st.SearchStrategy[Json] = st.sampled_from(["secret-a", "secret-b", 918273, 918274, True, None])
ARGS: st.SearchStrategy[JsonObject] = st.dictionaries(st.sampled_from(["x", "y", "z"]), SECRETS, max_size=3)


RULES = ArgumentRules.model_validate(
    {
        "pay.x": {"rule": "one_of", "values": ["secret-a", 918274], "omissible": True},
        "*.y": {"rule": "numeric", "absolute": 1},
        "book.*": "similarity",
    }
)


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


@given(st.booleans(), st.lists(ARGS, min_size=1, max_size=4), st.lists(ARGS, max_size=4))
def test_arguments_are_paired_for_the_greatest_sum(
    subset: bool,  # noqa: FBT001 (drawn)
    wanted: list[JsonObject],
    made: list[JsonObject],
):
    best = best_mean(wanted, made, subset=subset)
    assert mean_value(ToolCallArgs(subset=subset), wanted, made) == pytest.approx(best)


def mean_value(evaluator: Evaluator, wanted: Sequence[JsonObject], made: Sequence[JsonObject]) -> float:
    reference = expected(*[expect("pay", args) for args in wanted])
    return scored(evaluator, trajectory(*[tool_call("pay", args) for args in made]), reference).value


@given(
    st.sampled_from(
        [
            ToolCallArgs(volatile=("z",)),
            ToolCallArgs(arguments=RULES),
            ToolCallArgs(arguments=ArgumentRules.model_validate({"*.x": "ignore", "*.y": "casefold"})),
            ToolCallArgs(arguments=ArgumentRules.model_validate({"*": "similarity"}), subset=True),
            ToolParameterMatch(match_mode="name_and_args", volatile=("z",)),
        ]
    ),
    st.lists(ARGS, min_size=1, max_size=3),
    st.lists(ARGS, max_size=4),
)
def test_whatever_the_rules_calls_are_paired_for_the_greatest_sum(
    evaluator: Evaluator, wanted: list[JsonObject], made: list[JsonObject]
):
    places = [*range(len(made)), *[-1] * len(wanted)]
    best = max(
        sum(mean_value(evaluator, [wanted[row]], [made[column]]) for row, column in enumerate(way) if column >= 0)
        for way in set(permutations(places, len(wanted)))
    )
    assert mean_value(evaluator, wanted, made) == pytest.approx(best / len(wanted))
