"""What toolgauge, two other packages and plain checks find of known faults, and what they flag of runs without.

    python examples/yardstick/yardstick.py [CONVERSATIONS.json] [--only toolgauge collector] [--seed 0]

CONVERSATIONS.json is a list of objects with `traj`, the messages of a conversation in OpenAI's form, and `reward`, 1 where it went well:
`historical_trajectories/*.json` of tau-bench (https://github.com/sierra-research/tau-bench) are such files. Faults are planted in copies
of the conversations, one in each. Without a file the runs are captures of six frameworks whose agents were made to commit the faults
(`tests/recordings/faults`). Found is a run of which a rule flags more than of the same run without its fault.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import scorers
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from planting import KINDS, Conversation, calls_of, plant
from scorers import Flags, Run
from spans import spans_of_conversation

CAPTURES = Path(__file__).parents[2] / "tests" / "recordings" / "faults"
WITHOUT_FAULT = "good_answer"

# The columns of each package; those with messages need a file of conversations.
TOOLS: dict[str, dict[str, Callable[[list[Run]], Flags]]] = {
    "toolgauge": {"toolgauge": scorers.toolgauge},
    "tracelint": {
        "tracelint, sure": lambda runs: scorers.tracelint(runs, "otel", candidates=False),
        "tracelint, all": lambda runs: scorers.tracelint(runs, "otel", candidates=True),
    },
    "collector": {"checks of a Collector": scorers.collector},
}
WITH_MESSAGES: dict[str, dict[str, Callable[[list[Run]], Flags]]] = {
    "tracelint": {"tracelint, all, of messages": lambda runs: scorers.tracelint(runs, "openai", candidates=True)},
    "agentevals": {"agentevals": scorers.agentevals},
}
# The kind of a fault, and the numbers of the run with it and of the one without.
Fault = tuple[str, int, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("conversations", type=Path, nargs="?")
    parser.add_argument("--only", nargs="+", choices=[*TOOLS, "agentevals"], default=[*TOOLS, "agentevals"])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.conversations is None:
        runs, faults, unplanted, tools = *captured(), TOOLS
    else:
        runs, faults, unplanted = planted(json.loads(arguments.conversations.read_text()), arguments.seed)
        tools = {name: TOOLS.get(name, {}) | WITH_MESSAGES.get(name, {}) for name in (*TOOLS, "agentevals")}
    asked = {name: ask for tool in arguments.only for name, ask in tools.get(tool, {}).items()}
    columns = {name: ask(runs) for name, ask in asked.items()}
    print(f"| fault | runs | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    for kind in dict.fromkeys(kind for kind, _, _ in faults):
        places = [(at, twin) for one, at, twin in faults if one == kind]
        found = [
            sum(bool(of.get(at, Counter()) - of.get(twin, Counter())) for at, twin in places) for of in columns.values()
        ]
        print(f"| `{kind}` | {len(places)} | {' | '.join(map(str, found))} |")
    for name, numbers in unplanted.items():
        print(f"| {name} | {len(numbers)} | {' | '.join(str(len(of.keys() & numbers)) for of in columns.values())} |")


def planted(recorded: list[dict[str, object]], seed: int) -> tuple[list[Run], list[Fault], dict[str, set[int]]]:
    """Return the recorded conversations and behind them the copies with a fault, the faults, and the recorded ones by how they went."""
    twins: list[Conversation] = [_ended(run["traj"]) for run in recorded]  # type: ignore[arg-type]
    copies = sorted(plant(twins, seed), key=lambda one: [*KINDS].index(one.kind))
    pairs = [*zip(twins, twins, strict=True), *((one.messages, twins[one.twin]) for one in copies)]
    tools = sorted({call["function"]["name"] for one in twins for message in one for call in calls_of(message)})
    runs = [Run(spans_of_conversation(own, at, tools), own, twin) for at, (own, twin) in enumerate(pairs)]
    faults = [(one.kind, len(twins) + at, one.twin) for at, one in enumerate(copies)]
    well = {at for at, run in enumerate(recorded) if run["reward"] == 1}
    return runs, faults, {"none: it went well": well, "none: it went badly": {*range(len(twins))} - well}


def captured() -> tuple[list[Run], list[Fault], dict[str, set[int]]]:
    """Return the captures of all frameworks, their faults, and those without."""
    runs: dict[tuple[str, str], Run] = {}
    for file in sorted(CAPTURES.glob("*/*.otlp.pb")):
        if ".logs." not in file.name:
            run = runs.setdefault((file.name.split(".")[0], file.parent.name), Run(ExportTraceServiceRequest()))
            run.spans.MergeFromString(file.read_bytes())
    places = {name: at for at, name in enumerate(runs)}
    good = {producer: at for (scenario, producer), at in places.items() if scenario == WITHOUT_FAULT}
    faults = [
        (scenario, at, good[producer]) for (scenario, producer), at in places.items() if scenario != WITHOUT_FAULT
    ]
    return [*runs.values()], faults, {"none": {*good.values()}}


def _ended(messages: Conversation) -> Conversation:
    """Leave out what the user said last: no answer follows."""
    return messages[:-1] if messages[-1]["role"] == "user" else messages


if __name__ == "__main__":
    main()
