"""The generic dialect over all captures, as if nothing knew their producers, and over spans of ordinary services."""

import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from tests.captures import CORPUS, Captured, all_captures, sample
from tests.otlp import stock
from tests.recognize.support import event, self_metrics, span
from tests.recovery_table import MadeCall, has_arguments, taken
from tests.rows import each_row
from toolgauge.config.model import Config
from toolgauge.dialects.genai import GenAI
from toolgauge.dialects.generic import Generic, draft
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import CallExecuted, CallRequested, MessageSeen, ModelCall, Observation, Reading
from toolgauge.model.ports import Dialect
from toolgauge.model.records import Record, SpanEvent
from toolgauge.model.trajectory import ToolCall
from toolgauge.otlp.decoder import Decoder
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.recordings.producer_counts import CountingRecognizer
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.pipeline_factory import offline_pipeline

ORDINARY_SPANS = 2_000
MANY_ORDINARY_SPANS = 100_000
BATCH = 1_000


class Alone(Recognizer):
    """Sees the spans that any dialect looks at, and has the generic dialect alone read them."""

    def __init__(self, dialects: Sequence[Dialect], metrics: SelfMetrics, wanted: Collection[str] = ()) -> None:
        super().__init__([Generic()], metrics, wanted)
        self.marks = Recognizer(dialects, metrics).marks


class Read(Counter[str]):
    """Counts the observations of each dialect."""

    def recognizer(self, dialects: Sequence[Dialect], metrics: SelfMetrics, wanted: Collection[str] = ()) -> Recognizer:
        return CountingRecognizer(dialects, metrics, wanted, self.note)

    def note(self, _record: Record, reading: Reading) -> None:
        self[reading.dialect or ""] += len(reading.observations)


def without(name: str) -> Callable[..., Recognizer]:
    """Make a recognizer that lacks one dialect, and sees the spans that this one looks at."""

    class Without(Recognizer):
        def __init__(self, dialects: Sequence[Dialect], metrics: SelfMetrics, wanted: Collection[str] = ()) -> None:
            self._every = Recognizer(dialects, metrics).marks
            super().__init__([dialect for dialect in dialects if dialect.name != name], metrics, wanted)

        @property
        def marks(self) -> tuple[str, ...]:
            return self._every

    return Without


def calls(
    captured: Captured, make: Callable[..., Recognizer], config: Config | None = None
) -> dict[str, list[ToolCall]]:
    found: dict[str, list[ToolCall]] = {}
    recording = read(find_files([str(file) for file in captured.files()]), lambda _size: None)
    for scorecard in scorecards(recording, offline_pipeline(config or Config(), (), make)):
        found.setdefault(scorecard.trajectory.trace_id, []).extend(scorecard.trajectory.calls)
    return found


def traces(captured: Captured) -> Iterator[dict[str, Any]]:
    for scenario in captured.scenarios:
        yield from json.loads((CORPUS / captured.folder / f"{scenario}.truth.json").read_text())["traces"]


def is_made(call: ToolCall, every: Sequence[MadeCall]) -> bool:
    """Return whether the call was made, in whichever trace its producer asked for it."""
    if call.call_id is not None and any(made.call_id == call.call_id for made in every):
        return True
    return any(made.name == call.name and has_arguments(made, call) for made in every)


def own_dialect(captured: Captured) -> str:
    read = Read()
    calls(captured, read.recognizer)
    return max(read, key=lambda name: read[name])


def alone(_captured: Captured) -> Callable[..., Recognizer]:
    return Alone


def without_its_own(captured: Captured) -> Callable[..., Recognizer]:
    return without(own_dialect(captured))


