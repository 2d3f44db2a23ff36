from collections.abc import Iterator, Mapping

import pytest

from tests.recognize.support import REF, log, other_error, resource, self_metrics, span
from tests.rows import each_row
from toolgauge.dialects.genai import GenAI
from toolgauge.model.json import Value
from toolgauge.model.observations import AgentRun, CallError, CallExecuted, Observation, Reading, SpanFailed
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Record, SpanEvent
from toolgauge.recognize.recognizer import Recognizer


class FakeDialect:
    """Claims records with the attribute `fake.<name>`; what is there decides how it behaves."""

    def __init__(self, name: str, rank: int) -> None:
        self.name = name
        self.rank = rank
        self.marks: tuple[str, ...] = (f"fake.{name}", "fake.shared")
        self.scopes = (f"scope.{name}",)
        self.grounds: Grounds | None = None

    def claims(self, record: Record) -> bool:
        if record.attributes.get(f"fake.{self.name}") == "broken claim":
            raise RuntimeError("broken")
        if record.attributes.get(f"fake.{self.name}") == "ends in claim":
            raise SystemExit
        return f"fake.{self.name}" in record.attributes

    def read(self, record: Record) -> Iterator[Observation]:
        yield AgentRun(agent=self.name)
        if record.attributes.get(f"fake.{self.name}") == "broken read":
            raise KeyError("broken")
        if record.attributes.get(f"fake.{self.name}") == "ends in read":
            raise GeneratorExit

    def attribute(self, record: Record, key: str) -> Value:
        if key == "broken":
            raise ValueError("broken")
        return record.attributes.get(f"hidden.{key}", record.attributes.get(key))


FIRST = FakeDialect("first", 10)
SECOND = FakeDialect("second", 20)


def read(attributes: Mapping[str, Value]) -> Reading | None:
    return Recognizer([SECOND, FIRST], metrics=self_metrics()).read(span(attributes))


def test_the_dialect_of_the_lowest_rank_reads_a_record_alone():
    reading = read({"fake.first": 1, "fake.second": 1})

    assert reading is not None
    assert reading.dialect == "first"
    assert reading.observations == (AgentRun(agent="first"),)


def test_a_reading_says_all_about_the_span():
    record = span({"fake.second": 1}, status="error")

    assert Recognizer([SECOND], metrics=self_metrics()).read(record) == Reading(
        ref=REF,
        is_log=False,
        parent_span_id="00f067aa0ba902b7",
        parent_is_remote=False,
        start_ns=1_000,
        end_ns=2_000,
        service="shop",
        scope="test.producer",
        dialect="second",
        status="error",
        observations=(AgentRun(agent="second"), SpanFailed(error=other_error(""))),
        size_bytes=321,
        version="1",
    )


def test_an_exception_fails_a_run_and_no_other_span_whose_status_is_unset():
    raised = SpanEvent(name="exception", time_ns=1, attributes={"exception.type": "E", "exception.message": "no"})
    recognizer = Recognizer([FIRST, SECOND], metrics=self_metrics())

    run = recognizer.read(span({"fake.second": 1}, events=(raised,)))
    meant = recognizer.read(span({"fake.second": 1}, events=(raised,), status="ok"))

    assert run is not None
    assert run.observations[1:] == (SpanFailed(error=CallError(kind="E", message="no")),)
    assert meant is not None
    assert len(meant.observations) == 1


def test_a_log_record_is_read_for_the_span_it_names():
    recognizer = Recognizer([SECOND], metrics=self_metrics())

    reading = recognizer.read(log("some.event", attributes={"fake.second": 1}))

    assert reading is not None
    assert (reading.ref, reading.is_log, reading.start_ns, reading.end_ns) == (REF, True, 1_700, 1_700)
    assert recognizer.read(log("some.event", attributes={"fake.second": 1}, ref=None)) is None


@each_row("fault", ["broken claim", "broken read", "ends in claim", "ends in read"])
def test_a_dialect_that_fails_is_counted_and_costs_one_record(fault: str):
    metrics = self_metrics()
    recognizer = Recognizer([FIRST, SECOND], metrics=metrics, wanted=["case"])

    reading = recognizer.read(span({"fake.first": fault, "case": "a"}))

    assert reading is not None
    assert (reading.dialect, reading.observations, reading.attributes) == (None, (), (("case", "a"),))
    assert recognizer.read(span({"fake.first": fault})) is None
    assert metrics.dialect_errors.cells == {("first",): 2}
    assert recognizer.read(span({"fake.first": "fine"})) is not None


def test_wanted_attributes_come_from_the_record_else_from_the_resource():
    recognizer = Recognizer([FIRST], metrics=self_metrics(), wanted=["tier", "env", "count", "list", "missing"])
    record = span(
        {"fake.first": 1, "hidden.tier": "gold", "count": 3, "list": ["a"]},
        of=resource({"env": "production", "tier": "from the resource"}),
    )

    reading = recognizer.read(record)

    assert reading is not None
    assert reading.attributes == (("count", 3), ("env", "production"), ("tier", "gold"))


def test_a_wanted_attribute_alone_makes_a_reading_but_not_one_of_the_resource():
    recognizer = Recognizer([FIRST], metrics=self_metrics(), wanted=["case", "env"])
    of = resource({"env": "production"})

    reading = recognizer.read(span({"case": True}, of=of))

    assert reading is not None
    assert (reading.dialect, reading.attributes) == (None, (("case", True), ("env", "production")))
    assert recognizer.read(span({"http.route": "/"}, of=of)) is None


def test_a_dialect_that_fails_to_look_up_an_attribute_is_counted():
    metrics = self_metrics()

    reading = Recognizer([FIRST], metrics=metrics, wanted=["broken"]).read(span({"fake.first": 1}))

    assert reading is not None
    assert reading.attributes == ()
    assert metrics.dialect_errors.cells == {("first",): 1}


@pytest.mark.parametrize("scope", ["toolgauge", "toolgauge.pipeline"])
def test_our_own_records_are_never_read(scope: str):
    recognizer = Recognizer([FIRST], metrics=self_metrics(), wanted=["case"])

    assert recognizer.read(span({"fake.first": 1, "case": "a"}, scope=scope)) is None
    assert recognizer.read(log("gen_ai.choice", attributes={"fake.first": 1}, scope=scope)) is None
    assert recognizer.read(span({"fake.first": 1}, scope="toolgauges")) is not None


def test_spans_of_other_evaluators_are_never_read():
    assert read({"fake.first": 1, "openinference.span.kind": "EVALUATOR"}) is None
    assert read({"fake.first": 1, "openinference.span.kind": "TOOL"}) is not None


@each_row(
    "key", ["tool.call_id", "lmnr.association.properties.metadata.tool_call_id", "acme.toolCallId", "tool-call-id"]
)
def test_the_id_of_a_call_is_taken_from_whatever_attribute_has_it(key: str):
    tool: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", key: "call_1"}
    reading = Recognizer([GenAI()], metrics=self_metrics()).read(span(tool))
    assert reading is not None
    assert [seen.call_id for seen in reading.observations if isinstance(seen, CallExecuted)] == ["call_1"]


@each_row(
    "others",
    [{"metadata.parent_tool_call_id": "call_0"}, {"tool.call_id.length": "6"}, {"tool.call_id": ""}, {"call_id": "1"}],
)
def test_no_other_attribute_has_it(others: Mapping[str, Value]):
    tool: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", **others}
    reading = Recognizer([GenAI()], metrics=self_metrics()).read(span(tool))
    assert reading is not None
    assert [seen.call_id for seen in reading.observations if isinstance(seen, CallExecuted)] == [None]
