"""Runs as histograms of tokens, time and cost by outcome, and what a successful run takes."""

import pytest
from msgspec.structs import replace

from tests.export.scorecards import (
    SCORED_NS,
    call_result,
    emitter,
    failed,
    passed,
    scorecard,
    shadow,
    trajectory,
)
from tests.rows import each_row
from toolgauge.export.redact import Redactor
from toolgauge.export.results import EmitSettings
from toolgauge.export.run_usage import CostSettings, RunOutcome, RunTotals, RunUsage, RunUsageReader
from toolgauge.export.settings import MetricsSettings
from toolgauge.model.metrics import Histogram, Labels, MetricRegistry
from toolgauge.model.outcomes import NotEvaluated, Result, Scorecard
from toolgauge.model.trajectory import Tokens
from toolgauge.settings import HOUR, Prices

TOKENS = Tokens(input=1000, output=200, unpriced={"large-05": (1000, 200)})
LARGE = Prices(input_per_million=2.0, output_per_million=10.0)


def run(*results: Result, tokens: Tokens | None = TOKENS, service: str = "support") -> Scorecard:
    return scorecard(*results, of=replace(trajectory(), tokens=tokens, service=service))


def judged(outcome: str = "pass", criterion: str = "default.tool_success") -> Result:
    return call_result(passed() if outcome == "pass" else failed(), criterion=criterion)


def usage(card: Scorecard, **costs: object) -> RunUsage:
    found = RunUsageReader(CostSettings.model_validate(costs)).read(card)
    assert found is not None
    return found


def histograms(registry: MetricRegistry) -> dict[str, dict[Labels, tuple[int, float]]]:
    return {
        metric.name.removeprefix("toolgauge.trajectory."): {
            labels: (cell.count, cell.sum) for labels, cell in metric.cells.items()
        }
        for metric in registry
        if isinstance(metric, Histogram) and metric.name.startswith("toolgauge.trajectory.")
    }


def test_a_run_is_counted_by_its_outcome_with_what_it_took() -> None:
    registry = MetricRegistry()
    counter = emitter(EmitSettings(costs=CostSettings(prices={"large*": LARGE})), registry)
    counter.record(run(judged()))
    counter.record(run(judged("fail")))
    counter.record(run(judged("fail")))
    who = ("support", "", "", "triage")
    found = histograms(registry)
    assert found["tokens"] == {(*who, "pass"): (1, 1200.0), (*who, "fail"): (2, 2400.0)}
    assert found["duration"] == {(*who, "pass"): (1, 2.0), (*who, "fail"): (2, 4.0)}
    assert found["cost"] == {(*who, "pass"): (1, pytest.approx(0.004)), (*who, "fail"): (2, pytest.approx(0.008))}


@each_row(("lasted_ns", "seconds"), [(29 * 24 * HOUR, 29 * 86_400), (50 * 365 * 24 * HOUR, None), (-1, None)])
def test_a_run_between_clocks_that_are_years_apart_has_no_duration(lasted_ns: int, seconds: float | None) -> None:
    of = trajectory()
    assert usage(scorecard(judged(), of=replace(of, end_ns=of.start_ns + lasted_ns))).duration == seconds


def test_without_tokens_or_prices_nothing_is_counted_instead_of_0() -> None:
    registry = MetricRegistry()
    counter = emitter(registry=registry)
    counter.record(run(judged(), tokens=None))
    assert {name: len(cells) for name, cells in histograms(registry).items()} == {"tokens": 0, "duration": 1, "cost": 0}
    counter.record(run(judged()))
    assert {name: len(cells) for name, cells in histograms(registry).items()} == {"tokens": 1, "duration": 1, "cost": 0}


def test_prices_and_criteria_of_success_are_adopted_while_it_runs() -> None:
    registry = MetricRegistry()
    counter = emitter(registry=registry)
    counter.record(run(judged(), judged("fail", "refund-rule")))
    costs = CostSettings(currency="EUR", prices={"*": LARGE}, success=("*",))
    counter.adopt(EmitSettings(costs=costs), Redactor(show_values=False))
    counter.record(run(judged(), judged("fail", "refund-rule")))
    found = histograms(registry)
    assert {labels[-1]: count for labels, (count, _) in found["tokens"].items()} == {"pass": 1, "fail": 1}
    assert {labels[-1]: count for labels, (count, _) in found["cost"].items()} == {"fail": 1}
    (cost,) = (metric for metric in registry if metric.name == "toolgauge.trajectory.cost")
    assert (cost.unit, cost.description) == ("{EUR}", "Cost of a run in EUR, recorded or by `costs.prices`.")


