"""Which spans and log records are a test's: those that began in it, from every provider that is collected from."""

import threading
from collections.abc import Iterable

import pytest
from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber, get_logger_provider, set_logger_provider
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from toolgauge.pytest_plugin.collector import Collection, Collector, ExportRequest, obstacle


def provider() -> TracerProvider:
    return TracerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False)


def names(collection: Collection) -> list[str]:
    return [span.name for span in collection.spans]


def span(name: str, of: trace.TracerProvider | None = None) -> None:
    (of or trace.get_tracer_provider()).get_tracer("shop").start_span(name).end()


def event(name: str) -> None:
    get_logger_provider().get_logger("shop").emit(LogRecord(event_name=name, severity_number=SeverityNumber.INFO))


def resources(requests: Iterable[ExportRequest]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for request in requests:
        groups = request.resource_spans if isinstance(request, ExportTraceServiceRequest) else request.resource_logs
        found += [{one.key: one.value.string_value for one in group.resource.attributes} for group in groups]
    return found


def test_global_provider_of_the_application_keeps_its_exporter():
    own, exported = provider(), InMemorySpanExporter()
    own.add_span_processor(SimpleSpanProcessor(exported))
    trace.set_tracer_provider(own)
    collection = Collector().begin()
    span("made by the agent")
    assert trace.get_tracer_provider() is own
    assert names(collection) == ["made by the agent"]
    assert [one.name for one in exported.get_finished_spans()] == ["made by the agent"]


def test_every_run_is_seen_whatever_the_environment_samples(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    collection = Collector().begin()
    span("made by the agent")
    assert names(collection) == ["made by the agent"]


def test_provider_of_a_framework_is_collected_from_when_it_is_given():
    collector, own = Collector(), provider()
    collection = collector.begin()
    span("before", own)
    assert collector.collect(own)
    span("after", own)
    assert names(collection) == ["after"]


def test_provider_that_is_given_twice_gives_its_spans_once():
    collector, own = Collector(), provider()
    collection = collector.begin()
    assert collector.collect(own)
    assert collector.collect(own)
    span("once", own)
    assert names(collection) == ["once"]


def test_span_that_ends_in_the_next_test_is_of_neither():
    collector = Collector()
    first = collector.begin()
    late = trace.get_tracer_provider().get_tracer("shop").start_span("late")
    collector.end()
    second = collector.begin()
    late.end()
    span("of the second")
    assert names(first) == []
    assert names(second) == ["of the second"]


def test_nothing_is_kept_between_tests():
    collector = Collector()
    first = collector.begin()
    collector.end()
    span("between")
    assert names(first) == []
    assert names(collector.begin()) == []


def test_spans_of_other_threads_are_of_the_test():
    collection = Collector().begin()
    thread = threading.Thread(target=span, args=("in the background",))
    thread.start()
    thread.join()
    assert names(collection) == ["in the background"]


def test_what_was_cleared_is_forgotten_and_what_is_open_is_not():
    collection = Collector().begin()
    span("first")
    still_open = trace.get_tracer_provider().get_tracer("shop").start_span("open")
    collection.clear()
    assert collection.unfinished == ("open",)
    still_open.end()
    assert names(collection) == ["open"]


def test_log_records_of_the_test_are_encoded_beside_its_spans():
    set_logger_provider(LoggerProvider(shutdown_on_exit=False))
    collection = Collector().begin()
    with trace.get_tracer_provider().get_tracer("shop").start_as_current_span("chat"):
        event("gen_ai.choice")
    _, logs = collection.requests({})
    assert isinstance(logs, ExportLogsServiceRequest)
    assert [one.event_name for one in logs.resource_logs[0].scope_logs[0].log_records] == ["gen_ai.choice"]


def test_log_records_of_another_test_are_left_out():
    collector = Collector()
    collector.begin()
    earlier = trace.get_tracer_provider().get_tracer("shop").start_span("earlier")
    second = collector.begin()
    span("of the second")
    with trace.use_span(earlier, end_on_exit=True):
        event("gen_ai.choice")
    event("outside of any trace")
    (traces,) = second.requests({})
    assert isinstance(traces, ExportTraceServiceRequest)


def test_attributes_of_the_test_take_the_place_of_the_resources():
    trace.set_tracer_provider(provider())
    collection = Collector().begin()
    span("made by the agent")
    assert resources(collection.requests({"service.name": "shop-test", "eval.case.id": "A-17"})) == [
        {"service.name": "shop-test", "eval.case.id": "A-17"}
    ]


def test_provider_of_another_kind_is_an_obstacle():
    trace.set_tracer_provider(trace.NoOpTracerProvider())
    Collector().begin()
    assert obstacle() == (
        "the global tracer provider, `opentelemetry.trace.NoOpTracerProvider`, takes no span processors"
    )
