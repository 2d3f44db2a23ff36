"""What criteria find in a release that does the wrong thing without a fault: with defaults, learned, and learned from verdicts.

    python -m tools.bench.verdicts [FOLDER]

150 runs of a shop's agent are made up, 35 of which skip the lookup, refund three times the amount, or refund twice. Criteria are learned
from them without and with people's verdicts, and judge 150 other runs of the same kind.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from toolgauge.model.json import Json, JsonObject

RUNS, BAD = 150, 35
_START_NS, _S = 1_700_000_000_000_000_000, 1_000_000_000
_TOOLS: list[JsonObject] = [
    {"type": "function", "name": "find_order", "parameters": {"type": "object"}},
    {"type": "function", "name": "refund_order", "parameters": {"type": "object"}},
]


def write(folder: Path, name: str, seed: int) -> tuple[Path, Path]:
    """Write a recording and the verdicts on its runs."""
    random, verdicts = Random(seed), ["trace_id,verdict"]  # noqa: S311 (made-up runs)
    lines: list[str] = []
    faults = [("lookup", "amount", "twice")[number % 3] for number in range(BAD)] + [""] * (RUNS - BAD)
    random.shuffle(faults)
    for number, fault in enumerate(faults):
        trace_id = f"{random.getrandbits(128):032x}"
        spans = _run(random, trace_id, _START_NS + number * 60 * _S, fault)
        verdicts.append(f"{trace_id},{'fail' if fault else 'pass'}")
        resource: JsonObject = {"attributes": [_attribute("service.name", "shop")]}
        scopes: list[Json] = [{"scope": {"name": "shop.agent"}, "spans": [*spans]}]
        lines.append(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}))
    recording, labels = folder / f"{name}.jsonl", folder / f"{name}.csv"
    recording.write_text("\n".join(lines))
    labels.write_text("\n".join(verdicts))
    return recording, labels


def _run(random: Random, trace_id: str, start_ns: int, fault: str) -> list[JsonObject]:
    order, total = f"A{random.randrange(10**6, 10**7)}", random.randrange(4000, 10000) / 100
    refund: JsonObject = {
        "order_id": order,
        "amount": total * 3 if fault == "amount" else total,
        "reason": random.choice(["late", "damaged"]),
    }
    calls: list[tuple[str, JsonObject, JsonObject]] = []
    if fault != "lookup":
        calls.append(("find_order", {"order_id": order}, {"order_id": order, "total": total, "status": "paid"}))
    ids = [f"R-{random.randrange(10**5, 10**6)}" for _ in range(2 if fault == "twice" else 1)]
    done: list[JsonObject] = [{"refund_id": each, "status": "done"} for each in ids]
    calls += [("refund_order", refund, each) for each in done]
    # The agent that is told the amount thinks that it need not look.
    paid = f", I paid {total:.2f}" if fault == "lookup" else ""
    asked = f"Please refund order {order}{paid}. It was {refund['reason']}."
    said: list[Json] = [{"role": "user", "parts": [{"type": "text", "content": asked}]}]
    spans = [_span(trace_id, "0" * 15 + "1", "", "invoke_agent shop", start_ns, start_ns + 50 * _S, {})]
    for number, (tool, arguments, result) in enumerate((*calls, ("", {}, {}))):
        at_ns, span_id = start_ns + (3 * number + 1) * _S, f"{2 * number + 2:016x}"
        part: JsonObject = {"type": "text", "content": f"Your refund for {order} is on its way."}
        if tool:
            part = {"type": "tool_call", "id": f"c{number}", "name": tool, "arguments": arguments}
        answered: list[Json] = [
            {"role": "assistant", "parts": [part], "finish_reason": "tool_call" if tool else "stop"}
        ]
        chat = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(said),
            "gen_ai.output.messages": json.dumps(answered),
            "gen_ai.tool.definitions": json.dumps(_TOOLS),
        }
        spans.append(_span(trace_id, span_id, "0" * 15 + "1", "chat", at_ns, at_ns + _S, chat))
        if tool:
            executed = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.tool.call.id": f"c{number}",
                "gen_ai.tool.call.arguments": json.dumps(arguments),
                "gen_ai.tool.call.result": json.dumps(result),
            }
            spans.append(
                _span(trace_id, f"{2 * number + 3:016x}", "0" * 15 + "1", tool, at_ns + _S, at_ns + 2 * _S, executed)
            )
            response: JsonObject = {"type": "tool_call_response", "id": f"c{number}", "response": result}
            answer: JsonObject = {"role": "tool", "parts": [response]}
            said += [*answered, answer]
    return spans


def _span(
    trace_id: str, span_id: str, parent: str, name: str, start_ns: int, end_ns: int, attributes: dict[str, str]
) -> JsonObject:
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"} if not parent else {}
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(end_ns),
        "attributes": [_attribute(key, value) for key, value in {**agent, **attributes}.items()],
    }


def _attribute(key: str, value: str) -> JsonObject:
    return {"key": key, "value": {"stringValue": value}}


def flagged(recording: Path, labels: Path, *criteria: str) -> tuple[int, int]:
    """Count the bad and the good runs in which a criterion fails."""
    done = _toolgauge("check", "--fail-on", "nothing", "--json", str(recording), *criteria)
    rows = [json.loads(line) for line in done.splitlines()]
    failed = {row["trace_id"] for row in rows if row["outcome"] == "fail" and row["enforce"] == "live"}
    bad = {line.split(",")[0] for line in labels.read_text().splitlines() if line.endswith(",fail")}
    return len(failed & bad), len(failed - bad)


def _toolgauge(*words: str) -> str:
    command = [str(Path(sys.executable).with_name("toolgauge")), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(folder: Path) -> None:
    """Print a table."""
    past, verdicts = write(folder, "past", 1)
    new, truth = write(folder, "new", 2)
    _toolgauge("learn", str(past), "-o", str(folder / "learned.yaml"))
    began = time.perf_counter()
    _toolgauge("learn", str(past), "--labels", str(verdicts), "-o", str(folder / "by-people.yaml"))
    took = time.perf_counter() - began
    print(f"of {BAD} bad and {RUNS - BAD} good runs, flagged by")
    for name, words in (
        ("default criteria", ()),
        ("default criteria and `learn`", ("--criteria", str(folder / "learned.yaml"))),
        ("default criteria and `learn --labels`", ("--criteria", str(folder / "by-people.yaml"))),
    ):
        print(f"  {name}: %d bad, %d good" % flagged(new, truth, *words))
    print(f"`learn --labels` took {took:.1f} s")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
