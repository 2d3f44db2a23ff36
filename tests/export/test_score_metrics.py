import math

from msgspec.structs import replace

from tests.export.fakes import counted
from tests.export.scorecards import (
    SCORED_NS,
    TOOL_SPAN,
    TRACE,
    call,
    call_result,
    emitter,
    failed,
    passed,
    scorecard,
    trajectory,
    trajectory_result,
)
from toolgauge.export.results import EmitSettings
from toolgauge.export.settings import MetricsSettings
from toolgauge.model.content import Recorded
from toolgauge.model.metrics import Counter, Exemplar, Gauge, Histogram, Labels, MetricRegistry
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.outcomes import Errored, NotEvaluated
from toolgauge.model.records import SpanRef

CALL_STREAM = ("support", "", "", "refund-agent", "issue_refund", "refund-arguments", "9f86d081884c", "call", "")
TRAJECTORY_STREAM = ("support", "", "", "triage", "", "refund-f1", "9f86d081884c", "trajectory", "")


def counter_of(registry: MetricRegistry, name: str) -> Counter:
    (found,) = (metric for metric in registry if metric.name == name)
    assert isinstance(found, Counter)
    return found


def counts(registry: MetricRegistry, name: str) -> dict[Labels, float]:
    return counted(counter_of(registry, name))


def scores(registry: MetricRegistry) -> Histogram:
    (found,) = (metric for metric in registry if metric.name == "toolgauge.evaluation.score")
    assert isinstance(found, Histogram)
    return found


def label_sets(registry: MetricRegistry) -> float:
    (found,) = (metric for metric in registry if metric.name == "toolgauge.labels.label_sets")
    assert isinstance(found, Gauge)
    return found.current()[()]


def test_a_score_is_counted_under_its_stream():
    registry = MetricRegistry()
    emitter(registry=registry).record(scorecard(call_result(failed(0.25)), trajectory_result(passed(1))))
    histogram = scores(registry)
    assert histogram.labels == (
        "toolgauge.service",
        "service.version",
        "deployment.environment.name",
        "gen_ai.agent.name",
        "gen_ai.tool.name",
        "gen_ai.evaluation.name",
        "toolgauge.criterion.revision",
        "toolgauge.level",
        "toolgauge.enforce",
    )
    assert histogram.bounds == (0, 0.5, 0.999)
    assert set(histogram.cells) == {CALL_STREAM, TRAJECTORY_STREAM}
    # Upper bounds are inclusive; a perfect score is in the overflow.
    assert histogram.cells[CALL_STREAM].counts == [0, 1, 0, 0]
    assert histogram.cells[TRAJECTORY_STREAM].counts == [0, 0, 0, 1]
    assert histogram.cells[CALL_STREAM].sum == 0.25
    assert counts(registry, "toolgauge.evaluations") == {
        (*CALL_STREAM, "fail", ""): 1,
        (*TRAJECTORY_STREAM, "pass", ""): 1,
    }


def test_only_the_criteria_that_are_kept_keep_their_cells_and_their_room_under_the_cap():
    registry = MetricRegistry()
    recorder = emitter(EmitSettings(metrics=MetricsSettings(max_label_sets=5)), registry=registry)
    for number in range(50):
        old = replace(call_result(failed(0.25)), revision=f"revision-{number}")
        recorder.record(scorecard(old))
        recorder.keep({("refund-arguments", f"revision-{number}"), ("another", "x")})
        (stream,) = scores(registry).cells
        assert stream == (*CALL_STREAM[:6], f"revision-{number}", *CALL_STREAM[7:])
        assert set(counts(registry, "toolgauge.evaluations")) == {(*stream, "fail", "")}
    assert counts(registry, "toolgauge.labels.capped") == {}


def test_what_is_no_score_is_counted_and_in_no_histogram():
    registry = MetricRegistry()
    emitter(registry=registry).record(
        scorecard(
            call_result(NotEvaluated(reason="no_reference")),
            call_result(Errored(error_type="ValueError", message="")),
            call_result(passed(math.nan)),
        )
    )
    assert scores(registry).cells == {}
    assert counts(registry, "toolgauge.evaluations") == {
        (*CALL_STREAM, "not_evaluated", "no_reference"): 1,
        (*CALL_STREAM, "error", ""): 2,
    }


