"""What each tool says of runs: how often each of its rules flags each of them.

Other packages run in environments of their own, which are made at the first use.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from planting import READS, Conversation, calls_of

TRACELINT = "tracelint==0.14.0"
AGENTEVALS = "agentevals==0.0.9"

# How often each rule flagged a run, by the number of the run; runs that were not flagged are left out.
Flags = dict[int, Counter[str]]


@dataclass(frozen=True)
class Run:
    """One run as spans and, where they are known, as messages with those that it should have had."""

    spans: ExportTraceServiceRequest
    messages: Conversation | None = None
    reference: Conversation | None = None


def toolgauge(runs: list[Run]) -> Flags:
    """Ask the default criteria, by `toolgauge check`."""
    numbers = {span.trace_id.hex(): number for number, run in enumerate(runs) for span in spans_of(run)}
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / f"{number}.otlp.pb") for number in range(len(runs))]
        for file, run in zip(files, runs, strict=True):
            Path(file).write_bytes(run.spans.SerializeToString())
        command = [sys.executable, "-m", "toolgauge", "check", folder, "--json", "--fail-on", "nothing"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    flags: Flags = {}
    for line in printed.splitlines():
        result = json.loads(line)
        if result["outcome"] == "fail" and result["enforce"] == "live":
            flags.setdefault(numbers[result["trace_id"]], Counter())[result["evaluator"]] += 1
    return flags


def tracelint(runs: list[Run], form: str, *, candidates: bool) -> Flags:
    """Ask all rules, with a contract that says which tools change state.

    `form` is `otel`, which has the status of calls, or `openai`, which has all that the user said; `candidates` counts also what the
    tool itself is not sure of.
    """
    tiers = {"hard_defect", "hard_event", *(["candidate"] if candidates else [])}
    flags: Flags = {}
    with tempfile.TemporaryDirectory() as folder:
        tools, out = Path(folder) / "tools.json", Path(folder) / "out.json"
        contracts = {name: {"metadata": {"side_effecting": not READS.fullmatch(name)}} for name in _names(runs)}
        tools.write_text(json.dumps({"tools": contracts}))
        files = {str(Path(folder) / f"{number:06}.json"): number for number in range(len(runs))}
        for file, number in files.items():
            run = runs[number]
            Path(file).write_text(json_format.MessageToJson(run.spans) if form == "otel" else json.dumps(run.messages))
        command = [str(environment(TRACELINT) / "tracelint"), "check", *files, "--format", form]
        command += ["--tools", str(tools), "--json", str(out), "--quiet"]
        ran = subprocess.run(command, check=False, capture_output=True, text=True)
        if not out.exists():
            sys.exit(f"tracelint: {ran.stderr}")
        for report in json.loads(out.read_text())["reports"]:
            found = Counter(one["rule"] for one in report["findings"] if one["tier"] in tiers)
            if found:
                flags.setdefault(files[_in(folder, report["source"])], Counter()).update(found)
    return flags


def agentevals(runs: list[Run]) -> Flags:
    """Compare each run with the one that it should have been: equal calls with equal arguments, in the same order."""
    program = (
        "import json, sys\n"
        "from agentevals.trajectory.match import create_trajectory_match_evaluator\n"
        "evaluate = create_trajectory_match_evaluator(trajectory_match_mode='strict')\n"
        "for line in sys.stdin:\n"
        "    outputs, reference = json.loads(line)\n"
        "    print(int(evaluate(outputs=outputs, reference_outputs=reference)['score']))\n"
    )
    lines = "".join(json.dumps([run.messages, run.reference]) + "\n" for run in runs)
    command = [str(environment(AGENTEVALS) / "python"), "-c", program]
    printed = subprocess.run(command, input=lines, check=True, capture_output=True, text=True).stdout.split()
    return {number: Counter(strict=1) for number, score in enumerate(printed) if score == "0"}


def collector(runs: list[Run]) -> Flags:
    """Check what processors of a Collector can: a span that failed, and the same tool with the same arguments twice."""
    flags: Flags = {}
    for number, run in enumerate(runs):
        calls: Counter[tuple[str, str]] = Counter()
        for span in spans_of(run):
            arguments = _value(span, "gen_ai.tool.call.arguments", "input.value")
            if arguments and (tool := _tool(span)):
                calls[tool, arguments] += 1
        failed = sum(span.status.code == Status.STATUS_CODE_ERROR for span in spans_of(run))
        found = Counter(failed=failed, twice=sum(times > 1 for times in calls.values()))
        if found.total():
            flags[number] = found
    return flags


def environment(requirement: str) -> Path:
    """Return the folder of the programs of an environment with one package, and make it if it is not there."""
    folder = Path.home() / ".cache" / "toolgauge-yardstick" / requirement.replace("==", "-")
    if not (folder / "done").exists():
        print(f"installing {requirement} into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", requirement], check=True)
        (folder / "done").touch()
    return folder / "bin"


def spans_of(run: Run) -> list[Span]:
    """Return all spans of a run."""
    return [span for group in run.spans.resource_spans for scope in group.scope_spans for span in scope.spans]


def _names(runs: list[Run]) -> list[str]:
    told = {call["function"]["name"] for run in runs for message in run.messages or () for call in calls_of(message)}
    return sorted(told | {tool for run in runs for span in spans_of(run) if (tool := _tool(span))})


def _tool(span: Span) -> str:
    return _value(span, "gen_ai.tool.name", "tool.name")


def _value(span: Span, *keys: str) -> str:
    values = {one.key: one.value.string_value for one in span.attributes if one.key in keys}
    return next((values[key] for key in keys if values.get(key)), "")


def _in(folder: str, source: str) -> str:
    return str(Path(folder) / Path(source).name)
