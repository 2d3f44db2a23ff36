"""What is scored of half a run is what is scored of the same calls in the whole run: cut recorded runs anywhere, and see."""

import random
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from tests.captures import Captured, all_captures
from tests.rows import each_row
from toolgauge import plugins
from toolgauge.assemble.join import GatheredTrace, join
from toolgauge.evaluators.arguments_schema import ArgumentsSchema
from toolgauge.evaluators.policy import Policy
from toolgauge.evaluators.tool_checks import ToolSuccess
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.observations import Reading
from toolgauge.model.outcomes import Scored
from toolgauge.model.ports import Evaluator
from toolgauge.model.records import PackedHead, SpanHead
from toolgauge.otlp.decoder import Decoder
from toolgauge.otlp.envelope import read_each
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.score.criterion import Criterion, ToolKinds
from toolgauge.score.scorer import Scorer
from toolgauge.selfmetrics import SelfMetrics

_SEEDS = 8
_EVALUATORS: dict[str, Evaluator] = {
    "arguments_schema": ArgumentsSchema(),
    "tool_success": ToolSuccess(),
    "policy": Policy.model_validate({"forbid": [{"tool": "*", "arguments": {"city": "Paris"}}]}),
}
_CRITERIA = [
    Criterion(name=name, evaluator_name=name, evaluator=evaluator, revision="1")
    for name, evaluator in _EVALUATORS.items()
]


def recorded(captured: Captured) -> dict[str, list[Reading | PackedHead]]:
    """Read all spans and log records of a producer, by trace."""
    recognizer = Recognizer(plugins.dialects(), SelfMetrics(MetricRegistry()))
    decoder = Decoder(recognizer.marks, recognizer.scopes)
    traces: dict[str, list[Reading | PackedHead]] = {}
    for file in captured.files():
        heads: list[PackedHead] = []
        if file.name.endswith(".logs.otlp.pb"):
            readings = [recognizer.read(record) for record in decoder.logs(file.read_bytes()).viewed]
        else:
            decoded = decoder.traces(file.read_bytes())
            read = [(viewed.raw, recognizer.read(viewed.span)) for viewed in decoded.viewed]
            readings = [reading for _, reading in read]
            # As in the pipeline: of spans that no dialect reads, the ids are known all the same.
            unread = [raw for raw, reading in read if reading is None]
            heads += [*decoded.heads, *read_each(unread)]
        for head in heads:
            traces.setdefault(head[0].hex(), []).append(head)
        for reading in readings:
            if reading is not None:
                traces.setdefault(reading.ref.trace_id, []).append(reading)
    return traces


def scores(
    trace_id: str, spans: Iterable[Reading | PackedHead], incomplete: str | None
) -> dict[tuple[str, str, str | None], set[float]]:
    """Score the calls of a trace; those without an id, of the same name, stand together."""
    readings: list[Reading] = []
    parents: dict[str, str | None] = {}
    for one in spans:
        if isinstance(one, Reading):
            readings.append(one)
            if not one.is_log:
                parents[one.ref.span_id] = one.parent_span_id
        else:
            head = SpanHead(*one)
            parents[head.span_id.hex()] = head.parent_span_id.hex() or None
    gathered = GatheredTrace(trace_id=trace_id, readings=readings, parents=parents)
    trajectory = join([gathered], scope="trace", closed_because="idle")
    if trajectory is None:
        return {}
    found: dict[tuple[str, str, str | None], set[float]] = {}
    for result in Scorer(_CRITERIA, ToolKinds()).score(replace(trajectory, incomplete=incomplete)):
        if result.call is not None and isinstance(result.outcome, Scored):
            key = result.criterion, result.call.name, result.call.call_id
            found.setdefault(key, set()).add(result.outcome.value)
    return found


def halves(spans: Sequence[Reading | PackedHead]) -> Iterator[list[Reading | PackedHead]]:
    """Leave out what came first, what came last, and spans anywhere."""
    for seed in range(_SEEDS):
        chance = random.Random(seed)  # noqa: S311 - nothing is kept secret
        by_end = sorted(spans, key=lambda one: one.end_ns if isinstance(one, Reading) else 0)
        at = chance.randrange(len(by_end))
        yield by_end[:at]
        yield by_end[at:]
        yield [one for one in spans if chance.random() < 0.7]


def test_a_call_that_is_scored_in_half_a_run_has_the_score_that_it_has_in_the_whole(few_captured: Captured):
    for trace_id, spans in recorded(few_captured).items():
        whole = scores(trace_id, spans, None)
        for half in halves(spans):
            found = scores(trace_id, half, "half of it")
            assert {key: values for key, values in found.items() if not values <= whole.get(key, set())} == {}


@each_row("folder", ["google-adk", "otel-util-genai", "pydantic-ai", "strands", "vercel-ai"])
def test_calls_that_were_seen_whole_are_scored_in_half_a_run(folder: str):
    halved = [
        half
        for trace_id, spans in recorded(all_captures()[folder]).items()
        for half in map(partial(scores, trace_id, incomplete="x"), halves(spans))
    ]
    assert sum(map(len, halved)) > 100
