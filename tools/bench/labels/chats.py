"""Converts recorded chats with labelled messages to a folder for `python -m tools.bench.labels`.

    python -m tools.bench.labels.chats agentrx AGENTRX TAU_BENCH FOLDER
    python -m tools.bench.labels.chats agentprocessbench FILE.jsonl SET FOLDER

AGENTRX is a checkout of microsoft/AgentRx, TAU_BENCH one of sierra-research/tau-bench, of which the tools' definitions are; FILE is
one of RUCBM/AgentProcessBench. The messages become GenAI spans, one trace a chat: a model call for each message of the
assistant, a tool call for each of its calls, with made-up times and ids. Errors that were results of tools stay results.
"""

import argparse
import ast
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.bench.labels.labelled_runs import LabelledError, LabelledRun, Step, attributes, write_set

_Message = Mapping[str, Any]
_START_NS, _SECOND_NS = 1_767_618_000_000_000_000, 1_000_000_000


def request_of(trace_id: str, messages: Sequence[_Message], tools: Sequence[Any]) -> tuple[list[Step], dict[str, Any]]:
    """Return the steps of a chat, one a message, and its OTLP JSON request."""
    root = _id(f"{trace_id} root", 16)
    definitions = [{"type": "function", **(tool.get("function") or tool)} for tool in tools]
    results = {one.get("tool_call_id"): one for one in messages if one["role"] == "tool"}
    spans: list[dict[str, Any]] = []
    steps: list[Step] = []
    for number, message in enumerate(messages):
        start, made = _START_NS + number * _SECOND_NS, list[dict[str, Any]]()
        if message["role"] == "assistant":
            model = {
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": [_parts(one) for one in messages[:number]],
                "gen_ai.output.messages": [_parts(message)],
                "gen_ai.tool.definitions": definitions,
            }
            made = [_span(trace_id, root, f"{number} chat", "chat", start, model)]
            for call in message.get("tool_calls") or ():
                name = call["function"]["name"]
                executed = {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": name,
                    "gen_ai.tool.call.id": call["id"],
                    "gen_ai.tool.call.arguments": call["function"]["arguments"],
                    **({"gen_ai.tool.call.result": _text(results[call["id"]])} if call["id"] in results else {}),
                }
                place = f"{number} {call['id']}"
                made.append(_span(trace_id, root, place, f"execute_tool {name}", start + _SECOND_NS // 2, executed))
        spans += made
        ids = [span["spanId"] for span in made]
        # Steps are named as the sets count messages: by their `index` where they have one, else from 0.
        steps.append(Step(id=str(message.get("index", number)), spans=ids, calls=ids[1:]))
    agent = {"gen_ai.operation.name": "invoke_agent"}
    end = _START_NS + len(messages) * _SECOND_NS
    spans.append({**_span(trace_id, "", "root", "invoke_agent agent", _START_NS, agent), "endTimeUnixNano": str(end)})
    resource = {"attributes": attributes({"service.name": "labelled-chats"})}
    return steps, {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {}, "spans": spans}]}]}


def _span(trace_id: str, parent: str, place: str, name: str, start: int, own: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "traceId": trace_id,
        "spanId": _id(f"{trace_id} {place}", 16),
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + _SECOND_NS // 4),
        "attributes": attributes({"gen_ai.agent.name": "agent", **own}),
    }


def _id(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _text(message: _Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else json.dumps(content) if content else ""


def _parts(message: _Message) -> dict[str, Any]:
    text = _text(message)
    if message["role"] == "tool":
        part = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": text}
        return {"role": "tool", "parts": [part]}
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}] if text else []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        parts.append(
            {"type": "tool_call", "id": call["id"], "name": function["name"], "arguments": function["arguments"]}
        )
    return {"role": message["role"], "parts": parts}


def agentrx(checkout: Path, tau_bench: Path) -> Iterator[tuple[LabelledRun, dict[str, Any]]]:
    """Yield the tau-retail runs of AgentRx, labels by the number of a message."""
    labels = json.loads((checkout / "data/ground_truth/tau_ground_truth.json").read_text(encoding="utf-8"))
    failures = {row["trajectory_id"]: row for row in labels}
    tools = list(_tau_tools(tau_bench / "tau_bench/envs/retail/tools"))
    for row in json.loads((checkout / "data/tau_retail/tau_dataset_full.json").read_text(encoding="utf-8")):
        trace_id = _id(f"agentrx {row['task_id']}", 32)
        steps, request = request_of(trace_id, row["traj"], tools)
        found = failures.get(row["task_id"], {"failures": (), "root_cause": {}})
        errors = [
            LabelledError(
                step=str(failure["step_number"]),
                category=failure["failure_category"],
                root=failure["failure_id"] == found["root_cause"].get("failure_id"),
            )
            for failure in found["failures"]
        ]
        yield LabelledRun(trace_id=trace_id, passed=row["reward"] == 1, steps=steps, errors=errors), request


def _tau_tools(folder: Path) -> Iterator[Any]:
    """Yield the definitions that the tools' `get_info` return, read from their source."""
    for file in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == "get_info":
                yield from (
                    ast.literal_eval(one.value) for one in node.body if isinstance(one, ast.Return) and one.value
                )


def agent_process_bench(file: Path) -> Iterator[tuple[LabelledRun, dict[str, Any]]]:
    """Yield the runs of a file of AgentProcessBench; a step with the label -1 is wrong, without a category."""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        trace_id = _id(f"{file.name} {number}", 32)
        tools = json.loads(row["tools"]) if isinstance(row.get("tools"), str) else row.get("tools") or ()
        steps, request = request_of(trace_id, row["messages"], tools)
        errors = [LabelledError(step=step, category="wrong step") for step in _wrong_steps(row["step_labels"])]
        # 0 means that people could not decide.
        passed = {1: True, -1: False}.get(row["final_label"])
        yield LabelledRun(trace_id=trace_id, passed=passed, steps=steps, errors=errors), request


def _wrong_steps(labels: Mapping[str, int] | Sequence[int]) -> Iterator[str]:
    pairs = labels.items() if isinstance(labels, Mapping) else enumerate(labels)
    yield from (str(step) for step, label in pairs if label == -1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sources = parser.add_subparsers(dest="source", required=True)
    rx = sources.add_parser("agentrx")
    rx.add_argument("checkout", type=Path)
    rx.add_argument("tau_bench", type=Path)
    process = sources.add_parser("agentprocessbench")
    process.add_argument("file", type=Path)
    process.add_argument("set")
    for one in (rx, process):
        one.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    if chosen.source == "agentrx":
        name, runs = "agentrx-tau", agentrx(chosen.checkout, chosen.tau_bench)
    else:
        name, runs = chosen.set, agent_process_bench(chosen.file)
    print(f"{write_set(chosen.folder, name, runs)} runs")


if __name__ == "__main__":
    main()
