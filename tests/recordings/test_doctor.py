"""The doctor is right about recorded runs of real producers, and about what no recording has."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.recordings.corpus import diagnosed, recordings
from toolgauge.model.json import Json
from toolgauge.recognize.shortfalls import Fact, Producer, producer_of, table
from toolgauge.recordings.doctor import Diagnosis, diagnosis_lines, diagnosis_object

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
TRACE = "5b8efff798038103d269b633813fc60c"


def problems(diagnosis: Diagnosis) -> list[Fact]:
    return [missing.fact for missing in diagnosis.missing if missing.is_problem]


def test_of_calls_that_nobody_tells_of_nothing_is_asked_twice():
    (diagnosis,) = diagnosed(recordings("openai-v2", "content_off"))
    problem = list(diagnosis_lines(diagnosis))[2:5]
    assert problem[0] == (
        "  problem: no tool calls in 4 of 4 model calls, no arguments in 4 of 4 model calls, "
        "no results in 4 of 4 model calls"
    )
    assert problem[1].startswith("    what the model asked for is unknown: no call can be judged; not evaluated: ")
    assert problem[2].startswith(f"    do: set `{CAPTURE}=SPAN_AND_EVENT`")
    (ids,) = [missing for missing in diagnosis.missing if missing.fact == "call_ids"]
    assert CAPTURE in ids.remedy.switches


@pytest.mark.parametrize(("folder", "scopes"), [("autogen-native", ["autogen-core"]), ("mcp-python", ["fastmcp", "mcp-python-sdk"])])  # fmt: skip
def test_producers_that_never_record_arguments_are_not_sent_after_a_switch(folder: str, scopes: list[str]):
    ailing = [diagnosis for diagnosis in diagnosed(recordings(folder)) if diagnosis.has_problems]
    assert [diagnosis.producer.scope for diagnosis in ailing] == scopes
    for diagnosis in ailing:
        assert problems(diagnosis) == ["arguments", "results"]
        for missing in diagnosis.missing:
            assert missing.remedy.never
            assert not missing.remedy.switches


def test_spans_of_a_protocol_beneath_a_tool_that_records_its_arguments_are_no_problem():
    found = diagnosed(recordings("pydantic-ai", "mcp_sequence3"))
    assert {d.producer.scope: (d.calls, d.missing) for d in found} == {
        "fastmcp": (0, ()),
        "mcp-python-sdk": (0, ()),
        "pydantic-ai": (3, ()),
    }


def test_a_switch_that_hides_all_outputs_is_not_advised_where_outputs_were_recorded(tmp_path: Path):
    scope = "openinference.instrumentation.smolagents"
    silent = {"openinference.span.kind": "TOOL", "tool.name": "final_answer", "input.value": '{"kwargs": {"a": 1}}'}
    (alone,) = diagnosed([recorded(tmp_path, scope, silent)])
    assert [missing.remedy.switches for missing in alone.missing if missing.fact == "results"] == [
        ("OPENINFERENCE_HIDE_OUTPUTS",)
    ]
    model = {
        "openinference.span.kind": "LLM",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "The answer is 7.",
    }
    (beside,) = diagnosed([recorded(tmp_path, scope, silent, model)])
    (results,) = [missing for missing in beside.missing if missing.fact == "results"]
    assert "OPENINFERENCE_HIDE_OUTPUTS" not in results.remedy.how
    assert results.remedy.how.startswith("outputs of this producer are recorded, so no switch hides these")


def test_a_code_agent_is_plainly_claimed_from_one_that_calls_tools():
    (diagnosis,) = diagnosed(recordings("openinference-smolagents-code"))
    assert (diagnosis.sent.code_steps, diagnosis.sent.failed_code_steps) == (5, 0)
    assert list(diagnosis_lines(diagnosis))[2:5] == [
        "  note: a code agent: 5 steps wrote code, 0 of them failed by their own code",
        "    calls inside the code show only where their tools have spans; all other calls are unknown",
        "    judged: each failed step, as a call of kind `code`, by `tool_success`; each call with a span, by every evaluator",
    ]
    assert diagnosis_object(diagnosis)["code_steps"] == 5
    (other,) = diagnosed(recordings("openinference-smolagents"))
    assert "code_steps" not in diagnosis_object(other)


def test_log_events_that_name_no_trace_are_a_problem_of_their_own(tmp_path: Path):
    said = {"event.name": "tool_result", "tool_name": "Bash", "tool_use_id": "toolu_1", "success": "true"}
    record: Json = {
        "timeUnixNano": "1700000000000000000",
        "eventName": "claude_code.tool_result",
        "attributes": attributes({**said, "session.id": "s-1"}),
    }
    group: Json = {"scope": {"name": "com.anthropic.claude_code.events", "version": "2.1"}, "logRecords": [record]}
    resource: Json = {"attributes": attributes({"service.name": "claude-code"})}
    body: Json = {"resourceLogs": [{"resource": resource, "scopeLogs": [group]}]}
    path = tmp_path / "logs.json"
    path.write_text(json.dumps(body))
    (diagnosis,) = diagnosed([str(path)])
    (missing,) = diagnosis.missing
    assert missing.what == "no tool calls in 1 of 1 log records"
    assert "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA" in missing.remedy.switches


def test_tools_in_traces_of_their_own_are_told_apart_from_their_requests(tmp_path: Path):
    model = recorded(tmp_path / "model", "acme", {"gen_ai.operation.name": "chat"})
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    (together,) = diagnosed([recorded(tmp_path / "together", "acme", {"gen_ai.operation.name": "chat"}, tool)])
    apart = Path(recorded(tmp_path / "apart", "acme", tool))
    apart.write_text(apart.read_text().replace(TRACE, TRACE[::-1]))
    (alone,) = diagnosed([model, str(apart)])
    assert (together.lone_calls, alone.lone_calls) == (0, 1)
    assert "1 call in traces without the model's request" in "\n".join(diagnosis_lines(alone))


def test_calls_that_may_count_twice_are_said(tmp_path: Path):
    part = {"type": "tool_call", "id": "1", "name": "read_meter", "arguments": {"id": 7}}
    asked = json.dumps([{"role": "assistant", "parts": [part]}])
    model = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": asked}
    content = {"gen_ai.tool.call.arguments": '{"meter": "7"}', "gen_ai.tool.call.result": "42"}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "MeterAction", **content}
    (apart,) = diagnosed([recorded(tmp_path / "apart", "acme", model, tool)])
    assert (apart.calls, apart.sent.doubled_calls, diagnosis_object(apart)["doubled_calls"]) == (2, 1, 1)
    lines = "\n".join(diagnosis_lines(apart))
    assert "1 call that no model asked for, beside as many in the same runs that nothing ran" in lines
    assert "nothing is missing" not in lines
    same = {**tool, "gen_ai.tool.call.arguments": '{"id": 7}'}
    (joined,) = diagnosed([recorded(tmp_path / "joined", "acme", model, same)])
    assert (joined.calls, joined.sent.doubled_calls) == (1, 0)


def test_spans_that_lost_attributes_are_counted_with_the_limits_to_raise(tmp_path: Path):
    path = Path(recorded(tmp_path, "acme", {"gen_ai.operation.name": "chat"}))
    path.write_text(path.read_text().replace('"name": "span"', '"name": "span", "droppedAttributesCount": 37'))
    (found,) = diagnosed([str(path)])
    assert diagnosis_object(found)["cut_spans"] == 1
    lines = "\n".join(diagnosis_lines(found))
    assert "1 span from which the SDK dropped attributes or events" in lines
    assert "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in lines


def test_a_diagnosis_is_one_object_a_producer():
    (diagnosis,) = diagnosed(recordings("pydantic-ai", "content_off"))
    found = diagnosis_object(diagnosis)
    missing = found.pop("missing")
    assert found == {
        "service": "pydantic-ai-demo",
        "scope": "pydantic-ai",
        "version": "2.68.0",
        "language": "python",
        "dialects": ["genai"],
        "spans": 8,
        "log_records": 0,
        "calls": 3,
        "ok": False,
    }
    assert isinstance(missing, list)
    assert isinstance(first := missing[0], dict)
    assert (first["what"], first["grade"], first["count"], first["of"]) == ("arguments", "problem", 3, 3)
    assert "tool_call_args" in str(first["not_evaluated"])


def test_names_of_a_hostile_producer_cannot_steer_a_terminal(tmp_path: Path):
    spans: dict[str, Json] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "x"}
    (diagnosis,) = diagnosed([recorded(tmp_path, "\x1b[2J" + "s" * 10_000, spans)])
    lines = list(diagnosis_lines(diagnosis))
    assert "\x1b" not in "".join(lines)
    assert lines[0].startswith("shop: \\x1b[2Js")
    assert len(lines[0]) < 300


def producer(scope: str, *, version: str = "", language: str = "") -> Producer:
    return producer_of("shop", scope, version, language)


def attributes(values: Mapping[str, Json]) -> Json:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


def recorded(folder: Path, scope: str, *values: Mapping[str, Json]) -> str:
    """Record root spans of one trace as OTLP JSON."""
    spans: list[Json] = [
        {
            "traceId": TRACE,
            "spanId": f"{0x102040810203040 + number:016x}",
            "name": "span",
            "startTimeUnixNano": "1700000000000000000",
            "endTimeUnixNano": "1700000001000000000",
            "attributes": attributes(one),
        }
        for number, one in enumerate(values)
    ]
    group: Json = {"scope": {"name": scope}, "spans": spans}
    resource: Json = {"attributes": attributes({"service.name": "shop"})}
    folder.mkdir(exist_ok=True)
    path = folder / "spans.json"
    path.write_text(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [group]}]}))
    return str(path)


def test_each_remedy_of_the_table_is_named_by_a_row_or_stands_in_for_one():
    named = {name for row in table().rows for name in row.remedies.values()}
    assert table().remedies.keys() - named == {
        "content_is_on",
        "outputs_are_recorded",
        "recorded_elsewhere",
        "offered_elsewhere",
    }
