"""What is said of very many calls is counted and written in steps, between which senders have their turn."""

from msgspec.structs import replace

from tests.export.scorecards import call, call_result, emitter, passed, scorecard, trajectory
from toolgauge.model.metrics import Counter, MetricRegistry
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.records import SpanRef

CALLS = 2000


def large_scorecard() -> Scorecard:
    calls = [replace(call(), span=SpanRef(trace_id="a" * 32, span_id=f"{number:016x}")) for number in range(CALLS)]
    return scorecard(*(call_result(passed(), judged) for judged in calls), of=trajectory(*calls))


def test_results_are_counted_in_steps():
    registry = MetricRegistry()
    steps = emitter(registry=registry).recording(large_scorecard())
    counted = next(metric for metric in registry if metric.name == "toolgauge.tool_calls")
    assert isinstance(counted, Counter)
    next(steps)
    assert 0 < sum(counted.current().values()) < CALLS
    assert len(list(steps)) > 10
    assert sum(counted.current().values()) == CALLS


def test_one_large_request_is_written_in_steps():
    said = list(emitter().encoding([large_scorecard()]))
    (traces, *_) = (place for place, outgoing in enumerate(said) if outgoing is not None)
    assert said[:traces].count(None) > 10
    assert said.count(None) > 30


def test_many_small_scorecards_are_written_in_steps():
    said = list(emitter().encoding([scorecard(call_result(passed()))] * 500))
    assert said.count(None) > 20
    assert sum(outgoing is not None for outgoing in said) == 2