def test_calls_and_trajectories_are_counted_and_those_of_a_conversation_not_again():
    registry = MetricRegistry()
    by = emitter(registry=registry)
    broken = call("look_up", error=CallError(kind="TimeoutError", message="late"))
    invented = replace(call("invented"), state="requested_only", agent=None)
    of_trace = trajectory(call(), call(), broken, invented)
    by.record(scorecard(of=of_trace))
    by.record(scorecard(of=replace(of_trace, scope="conversation", closed_because="conversation_idle")))
    executed = ("support", "", "", "refund-agent", "look_up", "executed", "TimeoutError", "")
    assert counts(registry, "toolgauge.tool_calls") == {
        ("support", "", "", "refund-agent", "issue_refund", "executed", "", ""): 2,
        executed: 1,
        ("support", "", "", "", "invented", "requested_only", "", ""): 1,
    }
    assert counts(registry, "toolgauge.trajectories") == {("run_ended",): 1, ("conversation_idle",): 1}
    (exemplar,) = counter_of(registry, "toolgauge.tool_calls").exemplars.items()
    assert exemplar == (executed, Exemplar(value=1.0, time_ns=SCORED_NS, trace_id=TRACE, span_id=TOOL_SPAN.span_id))


def test_a_failed_call_that_was_made_good_is_recovered():
    registry = MetricRegistry()
    failing = call("pay", error=CallError(kind="Timeout", message=""))
    later = replace(call("pay"), order=1, turn=1)
    lost = replace(call("find", error=CallError(kind="Timeout", message="")), order=2, turn=2)
    emitter(registry=registry).record(scorecard(of=trajectory(failing, later, lost)))
    found = counts(registry, "toolgauge.tool_calls")
    assert {labels[4:]: count for labels, count in found.items()} == {
        ("pay", "executed", "Timeout", "true"): 1,
        ("pay", "executed", "", ""): 1,
        ("find", "executed", "Timeout", ""): 1,
    }


UNOBSERVED = "toolgauge.tool_calls.unobserved"


def test_what_was_not_recorded_of_calls_is_counted_by_reason():
    registry = MetricRegistry()
    tools = (ToolDefinition(name="pay", parameters={}), ToolDefinition(name="find"))
    unseen = call("pay")
    asked = replace(call("find"), arguments=Recorded({}), state="requested_only")
    emitter(registry=registry).record(scorecard(of=replace(trajectory(unseen, unseen, asked), tools_offered=tools)))
    who = ("support", "", "", "refund-agent")
    missing = {"arguments_not_recorded": 2, "results_not_recorded": 1, "no_schema": 1}
    assert counter_of(registry, UNOBSERVED).cells == {(*who, reason): count for reason, count in missing.items()}


def test_calls_that_were_made_and_not_recorded_are_counted_under_the_first_agent():
    registry = MetricRegistry()
    emitter(registry=registry).record(scorecard(of=replace(trajectory(), hidden_turns=3)))
    assert counts(registry, UNOBSERVED) == {("support", "", "", "triage", "no_content"): 3}
    of_conversation = replace(trajectory(), hidden_turns=3, scope="conversation")
    emitter(registry=(other := MetricRegistry())).record(scorecard(of=of_conversation))
    assert counts(other, UNOBSERVED) == {}


def test_an_agent_is_counted_as_unobserved_as_long_as_one_of_its_tools_is():
    traffic = Traffic(MetricsSettings(max_tools=2))
    traffic.call("old")
    traffic.call("busy", minute=50)
    traffic.call("late", minute=60)
    assert counts(traffic.registry, UNOBSERVED)["shop", "", "", "a", "no_tool_offer"] == 3


def test_tools_over_the_cap_become_other_and_are_counted():
    registry = MetricRegistry()
    counter = emitter(EmitSettings(metrics=MetricsSettings(max_tools=2)), registry)
    for name in ("a", "b", "c", "d", "a"):
        counter.record(scorecard(call_result(passed(), call(name)), of=trajectory()))
    assert {labels[4]: cell.count for labels, cell in scores(registry).cells.items()} == {"a": 2, "b": 1, "_other": 2}
    assert counts(registry, "toolgauge.labels.capped") == {("gen_ai.tool.name",): 2}


def test_label_sets_are_capped_and_all_outcomes_of_a_stream_stay_together():
    registry = MetricRegistry()
    # One for the runs of the agent.
    counter = emitter(EmitSettings(metrics=MetricsSettings(max_label_sets=3)), registry)
    for name in ("a", "b", "c"):
        results = (call_result(passed(), call(name)), call_result(failed(), call(name)))
        counter.record(scorecard(*results, of=trajectory()))
    evaluations = counts(registry, "toolgauge.evaluations")
    assert {(labels[4], labels[-2]): count for labels, count in evaluations.items()} == {
        ("a", "pass"): 1,
        ("a", "fail"): 1,
        ("b", "pass"): 1,
        ("b", "fail"): 1,
        ("_other", "pass"): 1,
        ("_other", "fail"): 1,
    }
    assert {labels[0] for labels in evaluations} == {"support", "_other"}
    assert counts(registry, "toolgauge.labels.capped") == {("label_sets",): 2}
    assert label_sets(registry) == 3


