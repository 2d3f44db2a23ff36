"""toolgauge inside an application: what the wrapped exporter gets, where scores go, and what a fault costs (nothing).

The agents are real ones of pydantic-ai, instrumented by itself, with scripted models; where only the exporter's manners
matter, a few spans in the GenAI conventions do.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Histogram as HistogramData
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Sum
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from tests.wire.destination import receiving
from tests.wire.support import environment, threads_beside_main, until
from tests.wire.test_producers import HAPPENED, RESOURCE, SPANS, run_planner
from toolgauge.in_process import ToolgaugeSpanExporter
from toolgauge.model.errors import ConfigError
from toolgauge.model.outcomes import Scorecard, outcome_word


@pytest.fixture(autouse=True)
def leaves_no_thread_behind() -> Iterator[None]:
    threads = threads_beside_main()
    yield
    until(lambda: threads_beside_main() <= threads, f"no more threads than {threads}")


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in os.environ:
        if key.startswith("OTEL_"):
            monkeypatch.delenv(key)


# -- an application -----------------------------------------------------------------------------------------------------


def provider_with(exporter: SpanExporter) -> TracerProvider:
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def make_run(provider: TracerProvider, tool: str = "get_weather", *, failed: bool = False) -> None:
    """One run of an agent with one executed call."""
    tracer = provider.get_tracer("test")
    root = tracer.start_span(
        "invoke_agent planner", attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "planner"}
    )
    make_call(provider, root, tool, failed=failed)
    root.end()


def make_call(provider: TracerProvider, root: object, tool: str, *, failed: bool = False) -> None:
    call = provider.get_tracer("test").start_span(
        f"execute_tool {tool}",
        context=set_span_in_context(root),  # pyright: ignore[reportArgumentType] - a span
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.arguments": '{"city": "Lima"}',
        },
    )
    if failed:
        call.set_status(Status(StatusCode.ERROR, "no"))
    call.end()


def measured(reader: InMemoryMetricReader) -> dict[str, object]:
    read = reader.get_metrics_data()
    assert read is not None
    scopes = [scope for resource in read.resource_metrics for scope in resource.scope_metrics]
    return {metric.name: metric.data for scope in scopes for metric in scope.metrics}


def own(spans: Sequence[ReadableSpan]) -> list[ReadableSpan]:
    return [span for span in spans if span.name == "toolgauge.scorecard"]


class Scorecards(list[Scorecard]):
    """Takes scorecards, and tells them as criterion and tool -> outcome."""

    def told(self) -> dict[tuple[str, str], str]:
        return {
            (result.criterion, result.call.name): outcome_word(result.outcome)
            for scorecard in self
            for result in scorecard.results
            if result.call is not None
        }


class Stuck(SpanExporter):
    """Exports what the application made, and hangs on what we say until it is let go."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        self.is_stuck = threading.Event()
        self.go_on = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if own(spans):
            self.is_stuck.set()
            assert self.go_on.wait(60)
        self.spans.extend(spans)
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        del timeout_millis
        return True


# -- what leaves, and where ---------------------------------------------------------------------------------------------


async def test_a_run_is_exported_unchanged_and_followed_by_its_scorecard():
    memory, plain, scorecards = InMemorySpanExporter(), InMemorySpanExporter(), Scorecards()
    exporter = ToolgaugeSpanExporter(memory, on_scorecard=scorecards.append)
    provider = provider_with(exporter)
    provider.add_span_processor(SimpleSpanProcessor(plain))
    await run_planner(provider)
    assert exporter.force_flush()
    *originals, scorecard = memory.get_finished_spans()
    assert [span.to_json() for span in originals] == [span.to_json() for span in plain.get_finished_spans()]
    (root,) = [span for span in originals if span.parent is None]
    assert root.context is not None
    assert scorecard.name == "toolgauge.scorecard"
    assert scorecard.context is not None
    assert scorecard.context.trace_id == root.context.trace_id
    assert scorecard.parent is not None
    assert scorecard.parent.span_id == root.context.span_id
    assert scorecard.resource.attributes["service.name"] == "trip-planner"
    assert scorecard.instrumentation_scope is not None
    assert scorecard.instrumentation_scope.name == "toolgauge"
    told = [event.attributes or {} for event in scorecard.events]
    of_all_calls = {judged: outcome for judged, outcome in HAPPENED.items() if judged != ("default.run_completed", "")}
    of_all_calls["default.arguments_schema", "get_wether"] = "not_evaluated"
    assert {(one["gen_ai.evaluation.name"], one["gen_ai.tool.name"]): one["toolgauge.outcome"] for one in told} == {
        judged: outcome for judged, outcome in of_all_calls.items() if outcome != "pass"
    }
    counts = dict(scorecard.attributes or {})
    assert counts["toolgauge.eval.default.tool_success.calls.passed"] == 1
    assert counts["toolgauge.eval.default.tool_success.calls.failed"] == 2
    tools = {span.context.span_id for span in originals if span.context and span.name.startswith("execute_tool")}
    assert tools <= {link.context.span_id for link in scorecard.links}
    assert scorecards.told() == of_all_calls
    provider.shutdown()


