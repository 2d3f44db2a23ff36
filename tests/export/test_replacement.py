"""Destinations that are added and removed while requests are on their way."""

import logging

import pytest

from tests.export.fakes import FAST, MS, OK, OWN_HOP, Said, always, grpc_sink, nowhere, until
from toolgauge.export.destination import Destination, otlp_destination
from toolgauge.export.fan_out import FanOut
from toolgauge.export.settings import DestinationSettings, QueueSettings
from toolgauge.model.delivery import Outgoing
from toolgauge.model.errors import StartError
from toolgauge.model.metrics import MetricRegistry
from toolgauge.net.settings import ClientTls
from toolgauge.selfmetrics import SelfMetrics


def request(number: int, spans: int = 2) -> Outgoing:
    return Outgoing(signal="traces", body=b"\x0a\x00" * number, spans=spans, own=False)


def destination(metrics: SelfMetrics, endpoint: str, name: str = "otlp") -> Destination:
    settings = DestinationSettings(name=name, endpoint=endpoint, retry=FAST, compression="none")
    return otlp_destination(settings, metrics, OWN_HOP, "test")


async def test_what_waits_for_a_destination_that_goes_is_sent_and_the_books_balance_throughout():
    metrics = SelfMetrics(MetricRegistry())
    hanging = Said(code=OK.code, hang=True)
    async with (
        grpc_sink(lambda count, _what, _body: hanging if count == 1 else OK) as old,
        grpc_sink(always(OK)) as new,
    ):
        before = destination(metrics, old.endpoint)
        one_at_a_time = {"queue": QueueSettings(num_consumers=1), "timeout": 300 * MS}
        before = otlp_destination(before.settings.model_copy(update=one_at_a_time), metrics, OWN_HOP, "test")
        fan_out = FanOut([before], metrics)
        await fan_out.start()
        for number in (1, 2, 3):
            fan_out.put(request(number))
        await until(lambda: len(old.arrived) == 1)
        await fan_out.replace([destination(metrics, new.endpoint)])
        fan_out.put(request(4))
        assert sum(metrics.spans_queued.current().values()) + forwarded(metrics) == 8
        await until(lambda: forwarded(metrics) == 8)
        assert sorted(new.bodies) == [request(4).body]
        assert set(old.bodies) == {request(1).body, request(2).body, request(3).body}
        await until(lambda: metrics.queue_bytes.current() == {("otlp",): 0})
        assert await fan_out.drain(1) == ()
        await fan_out.close()


def forwarded(metrics: SelfMetrics) -> float:
    return metrics.spans.value(("forwarded", "", "otlp"))


async def test_what_a_dead_destination_that_goes_leaves_behind_is_counted_and_told(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.ERROR, "toolgauge.export")
    metrics = SelfMetrics(MetricRegistry())
    fan_out = FanOut([destination(metrics, nowhere("grpc"), "dead")], metrics, handover_s=0.2)
    await fan_out.start()
    fan_out.put(request(1))
    await fan_out.replace(())
    assert metrics.spans_queued.current() == {("dead",): 2}
    fan_out.put(request(2))
    await until(lambda: metrics.spans_queued.current() == {("",): 0})
    assert metrics.spans.value(("dropped", "destination_removed", "dead")) == 2
    assert metrics.spans.value(("consumed", "", "")) == 2
    assert "2 spans could not be delivered" in caplog.text
    assert await fan_out.drain(1) == ()
    await fan_out.close()


async def test_one_that_stays_is_not_disturbed():
    metrics = SelfMetrics(MetricRegistry())
    async with grpc_sink(always(OK)) as first, grpc_sink(always(OK)) as second:
        stays = destination(metrics, first.endpoint, "first")
        fan_out = FanOut([stays], metrics)
        await fan_out.start()
        fan_out.put(request(1))
        await fan_out.replace([stays, destination(metrics, second.endpoint, "second")])
        fan_out.put(request(2))
        await until(lambda: len(first.arrived) == 2 and len(second.arrived) == 1)
        assert fan_out.destinations[0] is stays
        assert await fan_out.drain(5) == ()
        await fan_out.close()


async def test_one_that_cannot_start_changes_nothing():
    metrics = SelfMetrics(MetricRegistry())
    async with grpc_sink(always(OK)) as sink:
        fan_out = FanOut([destination(metrics, sink.endpoint)], metrics)
        await fan_out.start()
        settings = DestinationSettings(
            name="broken", endpoint=f"https://{nowhere('grpc')}", protocol="http", tls=ClientTls(ca_file=__file__)
        )
        with pytest.raises(StartError):
            await fan_out.replace([otlp_destination(settings, metrics, OWN_HOP, "test")])
        assert set(metrics.queue_bytes.current()) == {("otlp",)}
        fan_out.put(request(1))
        await until(lambda: len(sink.arrived) == 1)
        assert await fan_out.drain(5) == ()
        await fan_out.close()
