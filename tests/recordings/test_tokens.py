"""Recorded runs show the tokens that their scripted models counted: the same for each model call."""

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from tests.rows import each_row
from toolgauge.config.model import Config
from toolgauge.model.trajectory import Tokens
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.report.json_objects import trajectory_object
from toolgauge.service.pipeline_factory import offline_pipeline

TESTS = Path(__file__).parents[1]


def tokens(pattern: str) -> Iterator[Tokens | None]:
    files = sorted(str(path) for path in TESTS.glob(pattern) if path.name.endswith(".otlp.pb"))
    recording = read(find_files(files), lambda _read: None)
    for scorecard in scorecards(recording, offline_pipeline(Config(), ())):
        written = trajectory_object(scorecard.trajectory)["tokens"]
        found = scorecard.trajectory.tokens
        assert (written is None) == (found is None)
        yield found and replace(found, cost=None, unpriced={})


@each_row(
    ("recording", "found"),
    [
        # Four model calls of 42 and 7 tokens each, and spans of agents that repeat the sum.
        ("pydantic-ai/sequence3.*", [(168, 28)]),
        ("strands/sequence3_latest.*", [(168, 28)]),
        # Two instrumentations.
        ("strands/double_sequence3.*", [(168, 28)]),
        ("vercel-ai/sequence3_legacy.*", [(168, 28)]),
        ("vercel-ai/one_call.*", [(84, 14)]),
        ("openai-v2/sequence3.*", [(168, 28)]),
        ("openai-agents/chatapi_sequence3.*", [(168, 28)]),
        # `call_llm` above `generate_content`, with the same tokens.
        ("google-adk/sequence3.*", [(168, 28)]),
        # Others count 50 and 10.
        ("openinference-langgraph/sequence.*", [(200, 40)]),
        ("openlit-langgraph/sequence.*", [(200, 40)]),
        ("traceloop-langgraph/parallel.*", [(100, 20)]),
        ("langsmith-otel-langgraph/retry.*", [(150, 30)]),
        ("langfuse-langgraph/sequence.*", [(200, 40)]),
        # Their producers record none.
        ("openinference-haystack/single.*", [None]),
        ("mcp-python/fastmcp_one_call.*", [None]),
    ],
)
def test_each_model_call_counts_once(recording: str, found: list[tuple[int, int] | None]):
    expected = [None if pair is None else Tokens(input=pair[0], output=pair[1]) for pair in found]
    assert list(tokens(f"corpus/{recording}")) == expected