def test_label_values_are_short_and_without_control_characters():
    registry = MetricRegistry()
    name = "re\nfund\x00\ud800\u0085" + "x" * 1000
    emitter(registry=registry).record(scorecard(call_result(passed(), call(name))))
    (labels,) = scores(registry).cells
    assert labels[4] == "re\ufffdfund\ufffd\ufffd\ufffd" + "x" * 118
    assert len(labels[4]) == 128


def test_a_name_that_is_not_known_is_an_absent_label_and_never_capped():
    registry = MetricRegistry()
    of = replace(trajectory(), service=None)
    emitter(
        EmitSettings(metrics=MetricsSettings.model_construct(max_services=0, max_agents=0, max_label_sets=0)), registry
    ).record(scorecard(call_result(passed(), replace(call(), agent=None)), of=of))
    (labels,) = scores(registry).cells
    assert labels[:5] == ("", "", "", "", "_other")


VERSION, ENVIRONMENT = "service.version", "deployment.environment.name"
MINUTE_NS = 60 * 1_000_000_000


class Traffic:
    """Scorecards of one call each, at times of minutes."""

    def __init__(self, settings: MetricsSettings | None = None) -> None:
        self.registry = MetricRegistry()
        self._emitter = emitter(EmitSettings(metrics=settings or MetricsSettings()), self.registry)

    def call(
        self, tool: str = "pay", *, minute: float = 0, service: str = "shop", agent: str = "a", **resource: str
    ) -> None:
        judged = replace(call(tool), agent=agent)
        of = replace(trajectory(judged), service=service, resource=resource)
        card = scorecard(call_result(passed(), judged), of=of)
        self._emitter.record(replace(card, scored_at_ns=SCORED_NS + int(minute * MINUTE_NS)))

    def release(self, version: str, *, minute: float = 0, service: str = "shop") -> None:
        self.call(minute=minute, service=service, **{VERSION: version})

    def by_service(self) -> dict[str, dict[tuple[str, str], float]]:
        """Count evaluations by agent and tool, for each service."""
        found: dict[str, dict[tuple[str, str], float]] = {}
        for labels, count in counts(self.registry, "toolgauge.evaluations").items():
            found.setdefault(labels[0], {})[labels[3], labels[4]] = count
        return found

    def evaluated(self, place: int) -> dict[str, float]:
        """Count evaluations by the label at this place."""
        found: dict[str, float] = {}
        for labels, count in counts(self.registry, "toolgauge.evaluations").items():
            found[labels[place]] = found.get(labels[place], 0) + count
        return found

    def versions(self) -> dict[str, float]:
        return self.evaluated(1)

    def capped(self) -> dict[Labels, float]:
        return counts(self.registry, "toolgauge.labels.capped")


def test_configured_attributes_are_labels_in_their_order():
    registry = MetricRegistry()
    settings = EmitSettings(metrics=MetricsSettings(resource_attributes=("region", VERSION)))
    of = replace(trajectory(call()), resource={VERSION: "1.1", "region": "north", ENVIRONMENT: "prod"})
    emitter(settings, registry).record(scorecard(call_result(passed()), of=of))
    (labels,) = scores(registry).cells
    assert scores(registry).labels[:4] == ("toolgauge.service", "region", VERSION, "gen_ai.agent.name")
    assert labels[:4] == ("support", "north", "1.1", "refund-agent")


def test_models_are_labels_where_asked_for_and_ten_of_a_service_have_series():
    registry = MetricRegistry()
    one = emitter(EmitSettings(metrics=MetricsSettings(run_attributes=("gen_ai.response.model",))), registry)
    for number in range(30):
        of = replace(trajectory(call()), properties={"gen_ai.response.model": f"large-{number}"})
        one.record(scorecard(call_result(passed()), of=of))
    assert scores(registry).labels[3:5] == ("gen_ai.response.model", "gen_ai.agent.name")
    assert {labels[3] for labels in scores(registry).cells} == {"_other", *(f"large-{number}" for number in range(10))}
    # Calls, results and runs of twenty models.
    assert counts(registry, "toolgauge.labels.capped") == {("gen_ai.response.model",): 60}


def test_ten_releases_of_a_service_have_series_and_an_idle_one_gives_way_to_a_newer():
    traffic = Traffic()
    for number in range(11):
        traffic.release(f"1.{number}")
    assert traffic.versions() == {**{f"1.{number}": 1 for number in range(10)}, "_other": 1}
    # Each call is a measurement of tool calls, one of evaluations, and one of a run.
    assert traffic.capped() == {(VERSION,): 3}
    traffic.release("1.0", minute=30)
    traffic.release("2.0", minute=61)
    assert traffic.versions() == {"1.0": 2, "2.0": 1}


