from pathlib import Path

import pytest

from tests.wire.support import IN_TEST, LISTEN, free_port, to_http
from toolgauge.config.load import load
from toolgauge.export.destination import Undelivered
from toolgauge.model.metrics import MetricRegistry
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.runtime import Losses
from toolgauge.service.service import Service


def test_spans_and_trajectories_that_were_lost_are_named_apart():
    losses = Losses(
        undelivered=(("tempo", Undelivered(spans=3596, own=12)), ("archive", Undelivered(requests=2))),
        held=Undelivered(spans=4),
        dropped=3,
        incomplete=5,
    )
    assert str(losses) == (
        "3596 spans and 12 requests of our own could not be delivered to tempo; "
        "2 log or metric requests could not be delivered to archive; 4 spans found no room in a queue; "
        "3 trajectories were dropped unscored; 5 trajectories are `not_evaluated` (`incomplete`)"
    )
    assert losses
    assert losses.spans == 3600


def test_a_trajectory_that_is_incomplete_is_no_loss():
    assert not Losses(incomplete=5)
    assert not Losses()


def test_earlier_drops_are_named_by_kind_and_reason_and_leave_the_exit_code():
    metrics = SelfMetrics(MetricRegistry())
    metrics.begin_destination("otlp", ("traces", "metrics", "logs"))
    metrics.own_dropped.add(12, ("otlp", "metrics", "unimplemented"))
    metrics.own_dropped.add(1, ("otlp", "metrics", "shutdown"))
    metrics.requests_dropped.add(2, ("otlp", "logs", "http_404"))
    metrics.spans.add(7, ("dropped", "retries_exhausted", "otlp"))
    metrics.spans.add(9, ("forwarded", "", "otlp"))
    losses = Losses.total([Losses(earlier=metrics.dropped()), Losses()])
    assert not losses
    assert str(losses) == (
        "7 spans were dropped (retries_exhausted, otlp); 2 logs requests of senders were dropped (http_404, otlp); "
        "12 metrics requests of our own were dropped (unimplemented, otlp)"
    )
    both = Losses.total([losses, losses])
    assert both.earlier["spans were dropped (retries_exhausted, otlp)"] == 14


@pytest.mark.long
async def test_metrics_that_the_end_drops_are_named_beside_what_the_journal_keeps(tmp_path: Path):
    settings = (*LISTEN, *IN_TEST, to_http(free_port()), f"state.directory={tmp_path}")
    service = Service(load((), settings, {}), ())
    await service.start()
    # As the timer does each interval.
    service.outbox.put(service.emitter.metrics(service.clock()))
    losses = await service.stop()
    dropped = int(sum(service.metrics.own_dropped.cells.values()))
    assert dropped >= 1
    assert not losses
    assert f"{dropped} metrics requests of our own were dropped (shutdown, otlp)" in str(losses)
