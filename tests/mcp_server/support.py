"""A client of the server in this process, and recordings of agents that are told what to do."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from mcp import Client
from mcp_types import CallToolResult, TextContent

from toolgauge.mcp_server.answers_to_questions import ToolAnswers
from toolgauge.mcp_server.readable_files import ReadableFiles
from toolgauge.mcp_server.scored_recordings import MAX_TRAJECTORIES, ScoringFiles
from toolgauge.mcp_server.stdio_server import server_of

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "corpus"
SHOWN = ("redact.values=show",)
_START_NS = 1_800_000_000_000_000_000
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A call that an agent made."""

    tool: str
    arguments: Mapping[str, object]
    error: str | None = None
    result: str = "ok"


@asynccontextmanager
async def client(
    *recordings: Path,
    criteria: Path | None = None,
    overrides: tuple[str, ...] = (),
    max_trajectories: int = MAX_TRAJECTORIES,
) -> AsyncGenerator[Client]:
    """Connect a client to a server that was given these recordings."""
    scoring = ScoringFiles(overrides=overrides, criteria_files=() if criteria is None else (str(criteria),))
    answers = ToolAnswers(ReadableFiles(tuple(map(str, recordings))), scoring, max_trajectories)
    async with Client(server_of(answers)) as connected:
        # The client checks answers against the schemas of tools that it has listed.
        await connected.list_tools()
        yield connected


def text_of(result: CallToolResult) -> str:
    """Return the text of an answer."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def error_of(result: CallToolResult) -> list[str]:
    """Return the lines of an error."""
    assert result.is_error
    assert result.structured_content is None
    return text_of(result).splitlines()


def write_runs(
    path: Path, runs: Sequence[Sequence[Called]], *, first: int = 0, service: str = "shop", version: str = "1"
) -> Path:
    """Write one run of an agent a line, as OTLP JSON; the trace id of each is its number."""
    with path.open("a") as file:
        for number, calls in enumerate(runs, start=first):
            file.write(json.dumps(_request(number, calls, service, version)) + "\n")
    return path


def trace_id(number: int) -> str:
    """Return the trace id of a run."""
    return f"{number + 1:032x}"


def _request(number: int, calls: Sequence[Called], service: str, version: str) -> object:
    start = _START_NS + number * 100 * _SECOND_NS
    root = {
        "traceId": trace_id(number),
        "spanId": f"{1:016x}",
        "name": "invoke_agent clerk",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 60 * _SECOND_NS),
        "attributes": _attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk"}),
    }
    spans = [_span(number, place, call, start) for place, call in enumerate(calls)]
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes({"service.name": service, "service.version": version})},
                "scopeSpans": [{"scope": {"name": "shop.agent"}, "spans": [*spans, root]}],
            }
        ]
    }


def _span(number: int, place: int, call: Called, start: int) -> Mapping[str, object]:
    attributes: dict[str, str] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call.id": f"call-{place}",
        "gen_ai.tool.call.arguments": json.dumps(call.arguments),
    }
    if call.error is None:
        attributes["gen_ai.tool.call.result"] = call.result
    else:
        attributes["error.type"] = call.error
    return {
        "traceId": trace_id(number),
        "spanId": f"{place + 2:016x}",
        "parentSpanId": f"{1:016x}",
        "name": f"execute_tool {call.tool}",
        "startTimeUnixNano": str(start + place * _SECOND_NS),
        "endTimeUnixNano": str(start + (place + 1) * _SECOND_NS),
        "attributes": _attributes(attributes),
        "status": {"code": 0 if call.error is None else 2, "message": call.error or ""},
    }


def _attributes(values: Mapping[str, str]) -> Sequence[Mapping[str, object]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]
