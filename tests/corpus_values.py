"""All captured frameworks: results, errors, offers and texts have the values that were returned, raised, offered and said.

python -m tests.corpus_values NAME...   # print each value that differs, of these folders or of all
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.producers.stub.scenarios import TOOLS, own_name
from tests.recovery_table import CORPUS, MadeCall, taken, trajectories
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.recorded_values import result_value

# A description with a schema behind it is a definition; the names of tools alone are on offer in few captures.
_DEFINED, _NEAR = re.compile(r"parameters|properties|input_?[sS]chema"), 300


NEEDED = 0.98
# Records a failed call like one that returned a text.
SILENT = ("mirascope",)
# Their replies are on no span of a model or a run.
WITHOUT_REPLIES = (
    "llama-index-otel",
    "openinference-ag2",
    "openinference-claude-agent-sdk",
    "openinference-vercel",
    "traceloop-agno",
)


class Compared(NamedTuple):
    """One value of a capture that has it somewhere."""

    column: str
    place: str
    wanted: object
    found: object
    is_right: bool


def values_of(folder: Path) -> Iterator[Compared]:
    """Compare the calls of one producer that were found."""
    found = trajectories(folder)
    for file in sorted(folder.glob("*.truth.json")):
        truth = json.loads(file.read_text())
        raw = b"".join(one.read_bytes() for one in folder.glob(f"{truth['scenario']}.*otlp.pb")).decode(
            "utf-8", "replace"
        )
        for trace in truth["traces"]:
            ids = (trace["trace_id"], *trace.get("other_trace_ids", ()))
            here = [trajectory for one in ids for trajectory in found.get(one, ())]
            left = [call for trajectory in here for call in trajectory.calls]
            place = f"{folder.name} {truth['scenario']}"
            yield from _said(place, trace, here, raw)
            for want in trace["tool_calls"]:
                if (call := taken(msgspec.convert(want, MadeCall), left)) is not None:
                    yield from _call(place, want, call, raw)
                    yield from _offer(place, want, here, raw)


def _call(place: str, want: Mapping[str, Any], call: ToolCall, raw: str) -> Iterator[Compared]:
    shown = want.get("in_capture", {})
    if want.get("result") is not None and shown.get("result") is not False:
        match call.result:
            case Recorded(value):
                result = result_value(value)
            case Unparsed(text):
                result = text
            case _:
                result = None
        yield Compared("results", place, want["result"], result, result == want["result"])
    error = want.get("error")
    if isinstance(error, str):
        kind, _, message = error.partition(": ")
        error = {"type": kind, "message": message}
    if error and want.get("executed", True) and shown.get("error") is not False:
        message, kind = ("", "") if call.error is None else (call.error.message, call.error.kind)
        yield Compared("failed", place, error, call.error, call.error is not None)
        if call.error is not None:
            yield Compared("messages", place, error["message"], message, error["message"] in message)
            # A class that only a message names is not what the producer reports.
            is_kind = kind.rpartition(".")[2] == error["type"] if f"{error['type']}:" not in raw else " " not in kind
            yield Compared("kinds", place, error["type"], kind, is_kind or error["type"] not in raw)


def _said(place: str, trace: Mapping[str, Any], here: list[Trajectory], raw: str) -> Iterator[Compared]:
    for column, role, key in (("prompts", "user", "user_message"), ("replies", "assistant", "final_text")):
        text = str(trace.get(key) or "")
        is_read = here and text and not (column == "replies" and place.startswith(WITHOUT_REPLIES))
        if is_read and text in raw:
            said = [one.text for trajectory in here for one in trajectory.messages if one.role == role]
            yield Compared(column, place, text, said, any(text in one for one in said))


def _offer(place: str, want: Mapping[str, Any], here: list[Trajectory], raw: str) -> Iterator[Compared]:
    offered = {tool.name for trajectory in here for tool in trajectory.tools_offered or ()}
    is_shown = is_defined(want["name"], raw)
    if want.get("executed", True) and want.get("kind", "function") == "function" and (offered or is_shown):
        yield Compared("offers", place, want["name"], sorted(offered), want["name"] in offered)


def is_defined(tool: str, raw: str) -> bool:
    """Whether a capture holds the definition of a tool of the stub."""
    name = own_name(tool)
    return name in TOOLS and _DEFINED.search(raw.partition(TOOLS[name][0])[2][:_NEAR]) is not None


def shares_of(compared: list[Compared]) -> tuple[dict[str, float], list[Compared]]:
    """Return the share of right values in each column, and the wrong ones."""
    whole = Counter(one.column for one in compared)
    right = Counter(one.column for one in compared if one.is_right)
    return {column: right[column] / whole[column] for column in whole}, [one for one in compared if not one.is_right]


def main() -> None:
    """Print what differs, and the share of each column that does not."""
    folders = [CORPUS / name for name in sys.argv[1:]] or sorted(filter(Path.is_dir, CORPUS.iterdir()))
    shares, wrong = shares_of([one for folder in folders for one in values_of(folder)])
    for one in wrong:
        print(one.column, one.place, "wanted", repr(one.wanted)[:200], "found", repr(one.found)[:200])
    for column, share in shares.items():
        print(f"{column}: {share:.3f}")


if __name__ == "__main__":
    main()