def test_a_tool_idle_for_an_hour_gives_its_place_to_one_that_needs_it():
    traffic = Traffic(MetricsSettings(max_tools=2))
    traffic.call("old")
    traffic.call("busy")
    traffic.call("busy", minute=50)
    traffic.call("early", minute=59)
    assert traffic.evaluated(4) == {"old": 1, "busy": 2, "_other": 1}
    traffic.call("late", minute=60)
    assert traffic.evaluated(4) == {"busy": 2, "_other": 1, "late": 1}
    assert {labels[4] for labels in counter_of(traffic.registry, "toolgauge.tool_calls").cells} == {
        "busy",
        "_other",
        "late",
    }
    assert traffic.capped() == {("gen_ai.tool.name",): 2}


def test_an_idle_label_set_gives_its_place_to_one_that_needs_it():
    # One for evaluations, one for tool calls, one for runs.
    traffic = Traffic(MetricsSettings(max_label_sets=3))
    traffic.call("old")
    traffic.call("early", minute=59)
    traffic.call("new", minute=60)
    assert traffic.evaluated(4) == {"_other": 1, "new": 1}
    assert label_sets(traffic.registry) == 3


def test_passes_and_failures_begin_with_the_first_score_and_failures_have_an_exemplar():
    registry = MetricRegistry()
    by = emitter(registry=registry)
    by.record(scorecard(call_result(passed())))
    cells = counter_of(registry, "toolgauge.evaluations").cells
    assert cells == {(*CALL_STREAM, "pass", ""): 1, (*CALL_STREAM, "fail", ""): 0}
    by.record(scorecard(call_result(failed()), call_result(Errored(error_type="E", message=""))))
    exemplar = Exemplar(value=1.0, time_ns=SCORED_NS, trace_id=TRACE, span_id=TOOL_SPAN.span_id)
    assert counter_of(registry, "toolgauge.evaluations").exemplars == {
        (*CALL_STREAM, "fail", ""): exemplar,
        (*CALL_STREAM, "error", ""): exemplar,
    }


def test_a_criterion_that_cannot_fail_counts_no_failures_and_has_no_buckets():
    registry = MetricRegistry()
    emitter(registry=registry).record(scorecard(replace(call_result(passed(0.25)), can_fail=False)))
    assert counter_of(registry, "toolgauge.evaluations").cells == {(*CALL_STREAM, "pass", ""): 1}
    cell = scores(registry).cells[CALL_STREAM]
    assert (cell.bounds, cell.counts, cell.sum) == ((), [1], 0.25)


def test_calls_of_a_scorecard_with_equal_scores_are_counted_with_the_exemplar_of_the_last():
    registry = MetricRegistry()
    by = emitter(registry=registry)
    calls = [call(span=SpanRef(TRACE, f"{number:016x}")) for number in (1, 2, 3)]
    for times in (1, 2):
        by.record(scorecard(*(call_result(failed(0.25), one) for one in calls)))
        assert counter_of(registry, "toolgauge.evaluations").cells[*CALL_STREAM, "fail", ""] == 3 * times
        cell = scores(registry).cells[CALL_STREAM]
        assert (cell.count, cell.sum) == (3 * times, 0.75 * times)
        assert [one.span_id for one in cell.exemplars if one is not None] == [f"{3:016x}"]


def test_types_of_errors_are_twenty_at_most():
    registry = MetricRegistry()
    kinds = [*(f"E{number}" for number in range(25)), "", "_OTHER", "E3"]
    calls = [call(error=CallError(kind=kind, message="")) for kind in kinds]
    emitter(registry=registry).record(scorecard(of=trajectory(*calls)))
    found = {labels[-2]: count for labels, count in counts(registry, "toolgauge.tool_calls").items()}
    assert found == {**dict.fromkeys((f"E{number}" for number in range(20)), 1), "E3": 2, "_OTHER": 7}


def test_types_of_errors_of_one_service_leave_room_for_those_of_another():
    registry = MetricRegistry()
    by = emitter(registry=registry)
    for service, kind in (*(("hostile", f"E{number}") for number in range(25)), ("shop", "Timeout")):
        error = CallError(kind=kind, message="")
        by.record(scorecard(of=replace(trajectory(replace(call("pay"), error=error)), service=service)))
    assert (
        counts(registry, "toolgauge.tool_calls")["shop", "", "", "refund-agent", "pay", "executed", "Timeout", ""] == 1
    )
    assert counts(registry, "toolgauge.labels.capped") == {("error.type",): 5}


def test_a_call_without_a_name_counts_under_none():
    registry = MetricRegistry()
    emitter(registry=registry).record(scorecard(call_result(passed(), call("")), of=trajectory()))
    assert {labels[4] for labels in scores(registry).cells} == {""}
