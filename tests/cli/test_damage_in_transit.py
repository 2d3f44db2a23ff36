"""Arguments that a limit cut or a mask broke, in the attributes of several producers: never the model's broken JSON."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.cli.command import run

NOTE = json.dumps({"note": "n" * 20_000})
EMOJI = json.dumps({"note": "\U0001f389" * 3 + "z" * 5_000}, ensure_ascii=False)


def vercel(arguments: str) -> dict[str, str]:
    return {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "ask", "ai.toolCall.args": arguments}


def conventions(arguments: str) -> dict[str, str]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "ask",
        "gen_ai.tool.call.arguments": arguments,
    }


def openinference(arguments: str) -> dict[str, str]:
    return {"openinference.span.kind": "TOOL", "tool.name": "ask", "input.value": arguments}


def traceloop(arguments: str) -> dict[str, str]:
    return {"traceloop.span.kind": "tool", "traceloop.entity.name": "ask", "traceloop.entity.input": arguments}


def recorded(folder: Path, *spans: Mapping[str, str]) -> str:
    """Write one trace with a span for each set of attributes."""
    written = [
        {
            "traceId": "0af7651916cd43dd8448eb211c80319c",
            "spanId": f"{place + 1:016x}",
            "name": "ask",
            "startTimeUnixNano": str(1_764_150_000_000_000_000 + place * 1_000_000_000),
            "endTimeUnixNano": str(1_764_150_000_500_000_000 + place * 1_000_000_000),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        }
        for place, attributes in enumerate(spans)
    ]
    scope = {"scope": {"name": "ai"}, "spans": written}
    file = folder / "run.otlp.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [scope]}]}) + "\n")
    return str(file)


def states(file: str) -> Sequence[str]:
    """Return the states of the arguments, after a look at the outcomes of the default criteria."""
    results = [json.loads(line) for line in run("check", "--fail-on", "nothing", "--json", file).out.splitlines()]
    judged = [result for result in results if result["criterion"] == "default.arguments_schema"]
    assert {result["outcome"] for result in judged} == {"not_evaluated"}
    (trajectory,) = [json.loads(line) for line in run("check", "--calls", "--json", file).out.splitlines()]
    assert {call["state"] for call in trajectory["tool_calls"]} == {"executed"}
    return [call["arguments_state"] for call in trajectory["tool_calls"]]


@pytest.mark.parametrize(
    "attributes",
    [
        vercel(NOTE[:1_028]),
        vercel(EMOJI[: 4_096 - 3]),
        conventions(NOTE[:4_095]),
        openinference(NOTE[:12_000]),
        openinference(str(json.loads(NOTE))[:2_048]),
        traceloop(json.dumps({"inputs": json.loads(NOTE)})[:8_191]),
    ],
)
def test_arguments_that_end_at_a_known_limit_are_truncated(tmp_path: Path, attributes: dict[str, str]):
    assert states(recorded(tmp_path, attributes)) == ["truncated"]


@pytest.mark.parametrize(
    "attributes",
    [
        conventions('{"to": ****, "n": 1}'),
        vercel('{"amount": [REDACTED]}'),
        openinference("{'card': <CREDIT_CARD>, 'dry': True}"),
        traceloop('{"inputs": {"to": [Filtered]}}'),
    ],
)
def test_arguments_that_a_mask_broke_are_redacted(tmp_path: Path, attributes: dict[str, str]):
    assert states(recorded(tmp_path, attributes)) == ["redacted"]
