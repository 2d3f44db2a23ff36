"""The table in docs/producers.md of what is recovered from each framework's captured spans, made from the captures.

    python -m tests.recovery_table          # print it
    python -m tests.recovery_table --write  # put it into the page

A cell is the share of calls (conversation: of traces) for which toolgauge has what really happened, `all` when that
is every one, `-` when there was nothing to find. What a producer does not export counts as not recovered: the table
tells a user what to expect.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolgauge.config.model import Config
from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.service.pipeline_factory import offline_pipeline

PAGE = Path(__file__).parent.parent / "docs" / "producers.md"
CORPUS = Path(__file__).parent / "corpus"
COLUMNS = ("names", "arguments", "results", "ids", "agents", "conversation", "failed", "rejected")
_HEAD = "| captured from | language | version | calls | " + " | ".join(COLUMNS) + " |"
_MARKS = ("<!-- recovered -->\n", "<!-- /recovered -->")
# What tells the version of a capture best: the instrumentation where there is one, else the framework.
_VERSIONS = re.compile(r"opentelemetry-(sdk|semantic-conventions.*)|openai|node|openinference-semantic.*")
_PREFERRED = re.compile(
    r"openinference-instrumentation|opentelemetry-instrumentation|openlit|langfuse|langsmith|traceloop"
)


def table() -> str:
    """Make the whole table."""
    lines = [_HEAD, "|---" * (len(COLUMNS) + 4) + "|"]
    lines += [_row(folder) for folder in sorted(CORPUS.iterdir()) if folder.is_dir()]
    return "\n".join(lines) + "\n"


def _row(folder: Path) -> str:
    truths = [json.loads(file.read_text()) for file in sorted(folder.glob("*.truth.json"))]
    found = trajectories(folder)
    right: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    calls = 0
    for truth in truths:
        for trace in truth["traces"]:
            ids = (trace["trace_id"], *trace.get("other_trace_ids", ()))
            here = [trajectory for one in ids for trajectory in found.get(one, ())]
            calls += len(trace["tool_calls"])
            for column, is_right in (*_conversation(truth, trace, here), *compared(trace["tool_calls"], here)):
                whole[column] += 1
                right[column] += is_right
    cells = [_cell(right[column], whole[column]) for column in COLUMNS]
    return f"| {folder.name} | {language(truths)} | {_version(truths, folder.name)} | {calls} | {' | '.join(cells)} |"


def language(truths: Sequence[Mapping[str, Any]]) -> str:
    """Name the language by the packages of the captured program."""
    packages = {name for truth in truths for name in truth["versions"]}
    if "@openai/codex" in packages:
        # The package has a program in it, not a script.
        return "Rust"
    if "kotlin" in packages:
        return "Kotlin"
    if "node" in packages:
        return "JavaScript"
    if any("java" in name for name in packages):
        return "Java"
    return "Go" if any(name.endswith("/go") for name in packages) else "Python"


def _cell(right: int, whole: int) -> str:
    if not whole:
        return "-"
    return "all" if right == whole else f"{right}/{whole}"


def _version(truths: Sequence[Mapping[str, Any]], folder: str) -> str:
    versions = {name: version for truth in truths for name, version in truth["versions"].items()}
    if not folder.startswith("openinference"):
        versions = {name: version for name, version in versions.items() if not name.startswith("openinference")}
    named = [name for name in versions if not _VERSIONS.fullmatch(name)]
    words = set(folder.replace("legacy", "").split("-"))

    def liking(name: str) -> tuple[int, bool]:
        return len(words & set(re.split(r"[-/@]", name))), bool(_PREFERRED.match(name))

    best = max(named or versions, key=liking)
    return f"{best} {versions[best]}"


def trajectories(folder: Path) -> dict[str, list[Trajectory]]:
    found: dict[str, list[Trajectory]] = {}
    recording = read(find_files([str(folder)]), _no_progress)
    for scorecard in scorecards(recording, offline_pipeline(Config(), ())):
        found.setdefault(scorecard.trajectory.trace_id, []).append(scorecard.trajectory)
    return found


def _no_progress(size: int) -> None:
    del size


def _conversation(
    truth: Mapping[str, Any], trace: Mapping[str, Any], here: Sequence[Trajectory]
) -> Iterator[tuple[str, bool]]:
    wanted = truth.get("session_id") or trace.get("conversation_id") or truth.get("conversation_id")
    if wanted is not None and here:
        yield "conversation", here[0].conversation_id == wanted


def compared(wanted: Sequence[Mapping[str, Any]], here: Sequence[Trajectory]) -> Iterator[tuple[str, bool]]:
    """Yield, for each call that was really made, each column with something to find, and whether it was found."""
    left = [call for trajectory in here for call in trajectory.calls]
    for want in wanted:
        call = taken(want, left)
        yield "names", call is not None
        yield "arguments", call is not None and has_arguments(want, call)
        if want.get("result") is not None:
            yield "results", call is not None and not isinstance(call.result, NotRecorded)
        if want.get("call_id"):
            yield "ids", call is not None and call.call_id == want["call_id"]
        if want.get("agent"):
            yield "agents", call is not None and call.agent is not None
        if want.get("error") and want.get("executed", True):
            yield "failed", call is not None and call.error is not None
        if want.get("rejected") and not want.get("executed"):
            yield "rejected", call is not None and call.state == "rejected"


def taken(want: Mapping[str, Any], left: list[ToolCall]) -> ToolCall | None:
    """Take the call that is meant: of this name, preferably with these arguments."""
    named = [call for call in left if call.name == want["name"]]
    best = next((call for call in named if has_arguments(want, call)), named[0] if named else None)
    if best is not None:
        left.remove(best)
    return best


def has_arguments(want: Mapping[str, Any], call: ToolCall) -> bool:
    options = (want["arguments"], want.get("effective_arguments", want["arguments"]))
    match call.arguments:
        case Recorded(value=value):
            return value in options
        case Unparsed(text=text):
            return any(isinstance(option, str) and option.strip() == text.strip() for option in options)
        case NotRecorded():
            return False


def main() -> None:
    """Print the table, or write it into the page."""
    if "--write" not in sys.argv:
        print(table(), end="")
        return
    before, _, rest = PAGE.read_text().partition(_MARKS[0])
    _, _, after = rest.partition(_MARKS[1])
    PAGE.write_text(before + _MARKS[0] + table() + _MARKS[1] + after)


def written() -> str:
    """Return the table that the page holds."""
    return PAGE.read_text().partition(_MARKS[0])[2].partition(_MARKS[1])[0]


if __name__ == "__main__":
    main()
