"""No series, stream or page of its own for each run: an id in place of a name, and a name that is new in every run, is no name."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import hashlib
import re
import uuid
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from tests.captures import Captured
from tests.recordings.corpus import diagnosed
from tests.walk.shapes import chat, request, run, span, tool
from tests.walk.support import Walk
from toolgauge.model.names import stable_name

AGNO = "openinference.instrumentation.agno"
AGENT, TOOL, SERVICE, VERSION = "gen_ai.agent.name", "gen_ai.tool.name", "toolgauge.service", "service.version"
KEYS = (SERVICE, VERSION, AGENT, TOOL)
_ID = re.compile(rb"(?<![0-9a-zA-Z])(?=[0-9a-f-]*[0-9])[0-9a-f]{8}[0-9a-f-]{0,28}(?![0-9a-zA-Z])")


def values(walk: Walk, label: str) -> set[str]:
    """Return the values that a label has in any series of scores or calls."""
    return {
        cell[metric.labels.index(label)]
        for metric in walk.registry
        if metric.name in ("toolgauge.tool_calls", "toolgauge.evaluations", "toolgauge.trajectories.duration")
        for cell in metric.cells
        if label in metric.labels
    } - {""}


def streams(walk: Walk) -> set[tuple[str | None, str | None, str | None]]:
    assert walk.watcher is not None
    return {(each.stream.service, each.stream.agent, each.stream.tool) for each in walk.watcher.statuses()}


def send(walk: Walk, *spans: ScopeSpans, service: str = "shop", version: str = "1.0") -> None:
    walk.send(request(*spans, service=service, version=version).SerializeToString())


def of_nameless_agno(number: int) -> tuple[ScopeSpans, ...]:
    """Return a run of agno's `Agent()`, whose node has a random id."""
    node = hashlib.sha256(str(number).encode()).hexdigest()[:16]
    trace, kind = f"t{number}", "openinference.span.kind"
    return (
        span(
            "Agent.run",
            {kind: "AGENT", "graph.node.id": node},
            id="run",
            parent=None,
            seconds=9,
            scope=AGNO,
            trace=trace,
        ),
        span("look_up", {kind: "TOOL", "tool.name": "look_up"}, id="call", at=1, scope=AGNO, trace=trace),
    )


def of_convention(number: int, agent: str, called: str = "look_up") -> tuple[ScopeSpans, ...]:
    (named,) = run(trace=f"t{number}").spans
    for attribute in named.attributes:
        if attribute.key == AGENT:
            attribute.value.string_value = agent
    around = ScopeSpans(scope=InstrumentationScope(name="my.agent"), spans=[named])
    return around, chat(trace=f"t{number}"), tool(called, {"id": number}, result="ok", trace=f"t{number}")


def test_thirty_runs_of_an_agent_with_a_random_id_are_one_agent():
    walk = Walk()
    for number in range(30):
        send(walk, *of_nameless_agno(number))
    walk.wait(40)
    assert values(walk, AGENT) == {"Agent"}
    assert values(walk, TOOL) == {"look_up"}
    assert {agent for _, agent, _ in streams(walk)} <= {"Agent", None}


@pytest.mark.parametrize("form", ["{:x}", "Agent-{}", "agent_{:x}"])
def test_an_id_in_the_name_of_an_agent_tool_or_service_makes_no_series_of_its_own(form: str):
    walk = Walk()
    for number in range(5):
        name = form.format((1 << 60) + 987_654_321 * number)
        send(walk, *of_convention(number, name, f"look_up_{uuid.uuid5(uuid.NAMESPACE_DNS, name)}"), service=name)
    walk.wait(40)
    assert [len(values(walk, label)) for label in (AGENT, SERVICE)] == ([0, 0] if form == "{:x}" else [1, 1])
    assert values(walk, TOOL) == {"look_up"}
    assert len({tool for _, _, tool in streams(walk)} - {None}) <= 1


def test_a_name_that_each_run_has_of_its_own_is_no_name_whatever_its_form():
    walk, words = Walk(), ("amber", "brisk", "calm", "dusty", "eager", "fuzzy", "gentle")
    for number in range(49):
        name = f"{words[number // 7]}-{words[number % 7]}"
        send(walk, *of_convention(number, name), version=f"dev-{name}")
        walk.wait(40)
    assert walk.watcher is not None
    assert len(values(walk, AGENT)) <= 30
    assert len({agent for _, agent, _ in streams(walk)} - {None}) == 30
    assert not any("fuzzy-" in (arm.version or "") for arm in walk.watcher.arms())


def test_names_that_come_again_stay_however_many_there_are():
    walk = Walk()
    for number in range(80):
        send(walk, *of_convention(number, f"agent-{number % 25}"), version=f"build.{number // 40}")
        walk.wait(10)
    assert values(walk, AGENT) == {f"agent-{number}" for number in range(25)}
    assert "build.1" in values(walk, VERSION)


def test_doctor_says_how_to_name_an_agent_that_has_an_id_for_a_name(tmp_path: Path):
    file = tmp_path / "agno.otlp.pb"
    spans = [each for number in range(3) for each in of_nameless_agno(number)]
    file.write_bytes(request(*spans).SerializeToString())
    (diagnosis,) = diagnosed([str(file)])
    (missing,) = [missing for missing in diagnosis.missing if missing.fact == "agent_name"]
    assert (missing.count, missing.of) == (3, 3)
    assert missing.remedy.switches == ("name",)


def test_no_label_differs_between_two_runs_of_one_captured_program(few_captured: Captured):
    def found(seed: str) -> dict[str, set[str]]:
        walk = Walk()
        for file in few_captured.files():
            walk.send(_of_another_run(file, seed), "logs" if ".logs." in file.name else "traces")
        walk.wait(60)
        return {key: values(walk, key) for key in KEYS}

    first = found("")
    assert found("another") == first
    assert {value for of in (SERVICE, AGENT, TOOL) for value in first[of] if stable_name(value) != value} == set()


def _of_another_run(file: Path, seed: str) -> bytes:
    """Write a captured request with other ids in its attributes; the same id is the same again. "" changes nothing."""

    def other(match: re.Match[bytes]) -> bytes:
        fresh = hashlib.sha256(seed.encode() + match[0]).hexdigest().encode()
        return bytes(b if b == ord("-") else fresh[at] for at, b in enumerate(match[0]))

    read = (ExportLogsServiceRequest if ".logs." in file.name else ExportTraceServiceRequest)()
    read.ParseFromString(file.read_bytes())
    logs = read.resource_logs if isinstance(read, ExportLogsServiceRequest) else ()
    spans = read.resource_spans if isinstance(read, ExportTraceServiceRequest) else ()
    holders = [each.resource for each in (*logs, *spans)]
    holders += [record for each in logs for scope in each.scope_logs for record in scope.log_records]
    holders += [record for each in spans for scope in each.scope_spans for record in scope.spans]
    for holder in holders if seed else ():
        for pair in holder.attributes:
            if text := pair.value.string_value:
                pair.value.string_value = _ID.sub(other, text.encode()).decode()
    return read.SerializeToString()
