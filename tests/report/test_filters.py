"""Which trajectories a page shows."""

from msgspec.structs import replace

from tests.export.scorecards import call, failed, passed, shadow, trajectory, trajectory_result
from tests.rows import each_row
from toolgauge.model.outcomes import Errored, NotEvaluated, Result, Scorecard
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.trajectory_rows import TrajectoryFilters

BROKEN = Errored(error_type="ValueError", message="no number")
NOTHING = NotEvaluated(reason="no_reference")


def kept(*results: Result, of: Trajectory | None = None) -> Scorecard:
    calls = tuple(result.call for result in results if result.call is not None)
    return Scorecard(trajectory=trajectory(*calls) if of is None else of, results=results, scored_at_ns=0)


SHOP = replace(
    trajectory(call("search"), call("pay")),
    service="shop",
    agents=("buyer",),
    resource={VERSION: "1.4.2"},
    properties={"gen_ai.response.model": "large-06", "gen_ai.request.temperature": "0"},
    trace_id="ab12",
)


@each_row(
    ("query", "is_shown"),
    [
        ({}, True),
        ({"service": ("shop",)}, True),
        ({"service": ("support",)}, False),
        ({"service": ("", "shop")}, True),
        ({"agent": ("buyer",)}, True),
        ({"agent": ("triage",)}, False),
        ({"tool": ("pay",)}, True),
        ({"tool": ("issue_refund",)}, False),
        ({"criterion": ("refund-f1",)}, True),
        ({"criterion": ("other",)}, False),
        ({"version": ("1.4.2",)}, True),
        ({"version": ("1.4.3",)}, False),
        ({"scope": ("trace",)}, True),
        ({"scope": ("conversation",)}, False),
        ({"scope": ("nonsense",)}, True),
        ({"run_property": ("gen_ai.response.model=large-06",)}, True),
        ({"run_property": ("gen_ai.response.model=large",)}, False),
        ({"run_property": ("toolgauge.tool.errors pay=none",)}, True),
        ({"run_property": ("toolgauge.tool.errors refund=none",)}, False),
        ({"q": (" AB1 ",)}, True),
        ({"q": ("conv-",)}, True),
        ({"q": ("b12",)}, False),
        ({"unknown": ("value",)}, True),
    ],
)
def test_each_condition_has_to_hold(query: dict[str, tuple[str, ...]], is_shown: bool):  # noqa: FBT001 (a test's table)
    assert TrajectoryFilters.of(query).matches(kept(trajectory_result(passed()), of=SHOP)) is is_shown


@each_row(
    ("results", "expected"),
    [
        ((trajectory_result(passed()),), "passed"),
        ((trajectory_result(passed()), trajectory_result(NOTHING)), "passed"),
        ((trajectory_result(passed()), trajectory_result(failed())), "failed"),
        ((trajectory_result(passed()), trajectory_result(BROKEN)), "error"),
        ((trajectory_result(failed()), trajectory_result(BROKEN)), "failed error"),
        ((trajectory_result(passed()), shadow(trajectory_result(failed()))), "passed"),
        ((trajectory_result(NOTHING),), "not_evaluated"),
        ((shadow(trajectory_result(failed())),), "not_evaluated"),
        ((), "not_evaluated"),
    ],
)
def test_an_outcome_is_that_of_the_live_criteria(results: tuple[Result, ...], expected: str):
    found = [
        outcome
        for outcome in ("passed", "failed", "error", "not_evaluated")
        if TrajectoryFilters.of({"outcome": (outcome,)}).matches(kept(*results))
    ]
    assert " ".join(found) == expected
