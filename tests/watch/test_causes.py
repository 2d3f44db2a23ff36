"""The recorded properties that explain a drop of scores."""

from collections.abc import Iterable

from tests.rows import each_row
from toolgauge.model.regressions import Change
from toolgauge.settings import SECOND
from toolgauge.watch.causes import MAX_OBSERVATIONS, MAX_VALUES, NewestObservations
from tools.bench.causes import CAUSES, named

MODEL, PROMPT, ERRORS = "gen_ai.response.model", "gen_ai.prompt.version", "toolgauge.tool.errors find_order"
ARGUMENTS, SHAPES = "toolgauge.tool.arguments refund", ("number", "string")


def filled(observations: Iterable[tuple[float, dict[str, str]]]) -> NewestObservations:
    newest = NewestObservations()
    for number, (score, fingerprint) in enumerate(observations):
        newest.add(score, number * SECOND, fingerprint)
    return newest


def score(number: int, every: int) -> float:
    return float(number % every != 0)


def switched(*names: str) -> list[tuple[float, dict[str, str]]]:
    """100 conversations of which every 20th fails; then 40 with new values of these properties, of which every 2nd does."""
    unchanged = {MODEL: "A", PROMPT: "A"}
    old = [(score(number, 20), unchanged) for number in range(100)]
    new = [(score(number, 2), {**unchanged, **dict.fromkeys(names, "B")}) for number in range(40)]
    return [*old, *new]


def test_the_property_that_changed_with_the_scores_is_the_cause() -> None:
    (cause,) = filled(switched(MODEL)).causes(40)
    assert cause.changes == (Change(property=MODEL, of=None, before="A", after="B"),)
    assert (cause.since_ns, cause.conversations, cause.of) == (100 * SECOND, 40, 40)
    assert (cause.mean, cause.others) == (0.5, 0.95)


def test_properties_that_changed_in_the_same_conversations_are_named_together() -> None:
    (cause,) = filled(switched(MODEL, PROMPT)).causes(40)
    assert {change.property for change in cause.changes} == {MODEL, PROMPT}


def test_a_canary_is_set_beside_the_conversations_of_its_time() -> None:
    old = [(score(number, 20), {MODEL: "A"}) for number in range(100)]
    new = [(0.0, {MODEL: "B"}) if number % 5 == 0 else (1.0, {MODEL: "A"}) for number in range(50)]
    (cause,) = filled([*old, *new]).causes(50)
    assert (cause.conversations, cause.of, cause.mean) == (10, 50, 0.0)


@each_row("begun", [140, 150, 155, 160])
def test_behaviour_comes_after_the_model_that_began_when_the_scores_dropped(begun: int) -> None:
    # It fits the scores better than the model does: each of these conversations fails, and no other.
    def observations() -> Iterable[tuple[float, dict[str, str]]]:
        for number in range(200):
            is_wrong = number % (30 if number < 150 else 2) == 0
            yield float(not is_wrong), {MODEL: "A" if number < begun else "B", ARGUMENTS: "amount:" + SHAPES[is_wrong]}

    model, arguments = filled(observations()).causes(50)
    assert model.changes == (Change(property=MODEL, of=None, before="A", after="B"),)
    assert arguments.changes[0].after == "amount:string"


def test_errors_of_another_kind_come_after_the_property_that_explains_them() -> None:
    def observations(model: str) -> Iterable[tuple[float, dict[str, str]]]:
        for number in range(160):
            one = score(number, 10 if number < 120 else 2)
            kind = "none" if one else "timeout" if number < 120 else "rate_limited"
            yield one, {MODEL: "A" if number < 120 else model, ERRORS: kind}

    with_model = filled(observations("B")).causes(40)
    assert [cause.changes[0].property for cause in with_model] == [MODEL, "toolgauge.tool.errors"]
    (alone,) = filled(observations("A")).causes(40)
    assert alone.changes == (
        Change(property="toolgauge.tool.errors", of="find_order", before="none", after="rate_limited"),
    )


def test_without_observations_before_the_drop_it_is_not_said_that_nothing_changed() -> None:
    newest = filled(switched(MODEL))
    assert (newest.compared(40), newest.compared(130)) == (2, 0)
    assert newest.causes(130) == newest.causes(105) != ()
    assert filled(switched(MODEL)[90:]).causes(40) == ()


def test_observations_and_values_are_bounded() -> None:
    newest = filled((1.0, {MODEL: "A", PROMPT: str(number)}) for number in range(3 * MAX_OBSERVATIONS))
    assert MAX_OBSERVATIONS <= len(newest.times) < MAX_OBSERVATIONS + 50
    assert len(newest.dump()) < 4000
    column = newest._columns[PROMPT]  # pyright: ignore[reportPrivateUsage] - what is kept
    assert len(column.places) == len(newest.times)
    assert (len(column.values), max(column.places)) == (MAX_VALUES - 1, MAX_VALUES)


def test_a_restart_changes_no_cause() -> None:
    newest = filled(switched(MODEL))
    assert NewestObservations.load(newest.dump()).causes(40) == newest.causes(40)
    assert NewestObservations.load(b"").causes(1) == ()


@each_row("kind", [*CAUSES, "none", "together"])
def test_most_causes_are_named_first(kind: str) -> None:
    causes = ("service version", "model") if kind == "together" else () if kind == "none" else (kind,)
    right, alarms, _ = named(kind, causes, streams=4, seed=7)
    assert alarms >= 3
    assert right >= alarms - 1