@pytest.mark.parametrize(
    ("reading", "share"),
    [
        pytest.param(alone, 0.8, id="alone"),
        pytest.param(without_its_own, 0.8, id="beside all other dialects", marks=pytest.mark.long),
    ],
)
def test_calls_of_unknown_producers_are_recovered_and_none_is_invented(
    reading: Callable[[Captured], Callable[..., Recognizer]], share: float, pytestconfig: pytest.Config
):
    counted: Counter[str] = Counter()
    invented: list[str] = []
    captures = all_captures() if pytestconfig.getoption("--long") else sample()
    for captured in captures.values():
        found = calls(captured, reading(captured))
        every = [msgspec.convert(want, MadeCall) for trace in traces(captured) for want in trace["tool_calls"]]
        for trace in traces(captured):
            ids = (trace["trace_id"], *trace.get("other_trace_ids", ()))
            left = [call for one in ids for call in found.get(one, ())]
            for want in trace["tool_calls"]:
                made = msgspec.convert(want, MadeCall)
                best = taken(made, left)
                counted["calls"] += 1
                counted["exact"] += best is not None and has_arguments(made, best)
            # What ran in another trace than its request was read there is no invention.
            invented += [f"{captured.folder} {call.name}" for call in left if not is_made(call, every)]
    assert invented == []
    # What few scenarios show weighs more in the sample than in all captures.
    share -= 0.0 if captures == all_captures() else 0.1
    assert counted["exact"] >= share * counted["calls"]


def ordinary(number: int, chance: random.Random) -> tuple[str, dict[str, str]]:
    """Make the attributes of a span as instrumentations of HTTP, databases and brokers, and applications, write them."""
    order: Json = {
        "id": number,
        "type": chance.choice(["order.created", "message", "function", "text"]),
        "name": f"item {number}",
        "role": chance.choice(["admin", "editor"]),
        "content": "two parcels",
        "items": [{"sku": f"AB-{number}", "quantity": 2, "args": {"gift": True}}],
        "parameters": {"currency": "EUR", "type": "object"},
    }
    text = json.dumps(order)
    kinds: list[tuple[str, dict[str, str]]] = [
        ("GET /items/{id}", {"http.route": "/items/{id}", "url.full": "https://shop/items?q=" + "x" * 140}),
        ("SELECT orders", {"db.query.text": "SELECT 1", "db.query.parameters": json.dumps([order])}),
        ("insert events", {"db.system": "mongodb", "db.statement": text, "db.operation.name": "insert"}),
        ("orders publish", {"messaging.operation.type": "publish", "messaging.message.body": text}),
        (
            "Checkout/Place",
            {"rpc.method": "Place", "request.body": text, "response.body": json.dumps({"message": order})},
        ),
        ("run", {"code.function.name": "run", "job.input": text, "job.output": text, "job.type": "function"}),
        ("audit", {"log.body": json.dumps({"messages": [order, order]}), "user.role": "admin", "thread.id": "7"}),
        ("members", {"payload": json.dumps([{"role": "owner", "content": [order]}, {"role": "guest", "content": ""}])}),
        ("build", {"tool.name": "gradle", "tool.parameters": "--info", "result": "ok", "build.input": text}),
        (
            "model",
            {
                "payload": json.dumps(
                    {"model": "T-800", "choices": [order], "tools": [{"name": "saw", "parameters": {}}]}
                )
            },
        ),
    ]
    return kinds[number % len(kinds)]


def test_nothing_is_read_from_spans_of_ordinary_services(pytestconfig: pytest.Config):
    spans = MANY_ORDINARY_SPANS if pytestconfig.getoption("--long") else ORDINARY_SPANS
    chance = random.Random(7)  # noqa: S311
    generic = Generic()
    decoder = Decoder(generic.marks, generic.scopes, objects=generic.objects, words=generic.words)
    viewed = 0
    for start in range(0, spans, BATCH):
        raws: list[bytes] = []
        for number in range(start, start + BATCH):
            name, attributes = ordinary(number, chance)
            entries = [stock.key_value(key, text) for key, text in attributes.items()]
            raws.append(stock.span(*entries, name=name).SerializeToString())
        for one in decoder.traces(stock.request_of(raws)).viewed:
            viewed += 1
            assert not generic.claims(one.span), one.span.attributes
    # Tools that are no agent's, models and members of a team are looked at; JSON of any other kind is not.
    assert viewed <= 0.5 * spans


