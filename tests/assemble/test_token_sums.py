"""The tokens of a trajectory: those of each model call once."""

from msgspec.structs import replace

from tests.assemble.support import agent, executed, joined, log, model, reading
from toolgauge.model.observations import ModelCall, PropertiesSeen, Reading
from toolgauge.model.trajectory import Tokens, Trajectory


def sums(trajectory: Trajectory) -> Tokens | None:
    """The tokens, without what they cost."""
    return trajectory.tokens and replace(trajectory.tokens, cost=None, unpriced={})


def call(input_tokens: int | None, output_tokens: int | None) -> ModelCall:
    return ModelCall(input_tokens=input_tokens, output_tokens=output_tokens)


def test_the_tokens_of_all_model_calls_are_added():
    trajectory = joined(
        reading("run", agent("shop"), end=9),
        reading("m1", call(10, 5), parent="run", start=1),
        reading("m2", call(20, 6), parent="run", start=2),
    )
    assert sums(trajectory) == Tokens(input=30, output=11)


def test_without_any_that_were_recorded_they_are_not_known():
    assert joined(reading("run", agent("shop")), reading("m", model(), parent="run")).tokens is None
    assert joined(reading("run", agent("shop"))).tokens is None


def test_model_calls_without_tokens_or_with_one_side_alone_are_counted():
    trajectory = joined(
        reading("m1", call(10, 5)), reading("m2", model(), start=2), reading("m3", call(7, None), start=4)
    )
    assert sums(trajectory) == Tokens(input=17, output=5, unmeasured=2)


def test_a_span_around_model_calls_repeats_their_sum():
    trajectory = joined(
        reading("all", call(30, 11), end=9),
        reading("m1", call(10, 5), parent="all", start=1),
        reading("m2", call(20, 6), parent="all", start=3),
    )
    assert sums(trajectory) == Tokens(input=30, output=11)


def test_a_model_call_of_an_agent_that_a_tool_runs_is_another_call():
    trajectory = joined(
        reading("outer", call(10, 5), end=9),
        reading("tool", executed("ask_expert"), parent="outer", start=1, end=8),
        reading("run", agent("expert"), parent="tool", start=2, end=7),
        reading("inner", call(20, 6), parent="run", start=3),
    )
    assert sums(trajectory) == Tokens(input=30, output=11)


def test_two_instrumentations_side_by_side_show_one_call():
    trajectory = joined(
        reading("run", agent("shop"), end=20),
        reading("a1", call(10, 5), parent="run", start=1, end=5, scope="first"),
        reading("b1", call(10, 5), parent="run", start=2, end=4, scope="second"),
        reading("a2", call(10, 5), parent="run", start=6, end=9, scope="first"),
        reading("b2", call(10, 5), parent="run", start=7, end=8, scope="second"),
    )
    assert sums(trajectory) == Tokens(input=20, output=10)


def test_two_instrumentations_may_count_the_tokens_of_a_stream_differently():
    trajectory = joined(
        reading("a", call(10, 5), start=1, end=5, scope="first"),
        reading("b", call(10, 9), start=2, end=4, scope="second"),
    )
    assert sums(trajectory) == Tokens(input=10, output=5)


def test_calls_that_add_up_those_before_them_are_counted_once():
    def added_up(name: str, tokens: int, parent: str, start: int) -> Reading:
        return reading(name, replace(call(tokens * 10, tokens), may_add_up=True), parent=parent, start=start)

    trajectory = joined(
        *[added_up(f"a{step}", step, "loop", step) for step in (1, 2, 3)],
        *[added_up(f"b{step}", 1, f"alone{step}", 10 + step) for step in (1, 2)],
        added_up("c1", 4, "same", 20),
        added_up("c2", 4, "same", 21),
    )
    assert sums(trajectory) == Tokens(input=30 + 20 + 80, output=3 + 2 + 8)


def test_tokens_that_are_0_everywhere_were_not_recorded():
    assert joined(reading("m", call(0, 0))).tokens is None
    assert sums(joined(reading("m", call(0, 0)), reading("n", call(3, 1), start=2))) == Tokens(input=3, output=1)


def test_a_log_record_of_the_span_fills_in_what_the_span_lacks_and_repeats_the_rest():
    assert sums(joined(reading("m", model()), log("m", call(10, 5)))) == Tokens(input=10, output=5)
    asked = ModelCall(stopped_for_tools=True, input_tokens=10, output_tokens=5)
    assert sums(joined(reading("m", call(10, 5)), log("m", asked))) == Tokens(input=10, output=5)
    assert sums(joined(reading("m", call(10, 5)), log("m", ModelCall(stopped_for_tools=True)))) == Tokens(
        input=10, output=5
    )


def made_with(model: str, *, cost: float | None = None, sums: tuple[int, int] | None = None) -> PropertiesSeen:
    sent, received = sums or (None, None)
    values = (("gen_ai.response.model", model),)
    return PropertiesSeen(values=values, cost=cost, input_tokens=sent, output_tokens=received)


def test_the_sum_on_an_agents_span_counts_where_no_model_call_has_tokens():
    run = reading("run", agent("shop"), made_with("large", sums=(40, 9)), end=9)
    silent = reading("m", model(), parent="run", start=1)
    assert joined(run, silent).tokens == Tokens(input=40, output=9, unpriced={"large": (40, 9)})
    assert sums(joined(run, reading("m", call(10, 5), parent="run", start=1))) == Tokens(input=10, output=5)


def test_the_sums_of_agents_within_another_are_not_added():
    outer = reading("run", agent("shop"), made_with("large", sums=(40, 9)), end=9)
    inner = reading("inner", agent("refund"), made_with("large", sums=(30, 4)), parent="run", start=1, end=8)
    assert sums(joined(outer, inner)) == Tokens(input=40, output=9)


def test_tokens_without_a_recorded_cost_are_kept_by_model():
    trajectory = joined(
        reading("m1", call(10, 5), made_with("large", cost=0.25)),
        reading("m2", call(20, 6), made_with("large", cost=0.5), start=2),
        reading("m3", call(7, 1), made_with("small"), start=4),
        reading("m4", call(8, 2), made_with("small"), start=6),
        reading("m5", call(1, 1), start=8),
    )
    unpriced = {"small": (15, 3), "": (1, 1)}
    assert trajectory.tokens == Tokens(input=46, output=15, cost=0.75, unpriced=unpriced)


def test_the_cost_on_a_span_around_model_calls_is_not_added_to_theirs():
    trajectory = joined(
        reading("all", call(30, 11), made_with("large", cost=0.75), end=9),
        reading("m1", call(10, 5), made_with("large", cost=0.25), parent="all", start=1),
        reading("m2", call(20, 6), made_with("large", cost=0.5), parent="all", start=3),
    )
    assert trajectory.tokens == Tokens(input=30, output=11, cost=0.75)
