"""The metrics of several processes as one, also when one of them dies."""

from toolgauge.model.metrics import Counter, Gauge, Histogram, Metric, MetricRegistry, snapshot
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.workers.channel import Frame, Kind, packed
from toolgauge.service.workers.merged_metrics import MergedRegistry, Snapshot

TO = "otlp"


def worker(*, received: int, forwarded: int, held: int, queued: int, recovered: int = 0) -> tuple[Metric, ...]:
    registry = MetricRegistry()
    metrics = SelfMetrics(registry)
    metrics.spans.add(received, ("received", "", ""))
    metrics.spans.add(forwarded, ("forwarded", "", TO))
    metrics.spans_recovered.add(recovered)
    metrics.spans_held.set(held)
    metrics.spans_queued.set(queued, (TO,))
    metrics.scoring_duration.record(0.01)
    return Frame(Kind.SNAPSHOT, 0, packed(Snapshot(snapshot(registry), {}, is_empty=False))).read(Snapshot).metrics


def front() -> MergedRegistry:
    registry = MergedRegistry(lambda: 0)
    SelfMetrics(registry)
    return registry


def books(registry: MergedRegistry) -> dict[str, float]:
    found: dict[str, float] = {}
    for metric in registry:
        if metric.name == "toolgauge.spans" and isinstance(metric, Counter):
            for (outcome, _, _), value in metric.cells.items():
                found[outcome] = found.get(outcome, 0) + value
        elif metric.name in ("toolgauge.spans.held", "toolgauge.spans.queued") and isinstance(metric, Gauge):
            found[metric.name.rpartition(".")[2]] = sum(metric.cells.values())
    assert found["received"] == sum(value for outcome, value in found.items() if outcome != "received")
    return {outcome: value for outcome, value in found.items() if value}


def test_counters_gauges_and_histograms_of_workers_add_up():
    registry = front()
    registry.take(0, worker(received=10, forwarded=6, held=3, queued=1))
    registry.take(1, worker(received=20, forwarded=20, held=0, queued=0))
    assert books(registry) == {"received": 30, "forwarded": 26, "held": 3, "queued": 1}
    (durations,) = (each for each in registry if each.name == "toolgauge.scoring.duration")
    assert isinstance(durations, Histogram)
    assert durations.cells[()].count == 2


def test_without_a_journal_what_a_dead_worker_held_is_dropped():
    registry = front()
    registry.take(0, worker(received=10, forwarded=6, held=3, queued=1))
    # It had accepted two spans more since it was last looked at, and refused one.
    assert registry.bury(0, accepted=12, refused=1, keeps=False) == 6
    assert books(registry) == {"received": 13, "forwarded": 6, "dropped": 6, "refused": 1}
    registry.take(0, worker(received=5, forwarded=5, held=0, queued=0))
    assert books(registry) == {"received": 18, "forwarded": 11, "dropped": 6, "refused": 1}
    # It dies a second time.
    registry.bury(0, accepted=5, refused=0, keeps=False)
    assert books(registry) == {"received": 18, "forwarded": 11, "dropped": 6, "refused": 1}


def test_with_a_journal_what_a_dead_worker_held_waits_for_its_successor_and_is_received_once():
    registry = front()
    registry.take(0, worker(received=10, forwarded=6, held=3, queued=1))
    assert registry.bury(0, accepted=10, refused=0, keeps=True) == 0
    assert books(registry) == {"received": 10, "forwarded": 6, "held": 3, "queued": 1}
    registry.take(0, worker(received=4, forwarded=1, held=3, queued=0, recovered=4))
    assert books(registry) == {"received": 10, "forwarded": 7, "held": 3}


def test_what_left_between_the_last_look_and_the_death_was_forwarded():
    registry = front()
    registry.take(0, worker(received=10, forwarded=6, held=3, queued=1))
    registry.bury(0, accepted=10, refused=0, keeps=True)
    registry.take(0, worker(received=2, forwarded=2, held=0, queued=0, recovered=2))
    assert books(registry) == {"received": 10, "forwarded": 10}
