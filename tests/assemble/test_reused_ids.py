"""Calls whose producer uses one call id again within a trace: each has its own answer, or none."""

from tests.assemble.support import answered, args, joined, model, reading, requested
from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.observations import CallAnswered
from toolgauge.model.trajectory import Trajectory


def results(trajectory: Trajectory) -> list[tuple[str, str, object]]:
    """Return the name, state and result of all calls."""
    return [
        (call.name, call.state, call.result.value if isinstance(call.result, Recorded) else call.result)
        for call in trajectory.calls
    ]


def test_a_call_that_never_ran_is_not_given_the_answer_that_its_model_was_given():
    trajectory = joined(
        reading("ask1", model(), requested("find", args(n=1), id="c0"), start=0),
        reading("ask2", model(), answered("c0", "found"), requested("charge", args(n=2), id="c0"), start=2),
    )
    assert results(trajectory) == [("find", "executed", "found"), ("charge", "requested_only", NOT_RECORDED)]


def test_a_model_that_is_asked_again_with_the_same_history_answers_no_call():
    trajectory = joined(
        reading("ask1", model(), requested("find", args(n=1), id="c0"), start=0),
        reading("ask2", model(), answered("c0", "found"), requested("charge", args(n=2), id="c0"), start=2),
        reading("ask3", model(), answered("c0", "found"), requested("charge", args(n=3), id="c0"), start=4),
        reading("ask4", model(), answered("c0", "found"), answered("c0", "charged"), start=6),
    )
    assert results(trajectory) == [
        ("find", "executed", "found"),
        ("charge", "requested_only", NOT_RECORDED),
        ("charge", "executed", "charged"),
    ]


def test_an_answer_in_the_output_is_that_of_its_call():
    ran = CallAnswered(call_id="c0", result=Recorded("found"), by_provider=True)
    trajectory = joined(
        reading("ask1", model(), requested("find", args(n=1), id="c0"), start=0),
        reading("ask2", model(), requested("search", args(n=1), id="c0"), ran, start=2),
    )
    assert results(trajectory)[1] == ("search", "executed", "found")
