"""How little a scorer written in Python could cost, beside a bare decode-and-encode forwarder and beside toolgauge.

    python -m tools.bench.bare_scorer [--requests 30] [--rounds 5]

Feeds the same requests of the load generator to each, round by round and without sockets, and prints the best
microseconds a span. The bare scorer knows these spans alone: their keys and forms are written into it, calls are joined
by id and nothing else, and what is said of them comes from fixed bytes. It has no other dialect, no tree, no time, no
bounds, no settings, and breaks on the first span that is written in another way: what it takes is for the decoding of
what has to be read and the copying of what has to be said, and nobody who does both gets below it.
"""

import argparse
import gc
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.walk.support import Walk
from toolgauge.otlp.marks import span_marks
from toolgauge.otlp.wire_pb2 import RequestMessage, SpanMessage
from tools.bench.profile_pipeline import caught, feed

# About as many bytes as toolgauge writes: a log record and an event a result, and attributes on a tool's span.
_RECORD, _EVENT, _ATTRIBUTES, _HEAD = b"r" * 550, b"e" * 300, b"J\x3e" + b"a" * 62, b"h" * 400
_decode: Callable[[str], object] = msgspec.json.Decoder().decode
_bears_mark = span_marks(("gen_ai.",)).search_like(b"\n")


class _Call(NamedTuple):
    name: str
    call_id: str
    span_id: bytes
    has_failed: bool
    raw: bytes


class _Trace(NamedTuple):
    calls: list[_Call]
    asked: dict[str, str]


class BareScorer:
    """Takes requests; scores the traces whose agent's span came with the request before."""

    def __init__(self) -> None:
        self.cells = Counter[tuple[str, str, bool]]()
        self._traces: dict[bytes, _Trace] = {}
        self._offers: dict[bytes, frozenset[str]] = {}
        self._ended: list[bytes] = []

    def take(self, body: bytes) -> int:
        """Read, score and write; return how many bytes came of it."""
        ended, self._ended = self._ended, []
        request = RequestMessage.FromString(body)
        for group in request.resource_groups:
            for scope in group.scope_groups:
                kept = [raw for raw in scope.items if _bears_mark(raw) is None or not self._holds(raw)]
                del scope.items[:]
                scope.items.extend(kept)
        written = [request.SerializeToString()]
        for trace_id in ended:
            written += self._scored(trace_id)
        return sum(map(len, written))

    def _holds(self, raw: bytes) -> bool:
        span = SpanMessage.FromString(raw)
        trace = self._traces.setdefault(span.trace_id, _Trace([], {}))
        match _text(span, "gen_ai.operation.name"):
            case "execute_tool":
                trace.calls.append(self._call(span, raw))
                return True
            case "chat":
                self._read_chat(span, trace)
            case _:
                self._ended.append(span.trace_id)
        return False

    def _call(self, span: SpanMessage, raw: bytes) -> _Call:
        _decode(_text(span, "gen_ai.tool.call.arguments"))
        _decode(_text(span, "gen_ai.tool.call.result"))
        name, call_id = _text(span, "gen_ai.tool.name"), _text(span, "gen_ai.tool.call.id")
        return _Call(name, call_id, span.span_id, "error.type" in span.attributes, raw)

    def _read_chat(self, span: SpanMessage, trace: _Trace) -> None:
        definitions = span.attributes["gen_ai.tool.definitions"]
        if definitions not in self._offers:
            self._offers[definitions] = frozenset(
                tool["name"] for tool in msgspec.json.decode(_text(span, "gen_ai.tool.definitions"))
            )
        _decode(_text(span, "gen_ai.input.messages"))
        for message in msgspec.json.decode(_text(span, "gen_ai.output.messages") or "[]"):
            for part in message["parts"]:
                if part["type"] == "tool_call":
                    trace.asked[part["id"]] = part["name"]

    def _scored(self, trace_id: bytes) -> list[bytes]:
        trace = self._traces.pop(trace_id)
        request = RequestMessage()
        items = request.resource_groups.add().scope_groups.add().items
        held: list[bytes] = []
        said = [_HEAD, trace_id]
        for call in trace.calls:
            is_known = trace.asked.get(call.call_id) == call.name
            for criterion, has_passed in (("tool_success", not call.has_failed), ("known_tool", is_known)):
                self.cells[call.name, criterion, has_passed] += 1
                said += (_RECORD, trace_id, call.span_id, call.call_id.encode(), _EVENT, call.span_id)
            held.append(call.raw + _ATTRIBUTES + _ATTRIBUTES)
        items.extend(held)
        return [request.SerializeToString(), b"".join(said)]


def _text(span: SpanMessage, key: str) -> str:
    if key not in span.attributes:
        return "null"
    raw = span.attributes[key]
    return (raw[2:] if raw[1] < 0x80 else raw[3:]).decode()


def forward(body: bytes) -> int:
    """Decode, walk, append an attribute to each span, encode."""
    request = ExportTraceServiceRequest.FromString(body)
    for group in request.resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                any(each.key == "gen_ai.operation.name" for each in span.attributes)
                added = span.attributes.add()
                added.key = "touched"
                added.value.string_value = "1"
    return len(request.SerializeToString())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    bodies = caught(arguments.requests, ["--genai-share", "0.5", "--batch", "512"])
    spans = sum(_count(body) for body in bodies)
    contenders: dict[str, Callable[[Sequence[bytes]], object]] = {
        "decode, walk, append, encode": lambda bodies: [forward(body) for body in bodies],
        "bare scorer": lambda bodies: [*map(BareScorer().take, bodies)],
        "toolgauge": lambda bodies: feed(Walk(), list(bodies)),
    }
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    best: dict[str, float] = {}
    for _ in range(arguments.rounds):
        for name, run in contenders.items():
            began = time.process_time()
            run(bodies)
            taken = (time.process_time() - began) / spans * 1e6
            best[name] = min(taken, best.get(name, taken))
    for name, taken in best.items():
        print(f"{taken:6.1f} us a span  {name}")


def _count(body: bytes) -> int:
    request = RequestMessage.FromString(body)
    return sum(len(scope.items) for group in request.resource_groups for scope in group.scope_groups)


if __name__ == "__main__":
    main()