def test_conversations_and_late_results_are_no_runs_of_their_own() -> None:
    card = run(judged())
    reader = RunUsageReader(CostSettings())
    assert reader.read(replace(card, by_judges=True)) is None
    assert reader.read(replace(card, trajectory=replace(card.trajectory, scope="conversation"))) is None


@each_row(
    ("results", "success", "outcome"),
    [
        ((judged(),), ("default.*",), "pass"),
        ((judged(), judged("fail", "default.known_tool")), ("default.*",), "fail"),
        ((judged(), judged("fail", "refund-rule")), ("default.*",), "pass"),
        ((judged(), judged("fail", "refund-rule")), ("refund-*",), "fail"),
        ((judged(), judged("fail", "refund-rule")), ("*",), "fail"),
        (
            (judged(), call_result(NotEvaluated(reason="no_calls"), criterion="default.coverage")),
            ("default.*",),
            "pass",
        ),
        ((call_result(NotEvaluated(reason="no_calls"), criterion="default.x"),), ("default.*",), "not_evaluated"),
        ((judged(), shadow(judged("fail"))), ("default.*",), "pass"),
        ((replace(judged(), can_fail=False),), ("default.*",), "not_evaluated"),
        ((), ("default.*",), "not_evaluated"),
    ],
)
def test_named_criteria_decide_whether_a_run_succeeded(
    results: tuple[Result, ...], success: tuple[str, ...], outcome: str
) -> None:
    assert usage(run(*results), success=success).outcome == outcome


@each_row(
    ("tokens", "cost"),
    [
        (TOKENS, 0.004),
        # Of several prices the first that fits counts.
        (Tokens(input=1000, output=0, unpriced={"large-mini": (1000, 0)}), 0.0),
        (Tokens(input=1000, output=0, cost=0.5), 0.5),
        (Tokens(input=2000, output=0, cost=0.5, unpriced={"large-05": (1000, 0)}), 0.502),
        (Tokens(input=2000, output=0, cost=0.5, unpriced={"other": (1000, 0)}), None),
        (Tokens(input=1000, output=0, unpriced={"": (1000, 0)}), None),
        (Tokens(input=0, output=0), None),
        (None, None),
    ],
)
def test_the_cost_of_a_run_is_known_where_that_of_all_its_models_is(tokens: Tokens | None, cost: float | None) -> None:
    free = Prices(input_per_million=0, output_per_million=0)
    found = usage(run(judged(), tokens=tokens), prices={"large-mini*": free, "large*": LARGE}).cost
    assert found == (cost if cost is None else pytest.approx(cost))


def test_an_agent_that_gives_up_its_place_has_no_runs_any_more() -> None:
    registry = MetricRegistry()
    counter = emitter(EmitSettings(metrics=MetricsSettings(max_services=1)), registry)
    counter.record(run(judged(), service="old"))
    hour_ns = 3600 * 10**9
    counter.record(replace(run(judged(), service="new"), scored_at_ns=SCORED_NS + hour_ns))
    assert [labels[0] for labels in histograms(registry)["tokens"]] == ["new"]
    counter.record(replace(run(judged(), service="new"), scored_at_ns=SCORED_NS + hour_ns))
    assert histograms(registry)["tokens"] == {("new", "", "", "triage", "pass"): (2, 2400.0)}


def test_failed_work_counts_and_what_was_not_recorded_is_no_0() -> None:
    totals = RunTotals()
    runs: tuple[tuple[RunOutcome, float | None], ...] = (
        ("pass", 100.0),
        ("fail", 300.0),
        ("not_evaluated", 20.0),
        ("pass", None),
    )
    for outcome, tokens in runs:
        totals.add(RunUsage(outcome, tokens, 2.0, None))
    assert totals.summary().of_success == {"tokens": 420.0, "duration": 4.0, "cost": None}
    assert totals.summary().recorded == {"tokens": 3, "duration": 4, "cost": 0}


def test_where_none_succeeded_there_is_no_figure_for_a_success() -> None:
    totals = RunTotals()
    totals.add(RunUsage("fail", 300.0, 2.0, None))
    assert (totals.summary().of_success["tokens"], totals.summary().recorded["tokens"]) == (None, 1)
