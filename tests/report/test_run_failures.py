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
from tests.rows import each_row
from toolgauge.export.redact import Redactor
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import ERROR_RULE, Difference, Outcome, Result, Scorecard, Scored, Side
from toolgauge.report.run_failures import FailureGroup, FailureGroups, FailureKind, failure_kind
from toolgauge.web.trajectory_store import TrajectoryStore


def run(number: int, *explanations: str, tool: str = "refund_order", version: str = "1.0") -> Scorecard:
    of = replace(trajectory(call(tool)), trace_id=f"{number:032x}", resource={"service.version": version})
    results = [call_result(failed(0.0, text), call(tool)) for text in explanations] or [trajectory_result(passed())]
    return replace(scorecard(*results, of=of), scored_at_ns=SCORED_NS + number)


def groups(*runs: Scorecard) -> list[FailureGroup]:
    store = TrajectoryStore(100, 1 << 30)
    for card in runs:
        store.add(card)
    found = FailureGroups(Redactor(show_values=False))
    for kept in store.newest():
        found.add(kept)
    return found.groups()


def test_failures_that_differ_in_values_and_ids_are_one_group():
    (group,) = groups(
        run(1, "`refund_order` failed: order A-17 is not there"),
        run(2, "`refund_order` failed: order B-9001 is not there", version="1.1"),
        run(3),
    )
    assert (group.service, group.kind.criterion, group.kind.tool) == ("support", "refund-arguments", "refund_order")
    assert group.why == "`refund_order` failed: order … is not there"
    assert (group.runs, group.of) == (2, 3)
    assert sorted(group.versions) == ["1.0", "1.1"]
    assert (group.first_ns, group.last_ns) == (SCORED_NS + 1, SCORED_NS + 2)
    assert group.example == f"{2:032x}"


def test_other_tools_and_other_reasons_are_other_groups_the_largest_first():
    found = groups(
        run(1, "it failed with `KeyError`"),
        run(2, "it failed with `Timeout`"),
        run(3, "it failed with `Timeout`"),
        run(4, "it failed with `Timeout`", tool="find_order"),
    )
    assert [(group.kind.tool, group.why, group.runs) for group in found] == [
        ("refund_order", "it failed with `Timeout`", 2),
        ("find_order", "it failed with `Timeout`", 1),
        ("refund_order", "it failed with `KeyError`", 1),
    ]


def differing(value: str, explanation: str, *, where: str = "refund_order: amount", rule: str = "exact") -> Scored:
    difference = Difference(where=where, rule=rule, actual=Side(value=value))
    return Scored(value=0.0, explanation=explanation, differences=(difference,), passed=False)


def kinds_of(*outcomes: Outcome) -> set[FailureKind]:
    hidden = Redactor(show_values=False)
    return {failure_kind(call_result(outcome, call("refund_order")), hidden) for outcome in outcomes}


def test_argument_and_rule_are_the_kind_whatever_the_language_and_length_of_the_explanation():
    (kind,) = kinds_of(
        differing("12", "the amount is 12, not 20"),
        differing("zwölf", "der Betrag ist „zwölf“ statt „zwanzig“; und noch vieles mehr"),
        differing("\x1b[31m" + "9" * 5_000, '"' * 4_000),
    )
    assert kind == FailureKind("refund-arguments", "refund_order", "amount", "exact")


def test_a_failed_call_is_of_the_kind_of_its_error_and_not_of_its_message():
    def wrong(message: str, kind: str) -> Result:
        of = replace(call("refund_order"), error=CallError(kind=kind, message=message))
        return call_result(differing(message, f"it failed: {message}", where="refund_order", rule=ERROR_RULE), of)

    hidden = Redactor(show_values=False)
    kinds = [failure_kind(wrong(*each), hidden) for each in (("a", "KeyError"), ("b c", "KeyError"), ("a", "Timeout"))]
    assert kinds[0] == kinds[1] == FailureKind("refund-arguments", "refund_order", "", "KeyError")
    assert kinds[2].error == "Timeout"


@each_row(
    ("one", "other"),
    [
        ("no „Anna Berg“ found", "no „Li“ found"),
        ("no “Anna” found", "no “Li\nTao” found"),
        ("no «Anne» found", "no «Zoé et Léa» found"),
        ("no 「山田」 found", "no 「鈴木太郎」 found"),
        ("no 'Anna' found", "no 'Li Tao' found"),
        (f'it said "{"a" * 50}', f'it said "{"b" * 5_000}'),
        ("٣ calls failed", "١٢ calls failed"),
        ("it broke; in turn one", "it broke; in turn two, and more"),
    ],
)
def test_values_in_the_words_of_an_explanation_make_no_other_kind(one: str, other: str):
    assert len(kinds_of(failed(0.0, one), failed(0.0, other))) == 1


def test_groups_and_their_example_do_not_depend_on_the_order_of_runs():
    runs = [run(number, f"order {number} is lost", version="1.0") for number in range(5)]
    assert groups(*runs) == groups(*reversed(runs))
