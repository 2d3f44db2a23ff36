"""Recorded traffic of real producers, decoded and read, gives the same trajectories in any order of arrival."""

import random
from pathlib import Path

from tests.assemble.support import assembler
from tests.rows import each_row
from toolgauge.dialects.genai import GenAI
from toolgauge.dialects.openinference import OpenInference
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.observations import Reading
from toolgauge.model.records import PackedHead
from toolgauge.model.trajectory import Trajectory
from toolgauge.otlp.decoder import Decoder
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.selfmetrics import SelfMetrics

CORPUS = Path(__file__).parent.parent / "corpus"
FOLDERS = (
    "mcp-python",
    "openai-v2",
    "openinference-autogen",
    "openinference-crewai",
    "openinference-langgraph",
    "openinference-smolagents",
    "otel-util-genai",
    "pydantic-ai",
)


def arrivals(folder: Path) -> list[Reading | PackedHead]:
    recognizer = Recognizer([GenAI(), OpenInference()], SelfMetrics(MetricRegistry()))
    decoder = Decoder(recognizer.marks, recognizer.scopes)
    found: list[Reading | PackedHead] = []
    for file in sorted(folder.glob("*.otlp.pb")):
        if file.name.endswith(".logs.otlp.pb"):
            records = [*decoder.logs(file.read_bytes()).viewed]
        else:
            traces = decoder.traces(file.read_bytes())
            records = [viewed.span for viewed in traces.viewed]
            found.extend(traces.heads)
        found.extend(read for record in records if (read := recognizer.read(record)) is not None)
    return found


def assembled(found: list[Reading | PackedHead]) -> dict[str, Trajectory]:
    box, _ = assembler()
    for arrival in found:
        if isinstance(arrival, Reading):
            box.add(arrival, 0)
        else:
            box.add_heads([arrival], 0)
    return {trajectory.trace_id: trajectory for trajectory in box.close_all(1)}


@each_row("folder", FOLDERS)
def test_recorded_traffic_gives_the_same_trajectories_in_any_order(folder: str):
    found = arrivals(CORPUS / folder)
    expected = assembled(found)
    assert sum(len(trajectory.calls) for trajectory in expected.values()) > 5
    for seed in range(5):
        shuffled = [*found, *found[::7]]
        random.Random(seed).shuffle(shuffled)  # noqa: S311 - nothing is kept secret
        assert assembled(shuffled) == expected