async def test_around_an_otlp_exporter_spans_and_scorecards_arrive_over_its_connection():
    with receiving() as destination:
        over_grpc = OTLPSpanExporter(f"http://127.0.0.1:{destination.grpc_port}", insecure=True)
        provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(ToolgaugeSpanExporter(over_grpc)))
        await run_planner(provider)
        await asyncio.to_thread(provider.shutdown)
        assert (len(destination.spans()), len(destination.scorecards())) == (SPANS, 1)
        assert not destination.events()
        assert not destination.metrics()


def test_without_an_exporter_everything_of_ours_goes_to_the_destination_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
):
    with receiving() as destination:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{destination.grpc_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        exporter = ToolgaugeSpanExporter(overrides=["events=scored"])
        make_run(provider_with(exporter))
        assert exporter.force_flush()
        assert (len(destination.spans()), len(destination.scorecards())) == (0, 1)
        # Which tools were on offer was not recorded: what is known is that the run ended well, and that the call worked and was
        # no repeat.
        assert len(destination.events()) == 3
        assert {"toolgauge.evaluation.score", "toolgauge.tool_calls", "toolgauge.spans"} <= destination.metrics().keys()
        exporter.shutdown()


def test_a_drop_of_the_scores_is_an_event_and_a_line_of_the_log(caplog: pytest.LogCaptureFixture):
    records = InMemoryLogRecordExporter()
    logs = LoggerProvider(shutdown_on_exit=False)
    logs.add_log_record_processor(SimpleLogRecordProcessor(records))
    exporter = ToolgaugeSpanExporter(InMemorySpanExporter(), logger_provider=logs, overrides=("watch.baseline_min=20",))
    provider = provider_with(exporter)
    for number in range(60):
        make_run(provider, failed=number >= 40)
    assert exporter.force_flush()
    events = [each.log_record for each in records.get_finished_logs()]
    regressions = [event.attributes or {} for event in events if event.event_name == "toolgauge.regression"]
    assert sorted(str(attributes.get("gen_ai.tool.name")) for attributes in regressions) == ["None", "get_weather"]
    assert sum("fell from" in message for message in caplog.messages) == 1
    exporter.shutdown()


def test_around_an_exporter_the_environment_alone_is_no_second_destination(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    memory = InMemorySpanExporter()
    exporter = ToolgaugeSpanExporter(memory)
    make_run(provider_with(exporter))
    assert exporter.force_flush()
    exporter.shutdown()
    assert len(own(memory.get_finished_spans())) == 1


def test_events_and_metrics_leave_through_the_providers_that_are_given():
    records, reader = InMemoryLogRecordExporter(), InMemoryMetricReader()
    logs, meters = LoggerProvider(shutdown_on_exit=False), MeterProvider([reader], shutdown_on_exit=False)
    logs.add_log_record_processor(SimpleLogRecordProcessor(records))
    memory = InMemorySpanExporter()
    only_success = ("defaults.repeated_calls=false", "defaults.coverage=false", "defaults.run_completed=false")
    exporter = ToolgaugeSpanExporter(memory, logger_provider=logs, meter_provider=meters, overrides=only_success)
    make_run(provider_with(exporter), failed=True)
    assert exporter.force_flush()
    (event,) = records.get_finished_logs()
    (tool,) = [span for span in memory.get_finished_spans() if span.name.startswith("execute_tool")]
    assert tool.context is not None
    assert event.log_record.event_name == "gen_ai.evaluation.result"
    assert event.log_record.span_id == tool.context.span_id
    assert event.log_record.trace_id == tool.context.trace_id
    assert event.log_record.attributes is not None
    assert event.log_record.attributes["toolgauge.outcome"] == "fail"
    found = measured(reader)
    scores = found["toolgauge.evaluation.score"]
    assert isinstance(scores, HistogramData)
    sums = {
        (point.attributes or {})["gen_ai.evaluation.name"]: (point.count, point.sum) for point in scores.data_points
    }
    assert sums == {"default.tool_success": (1, 0.0), "default.tool_use": (1, 1.0)}
    assert scores.data_points[0].exemplars[0].span_id == tool.context.span_id
    calls = found["toolgauge.tool_calls"]
    assert isinstance(calls, Sum)
    (point,) = [point for point in calls.data_points if point.value]
    of_point = dict(point.attributes or {})
    assert (point.value, of_point["gen_ai.tool.name"], of_point["error.type"]) == (1, "get_weather", "_OTHER")
    exporter.shutdown()
    meters.shutdown()
    logs.shutdown()


def test_criteria_of_files_are_scored(tmp_path: Path):
    criteria = tmp_path / "criteria.yaml"
    criteria.write_text("criteria: [{name: asked, evaluator: tool_call_f1, match: name, expected: [get_weather]}]")
    scorecards = Scorecards()
    exporter = ToolgaugeSpanExporter(
        criteria=criteria, overrides=["defaults.enabled=false"], on_scorecard=scorecards.append
    )
    make_run(provider_with(exporter))
    exporter.shutdown()
    assert [(result.criterion, outcome_word(result.outcome)) for result in scorecards[0].results] == [("asked", "pass")]


def test_wrong_criteria_and_configuration_are_errors_at_once(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        ToolgaugeSpanExporter(criteria=tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match="annotate: hold"):
        ToolgaugeSpanExporter(overrides=["annotate=hold"])
    with pytest.raises(ConfigError, match=r"`exporters\.otlp\.keep` is not possible in process"):
        ToolgaugeSpanExporter(overrides=["exporters.otlp={endpoint: collector:4317, keep: {passed: 0.1}}"])


# -- time ---------------------------------------------------------------------------------------------------------------


def test_a_run_closes_by_itself_when_its_time_has_come():
    memory = InMemorySpanExporter()
    exporter = ToolgaugeSpanExporter(memory, overrides=["assemble.run_end_grace=50ms"])
    make_run(provider_with(exporter))
    (scorecard,) = until(lambda: own(memory.get_finished_spans()), "the scorecard")
    assert scorecard.attributes is not None
    assert scorecard.attributes["toolgauge.closed_because"] == "run_ended"
    exporter.shutdown()


def test_after_a_flush_other_runs_are_scored_and_the_closed_one_is_not_scored_again():
    memory = InMemorySpanExporter()
    exporter = ToolgaugeSpanExporter(memory)
    provider = provider_with(exporter)
    root = provider.get_tracer("test").start_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"})
    make_call(provider, root, "get_weather")
    assert exporter.force_flush()
    assert len(own(memory.get_finished_spans())) == 1
    make_call(provider, root, "late")
    root.end()
    assert exporter.force_flush()
    assert len(own(memory.get_finished_spans())) == 1
    make_run(provider, "another")
    assert exporter.force_flush()
    assert len(own(memory.get_finished_spans())) == 2
    exporter.shutdown()


def test_a_flush_of_the_provider_exports_and_one_of_the_exporter_after_it_scores():
    # The SDK's processors export what waits, and do not ask the exporter to flush.
    destination = InMemorySpanExporter()
    exporter = ToolgaugeSpanExporter(destination)
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=60_000))
    make_run(provider)
    assert provider.force_flush()
    assert len(destination.get_finished_spans()) == 2
    assert own(destination.get_finished_spans()) == []
    make_run(provider)
    assert provider.force_flush()
    assert exporter.force_flush()
    assert len(own(destination.get_finished_spans())) == 2
    provider.shutdown()


def test_a_flush_ends_in_time_when_the_wrapped_exporter_hangs():
    stuck = Stuck()
    exporter = ToolgaugeSpanExporter(stuck)
    make_run(provider_with(exporter))
    assert exporter.force_flush(timeout_millis=200) is False
    assert stuck.is_stuck.wait(60)
    stuck.go_on.set()
    assert exporter.force_flush()
    assert len(own(stuck.spans)) == 1
    exporter.shutdown()


def test_shutdown_ends_in_time_when_the_wrapped_exporter_hangs(caplog: pytest.LogCaptureFixture):
    stuck = Stuck()
    exporter = ToolgaugeSpanExporter(stuck)
    make_run(provider_with(exporter))
    exporter.shutdown(timeout_millis=200)
    assert "not everything could be scored and sent within 200 ms" in caplog.text
    stuck.go_on.set()


def test_shutdown_may_come_without_a_span_and_twice():
    class Counting(InMemorySpanExporter):
        ended = 0

        def shutdown(self) -> None:
            self.ended += 1

    wrapped = Counting()
    exporter = ToolgaugeSpanExporter(wrapped)
    assert exporter.force_flush()
    exporter.shutdown()
    exporter.shutdown()
    assert wrapped.ended == 1
    assert exporter.force_flush()


def test_what_comes_after_the_end_is_the_wrapped_exporter_s_to_refuse():
    wrapped = InMemorySpanExporter()
    exporter = ToolgaugeSpanExporter(wrapped)
    make_run(provider_with(exporter))
    exporter.shutdown()
    assert exporter.export(wrapped.get_finished_spans()) is SpanExportResult.FAILURE


def test_an_exporter_may_flush_from_its_own_callback():
    answers: list[bool] = []
    exporter = ToolgaugeSpanExporter(on_scorecard=lambda _: answers.append(exporter.force_flush()))
    make_run(provider_with(exporter))
    assert exporter.force_flush()
    assert answers == [False]
    exporter.shutdown()


# -- faults -------------------------------------------------------------------------------------------------------------


class Failing(SpanExporter):
    """Raises the error, or returns a failure."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        del spans
        if self.error is not None:
            raise self.error
        return SpanExportResult.FAILURE

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        del timeout_millis
        return False


def some_spans() -> tuple[ReadableSpan, ...]:
    memory = InMemorySpanExporter()
    make_run(provider_with(memory))
    return memory.get_finished_spans()


def test_the_wrapped_exporter_s_failure_is_returned_and_the_run_is_scored():
    scorecards = Scorecards()
    exporter = ToolgaugeSpanExporter(Failing(), on_scorecard=scorecards.append)
    assert exporter.export(some_spans()) is SpanExportResult.FAILURE
    assert exporter.force_flush() is False
    assert scorecards.told()["default.tool_success", "get_weather"] == "pass"
    exporter.shutdown()


def test_the_wrapped_exporter_s_exception_is_raised_and_the_run_is_scored():
    scorecards = Scorecards()
    exporter = ToolgaugeSpanExporter(Failing(OSError("disk full")), on_scorecard=scorecards.append)
    with pytest.raises(OSError, match="disk full"):
        exporter.export(some_spans())
    exporter.shutdown()
    assert len(scorecards) == 1


def test_a_callback_that_raises_costs_nothing_but_its_call():
    memory = InMemorySpanExporter()

    def broken(_scorecard: Scorecard) -> None:
        raise KeyError("callback")

    exporter = ToolgaugeSpanExporter(memory, on_scorecard=broken)
    provider = provider_with(exporter)
    for _ in range(2):
        make_run(provider)
        assert exporter.force_flush()
    assert len(own(memory.get_finished_spans())) == 2
    exporter.shutdown()


def test_a_span_that_cannot_be_encoded_is_exported_and_costs_the_others_nothing():
    memory, scorecards = InMemorySpanExporter(), Scorecards()
    exporter = ToolgaugeSpanExporter(memory, on_scorecard=scorecards.append)
    good = some_spans()
    hostile = ReadableSpan(name="\ud800", context=good[0].context, resource=RESOURCE)
    assert exporter.export((good[0], hostile, *good[1:])) is SpanExportResult.SUCCESS
    exporter.shutdown()
    assert len(memory.get_finished_spans()) == 4
    assert scorecards.told()["default.tool_success", "get_weather"] == "pass"


def test_spans_go_on_at_once_while_scoring_hangs_and_the_queue_is_bounded():
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader], shutdown_on_exit=False)
    hanging, go_on, seen = threading.Event(), threading.Event(), InMemorySpanExporter()

    def hang(_scorecard: Scorecard) -> None:
        hanging.set()
        assert go_on.wait(60)

    exporter = ToolgaugeSpanExporter(
        seen, on_scorecard=hang, meter_provider=meters, overrides=["assemble.run_end_grace=0s"]
    )
    provider = provider_with(exporter)
    make_run(provider)
    assert hanging.wait(60)
    batch = some_spans() * 2500
    assert exporter.export(batch) is SpanExportResult.SUCCESS
    assert exporter.export(batch) is SpanExportResult.SUCCESS
    assert len(seen.get_finished_spans()) >= 2 + 2 * len(batch)
    go_on.set()
    assert exporter.force_flush(timeout_millis=120_000)
    unread = measured(reader)["toolgauge.spans.unread"]
    assert isinstance(unread, Sum)
    assert sum(point.value for point in unread.data_points) == 2 * len(batch) - 8192
    exporter.shutdown()
    meters.shutdown()


def test_the_wrapped_exporter_is_never_called_twice_at_a_time():
    inside = threading.Lock()
    clashes: list[str] = []

    class Exclusive(InMemorySpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            if not inside.acquire(blocking=False):
                clashes.append("clash")
                return SpanExportResult.FAILURE
            try:
                return super().export(spans)
            finally:
                inside.release()

    wrapped = Exclusive()
    exporter = ToolgaugeSpanExporter(wrapped, overrides=["assemble.run_end_grace=0s"])
    provider = provider_with(exporter)
    threads = [threading.Thread(target=lambda: [make_run(provider) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert exporter.force_flush()
    assert clashes == []
    assert len(own(wrapped.get_finished_spans())) == 200
    exporter.shutdown()


# -- processes ----------------------------------------------------------------------------------------------------------

APPLICATION = """
    import os, sys, warnings
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
    from toolgauge.in_process import ToolgaugeSpanExporter

    warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks in processes with threads

    def run(provider, tool):
        tracer = provider.get_tracer("test")
        with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
            attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
            with tracer.start_as_current_span(f"execute_tool {tool}", attributes=attributes):
                pass

    def show(scorecard):
        print("scored", *(call.name for call in scorecard.trajectory.calls), flush=True)
"""


def run_application(script: str, **variables: str) -> list[str]:
    """Run an application and return what it printed, sorted."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(APPLICATION) + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(**variables),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(done.stdout.splitlines())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_scores_its_own_runs_and_not_what_the_parent_had_open():
    printed = run_application("""
        exporter = ToolgaugeSpanExporter(on_scorecard=show)
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        run(provider, "before")
        child = os.fork()
        run(provider, "in_child" if child == 0 else "in_parent")
        print("flushed", exporter.force_flush(), flush=True)
        if child:
            assert os.waitpid(child, 0)[1] == 0
        provider.shutdown()
    """)
    assert printed == ["flushed True", "flushed True", "scored before", "scored in_child", "scored in_parent"]


FORKING = """
    import logging
    logging.getLogger("toolgauge").addHandler(logging.StreamHandler(sys.stdout))
    exporter = ToolgaugeSpanExporter(on_scorecard=show, overrides=["events=scored"])
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    run(provider, "before")
    print("flushed", exporter.force_flush(), flush=True)
    child = os.fork()
    run(provider, "in_child" if child == 0 else "in_parent")
    provider.shutdown()
    if child:
        assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_child_says_that_a_destination_over_grpc_is_lost_to_it():
    with receiving() as destination:
        printed = run_application(
            FORKING,
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://localhost:{destination.grpc_port}",
            OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
            # gRPC itself says on stderr that it leaves forks alone.
            GRPC_VERBOSITY="NONE",
        )
        assert printed == [
            "flushed True",
            "gRPC does not survive a fork: nothing of this process goes to `exporters.otlp`; use HTTP",
            "scored before",
            "scored in_child",
            "scored in_parent",
        ]
        assert len(destination.scorecards()) == 2


def test_where_no_thread_can_be_had_a_flush_does_the_work_itself():
    printed = run_application("""
        import threading

        exporter = ToolgaugeSpanExporter(on_scorecard=show)
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        start = threading.Thread.start

        def refuse(thread):
            raise RuntimeError("can't start new thread")

        threading.Thread.start = refuse
        run(provider, "first")
        run(provider, "second")
        print("flushed", exporter.force_flush(), exporter.force_flush())
        threading.Thread.start = start
        run(provider, "third")
        provider.shutdown()
    """)
    assert printed == ["flushed True True", "scored first", "scored second", "scored third"]


# These start no thread at their own end, and gRPC needs one.
WITHOUT_LATE_THREADS = pytest.mark.skipif(sys.version_info[:3] in ((3, 12, 0), (3, 12, 1)), reason="no late threads")


@pytest.mark.parametrize("protocol", [pytest.param("grpc", marks=WITHOUT_LATE_THREADS), "http/protobuf"])
def test_an_application_that_just_ends_has_said_everything(protocol: str):
    with receiving() as destination:
        port = destination.grpc_port if protocol == "grpc" else destination.http_port
        printed = run_application(
            """
            provider = TracerProvider()
            exporter = ToolgaugeSpanExporter(on_scorecard=show, overrides=["events=scored"])
            provider.add_span_processor(BatchSpanProcessor(exporter))
            run(provider, "get_weather")
            """,
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://localhost:{port}",
            OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
        )
        assert printed == ["scored get_weather"]
        assert len(destination.scorecards()) == 1
        assert len(destination.events()) == 2
        assert destination.metrics()["toolgauge.tool_calls"].sum.data_points[0].as_int == 1
