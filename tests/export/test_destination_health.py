import logging

import pytest

from toolgauge.export.destination import DestinationHealth


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_outage_is_said_once_and_its_end_too(clock: Clock, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "toolgauge.export")
    outage = DestinationHealth("backend", clock)
    for _ in range(100):
        outage.failed("unavailable")
    clock.now_s = 90.0
    outage.succeeded("traces")
    outage.succeeded("traces")
    assert [record.getMessage() for record in caplog.records] == [
        "destination backend does not accept requests (unavailable); retrying",
        "destination backend accepts requests again after 90 s",
    ]


def test_outage_names_endpoint_and_cause_where_they_are_known(clock: Clock, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING, "toolgauge.export")
    health = DestinationHealth("backend", clock, "http://collector:4318")
    health.failed("connection", "connection refused")
    health.dropped("traces", "http_404", 3, "toolgauge.spans")
    outage, dropped = (record.getMessage() for record in caplog.records)
    assert outage == (
        "destination backend (http://collector:4318) does not accept requests (connection: connection refused); retrying"
    )
    assert dropped.startswith(
        "destination backend (http://collector:4318): a request with 3 spans was dropped (http_404)"
    )


def test_destination_that_fails_now_and_then_is_said_once_a_minute(clock: Clock, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING, "toolgauge.export")
    outage = DestinationHealth("backend", clock)
    for second in range(120):
        clock.now_s = float(second)
        outage.failed("unavailable")
        outage.succeeded("traces")
    assert len(caplog.records) == 2


def test_each_cause_of_an_outage_is_said_once_and_one_a_minute(clock: Clock, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING, "toolgauge.export")
    outage = DestinationHealth("backend", clock)
    for second in range(300):
        clock.now_s = float(second)
        outage.failed("connection", "connection refused")
        if second > 10:
            outage.failed("tls", "its certificate has expired")
        assert len(caplog.records) == 1 + (second >= 60)
    assert [record.getMessage().partition("(")[2] for record in caplog.records] == [
        "connection: connection refused); retrying",
        "tls: its certificate has expired); retrying",
    ]


def test_drops_are_said_once_a_minute_for_each_reason(clock: Clock, caplog: pytest.LogCaptureFixture):
    outage = DestinationHealth("backend", clock)
    for _ in range(50):
        outage.dropped("traces", "invalid_argument", 7, "toolgauge.spans")
        outage.dropped("metrics", "shutdown", 0, "toolgauge.own.dropped")
    assert [record.getMessage().partition("; ")[0] for record in caplog.records] == [
        "destination backend: a request with 7 spans was dropped (invalid_argument)",
        "destination backend: a request of metrics was dropped (shutdown)",
    ]
    clock.now_s = 61.0
    outage.dropped("metrics", "shutdown", 0, "toolgauge.own.dropped")
    assert len(caplog.records) == 3


def test_a_signal_that_is_refused_for_good_has_its_counter_and_remedy(clock: Clock, caplog: pytest.LogCaptureFixture):
    health = DestinationHealth("otlp", clock)
    health.refused("metrics", "unimplemented")
    health.dropped("metrics", "unimplemented", 0, "toolgauge.own.dropped")
    health.dropped("logs", "invalid_argument", 0, "toolgauge.requests.dropped")
    assert [record.getMessage() for record in caplog.records] == [
        "destination otlp: a request of metrics was dropped (unimplemented); counted in toolgauge.own.dropped; "
        "set `signals: [traces, logs]` to send it no metrics",
        "destination otlp: a request of logs was dropped (invalid_argument); counted in toolgauge.requests.dropped",
    ]