@each_row(
    ("attributes", "name", "reads", "fields"),
    [
        (
            {"acme.tool_name": "find", "acme.args": '{"q": 1}', "acme.result": "none"},
            "step",
            "tool_call",
            {"tool_name": "acme.tool_name", "arguments": "acme.args", "result": "acme.result"},
        ),
        (
            {"tool.name": "find", "tool.parameters": '{"q": "int"}', "tool.arguments": '{"q": 1}', "tool.result": "1"},
            "step",
            "tool_call",
            {"arguments": "tool.arguments"},
        ),
        ({"acme.tool_name": "find", "acme.args": '{"q": 1}'}, "step", None, {}),
        ({"acme.tool_name": "find", "acme.args": "q=1", "acme.result": "none"}, "step", None, {}),
        ({"tool.name": "handoff_to_a", "tool.args": "{}", "tool.result": "{}"}, "step", None, {}),
        ({"x.kind": "TOOL", "x.input": '{"q": 1}', "x.output": "7"}, "find", "tool_call", {"arguments": "x.input"}),
        ({"x.kind": "TOOL", "x.input": '{"q": 1}', "x.output": "7"}, "Tool._use", None, {}),
        ({"q": '[{"role": "user", "content": "hi"}]'}, "x", "model_call", {"input": "q"}),
        ({"q": '[{"role": "user", "content": "hi"}]', "x.type": "chain"}, "x", None, {}),
        (
            {"q": '{"choices": [{"message": {"role": "assistant", "content": "hi"}}]}'},
            "x",
            "model_call",
            {"output": "q"},
        ),
        ({"q": '{"choices": [{"message": "hi"}]}'}, "x", None, {}),
        ({"q": '{"method": "tools/call", "params": {"name": "a", "arguments": {}}}'}, "x", "tool_call", {}),
        (
            {"tool_name": "find", "input": '{"messages": [{"role": "user", "content": "hi"}]}', "output": "hi"},
            "x",
            "model_call",
            {"input": "input"},
        ),
        (
            {
                "r": '[{"type": "text", "text": "."}, {"type": "tool_use", "id": "t", "name": "find", "input": {"q": 1}}]'
            },
            "x",
            "model_call",
            {"output": "r"},
        ),
    ],
)
def test_only_whole_shapes_are_evidence(
    attributes: dict[str, str], name: str, reads: str | None, fields: dict[str, str]
):
    mapping = draft(span({**attributes}, name=name))
    assert (None if mapping is None else mapping.reads) == reads
    for field, key in fields.items():
        assert getattr(mapping, field) == key


TOOL: dict[str, Value] = {"tool_name": "find", "args": '{"q": 1}', "result": "7"}
REPLY = '{"role": "assistant", "tool_calls": [{"function": {"name": "find", "arguments": "{}"}}]}'


@each_row(
    "attributes",
    [
        {**TOOL, "http.request.method": "GET"},
        {**TOOL, "rpc.service": "ToolService"},
        {**TOOL, "cicd.pipeline.task.name": "lint"},
        {**TOOL, "test.case.name": "finds"},
        {**TOOL, "kind": "guardrail"},
        {"approval.tool_name": "find", "approval.args": '{"q": 1}', "approval.result": "granted"},
        {"db.system.name": "redis", "db.value": REPLY},
        {"messaging.system": "kafka", "messaging.message.body": REPLY},
        {"ast": '[{"type": "function_call", "name": "max", "args": [1, 2]}]'},
        {"abi": '[{"type": "function", "name": "transfer", "input": {"to": "0x1"}}]'},
        {"steps": '[{"toolName": "maven", "args": ["-B"]}]'},
        {"memory.saved": REPLY},
        {"parsed": '[{"type": "tool_use", "name": "find", "input": {"q": 1}}]'},
    ],
    ids=[
        *("http", "rpc", "pipeline", "test", "guardrail", "approval", "database", "broker"),
        *("syntax tree", "contract", "build", "memory", "parser"),
    ],
)
def test_tools_and_messages_that_another_span_is_about_are_no_calls(attributes: dict[str, Value]):
    assert draft(span(attributes, name="step")) is None


