"""Which failed runs are one kind of failure."""

from msgspec.structs import replace

from tests.export.scorecards import (
    SCORED_NS,
    call,
    call_result,
    failed,
    passed,
    scorecard,
    trajectory,
    trajectory_result,
)
from toolgauge.export.redact import Redactor
from toolgauge.model.outcomes import Scorecard
from toolgauge.report.failure_groups import FailureGroup, failure_groups
from toolgauge.report.kept import TrajectoryStore


def run(number: int, *explanations: str, tool: str = "refund_order", version: str = "1.0") -> Scorecard:
    of = replace(trajectory(call(tool)), trace_id=f"{number:032x}", resource={"service.version": version})
    results = [call_result(failed(0.0, text), call(tool)) for text in explanations] or [trajectory_result(passed())]
    return replace(scorecard(*results, of=of), scored_at_ns=SCORED_NS + number)


def groups(*runs: Scorecard) -> list[FailureGroup]:
    store = TrajectoryStore(100, 1 << 30)
    for card in runs:
        store.add(card)
    return failure_groups(store.newest(), Redactor(show_values=False))


def test_failures_that_differ_in_values_and_ids_are_one_group():
    (group,) = groups(
        run(1, "`refund_order` failed: order A-17 is not there"),
        run(2, "`refund_order` failed: order B-9001 is not there", version="1.1"),
        run(3),
    )
    assert (group.service, group.criterion, group.tool) == ("support", "refund-arguments", "refund_order")
    assert group.why == "`refund_order` failed: order … is not there"
    assert (group.runs, group.of) == (2, 3)
    assert sorted(group.versions) == ["1.0", "1.1"]
    assert (group.first_ns, group.last_ns) == (SCORED_NS + 1, SCORED_NS + 2)
    assert group.example == f"{2:032x}"


def test_texts_in_quotation_marks_are_values():
    (group,) = groups(*(run(number, f'no "{name}" found') for number, name in enumerate(("Anna Berg", "Li"))))
    assert group.why == "no … found"


def test_other_tools_and_other_reasons_are_other_groups_the_largest_first():
    found = groups(
        run(1, "it failed with `KeyError`"),
        run(2, "it failed with `Timeout`"),
        run(3, "it failed with `Timeout`"),
        run(4, "it failed with `Timeout`", tool="find_order"),
    )
    assert [(group.tool, group.why, group.runs) for group in found] == [
        ("refund_order", "it failed with `Timeout`", 2),
        ("find_order", "it failed with `Timeout`", 1),
        ("refund_order", "it failed with `KeyError`", 1),
    ]


def test_runs_without_a_failure_make_no_group():
    assert groups(run(1)) == []
