"""What people and programs read about a changed tool."""

from dataclasses import replace

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from tests.export.scorecards import emitter, plain
from toolgauge.export.emitter import Emitter
from toolgauge.export.regression_events import MAX_EVENTS_A_MINUTE, tool_change_sentence
from toolgauge.export.results import EmitSettings
from toolgauge.export.settings import MetricsSettings
from toolgauge.model.metrics import Counter, MetricRegistry
from toolgauge.model.regressions import ToolDefinitionChange
from toolgauge.settings import MINUTE

AT_NS = 1_800_021_727_000_000_000
CHANGE = ToolDefinitionChange(
    time_ns=AT_NS,
    service="shop",
    environment="production",
    agent="orders",
    version="1.1",
    tool="find_order",
    kind="breaking",
    old_hash="0a1b2c3d",
    new_hash="4e5f6a7b",
    path="$.parameters.required.region",
)


def records(writer: Emitter, *changes: ToolDefinitionChange) -> list[LogRecord]:
    return [
        record
        for outgoing in writer.tool_changes(changes)
        for group in ExportLogsServiceRequest.FromString(outgoing.body).resource_logs
        for scope in group.scope_logs
        for record in scope.log_records
    ]


def counted(registry: MetricRegistry, name: str) -> dict[tuple[str, ...], float]:
    (found,) = [metric for metric in registry if metric.name == name]
    assert isinstance(found, Counter)
    return {labels: count for labels, count in found.cells.items() if count}


def test_an_event_names_the_tool_and_the_place_that_changed() -> None:
    (record,) = records(emitter(), CHANGE)
    assert record.event_name == "toolgauge.tool_definition"
    assert record.severity_number == SeverityNumber.SEVERITY_NUMBER_WARN
    assert record.time_unix_nano == AT_NS
    assert record.body.string_value == (
        "tool `find_order` of agent `orders` in version `1.1` no longer accepts all calls that were valid before: "
        "`$.parameters.required.region`"
    )
    written = plain(record.attributes)
    assert len(str(written.pop("log.record.uid"))) == 32
    assert written == {
        "toolgauge.service": "shop",
        "deployment.environment.name": "production",
        "gen_ai.agent.name": "orders",
        "gen_ai.tool.name": "find_order",
        "toolgauge.tool_definition.kind": "breaking",
        "toolgauge.tool_definition.version": "1.1",
        "toolgauge.tool_definition.old_hash": "0a1b2c3d",
        "toolgauge.tool_definition.new_hash": "4e5f6a7b",
        "toolgauge.tool_definition.path": "$.parameters.required.region",
    }


def test_an_added_tool_has_neither_an_old_hash_nor_a_place() -> None:
    added = replace(CHANGE, kind="added", old_hash=None, path=None, agent="", version="")
    (record,) = records(emitter(), added)
    assert record.severity_text == "INFO"
    assert record.body.string_value == "tool `find_order` of service `shop` was added"
    assert {"toolgauge.tool_definition.old_hash", "toolgauge.tool_definition.path"}.isdisjoint(plain(record.attributes))


def test_names_of_spans_cannot_break_out_of_a_sentence() -> None:
    sentence = tool_change_sentence(replace(CHANGE, tool="a`<b>\x1b[1m\n", path="$.<script>"))
    assert sentence.count("`") == 8
    assert not {"<", ">", "\x1b", "\n"} & set(sentence)


def test_changes_over_the_limit_of_a_minute_are_counted_and_have_no_event() -> None:
    registry = MetricRegistry()
    writer = emitter(registry=registry)
    many = [replace(CHANGE, tool=f"t{number}") for number in range(MAX_EVENTS_A_MINUTE + 5)]
    assert len(records(writer, *many)) == MAX_EVENTS_A_MINUTE
    assert counted(registry, "toolgauge.tool_definition.limited") == {(): 5}
    assert len(records(writer, replace(CHANGE, time_ns=AT_NS + MINUTE))) == 1


def test_changes_are_counted_by_kind_and_capped_tools_too() -> None:
    registry = MetricRegistry()
    writer = emitter(EmitSettings(metrics=MetricsSettings(max_tools=1)), registry=registry)
    writer.count_tool_changes([CHANGE, CHANGE, replace(CHANGE, tool="other")], 3)
    cells = counted(registry, "toolgauge.tool_definition.changes")
    assert sorted((labels[-2:], count) for labels, count in cells.items()) == [
        (("_other", "breaking"), 1),
        (("find_order", "breaking"), 2),
    ]
    assert counted(registry, "toolgauge.labels.capped") == {("gen_ai.tool.name",): 1, ("tool_definitions",): 3}