def test_bedrock_responses_are_read_whole():
    use: Json = {"toolUse": {"toolUseId": "t1", "name": "find", "input": {"q": 1}}}
    response: Json = {"output": {"message": {"role": "assistant", "content": [use]}}, "stopReason": "tool_use"}
    seen = Recognizer([Generic()], self_metrics()).read(span({"acme.response": json.dumps(response)}))
    assert seen is not None
    [call] = [one for one in seen.observations if isinstance(one, CallRequested)]
    assert (call.name, call.call_id, call.arguments) == ("find", "t1", Recorded({"q": 1}))


@each_row(
    ("events", "read"),
    [
        (
            [event("ToolStart", {"tool_name": "find", "args": '{"q": 1}'}), event("ToolEnd", {"output": "7"})],
            [CallExecuted(name="find", arguments=Recorded({"q": 1}), result=Recorded(7))],
        ),
        (
            [
                event("prompt", {"messages": '[{"role": "user", "content": "Find 1."}]'}),
                event("reply", {"body": '{"role": "assistant", "content": "Here."}'}),
            ],
            [MessageSeen(role="user", text="Find 1."), MessageSeen(role="assistant", text="Here.")],
        ),
        (
            [
                event("turn", {"message": '{"role": "user", "content": "Hi."}'}),
                event("turn", {"message": '{"role": "assistant", "content": "Hello."}'}),
                event("turn", {"message": '{"role": "user", "content": "Find 1."}'}),
            ],
            [MessageSeen(role="user", text="Find 1.", follows=True)],
        ),
        (
            [
                event("turn", {"role": "system", "content": "Be kind."}),
                event("turn", {"role": "user", "content": "Hi."}),
            ],
            [MessageSeen(role="system", text="Be kind."), MessageSeen(role="user", text="Hi.")],
        ),
        ([event("call", {"tool_name": "a", "args": "{}"}), event("call", {"tool_name": "b", "args": "{}"})], []),
        ([event("exception", {"tool_name": "find", "args": "{}", "result": "7"})], []),
    ],
    ids=["two events", "messages", "an event a message", "flat messages", "two calls", "exception"],
)
def test_events_are_read_like_attributes(events: list[SpanEvent], read: list[Observation]):
    seen = Recognizer([Generic()], self_metrics()).read(span({}, events=events))
    found = [] if seen is None else [one for one in seen.observations if not isinstance(one, ModelCall)]
    assert found == read


def test_a_span_with_events_alone_is_found_by_words_of_its_scope():
    raw = stock.span(name="step").SerializeToString()
    decoder = Decoder((), (), scope_words=Generic().scope_words)
    viewed = [
        len([*decoder.traces(stock.request_of([raw], stock.field(1, scope))).viewed])
        for scope in (b"Acme.Agents", b"acme.http")
    ]
    assert viewed == [1, 0]


ASKED = '[{"role": "assistant", "tool_calls": [{"function": {"name": "find", "arguments": "{\\"q\\": 1}"}}]}]'


@each_row(
    "attributes",
    [
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "user.name": "zoe"},
        {"gen_ai.operation.name": "chat", "gen_ai.output.messages": ASKED, "acme.reply": ASKED},
        {"gen_ai.operation.name": "invoke_agent", "acme.reply": ASKED},
        {"gen_ai.operation.name": "execute_workflow", "acme.reply": ASKED},
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "acme.reply": ASKED},
    ],
    ids=["no content", "own content", "agent", "workflow", "messages on a tool"],
)
def test_what_the_conventions_show_is_not_read_again(attributes: dict[str, Value]):
    reading = Recognizer([GenAI(), Generic()], self_metrics()).read(span(attributes))
    assert reading is not None
    assert reading.dialect == "genai"
