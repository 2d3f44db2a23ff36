"""What each stage of a pipeline takes, garbage collection apart, and what its work takes at the least."""

# pyright: reportUnknownMemberType=false
import gc
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from types import TracebackType

import msgspec

from tests.walk.support import Walk
from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.cross_trace import LoopDetector
from toolgauge.export.emitter import Emitter
from toolgauge.otlp.decoder import DecodedTraces, Decoder
from toolgauge.otlp.envelope import parse_request
from toolgauge.otlp.views import value
from toolgauge.otlp.wire_pb2 import SpanMessage
from toolgauge.pipeline import pipeline
from toolgauge.pipeline.egress import Egress, Hold
from toolgauge.pipeline.trajectory_scoring import Scoring
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.score.scorer import Scorer

_FUNCTIONS: tuple[tuple[object, str, str], ...] = (
    (DecodedTraces, "body", "decode: the request without held spans"),
    (Recognizer, "read", "recognize"),
    (LoopDetector, "add", "assemble: spans seen twice"),
    (Assembler, "add", "assemble: take a reading"),
    (Assembler, "add_heads", "assemble: take ids"),
    (Hold, "add", "pipeline: hold"),
    (pipeline, "read_request", "otlp: envelope"),
    (Decoder, "traces", "otlp: marks, views"),
    (Scoring, "_annotate", "pipeline: annotate held spans"),
    (Scorer, "score", "score"),
    (Emitter, "record", "export: metrics"),
    (Egress, "_flush_spans", "decode: write released spans"),
    (Walk, "send", "pipeline: take requests, all else"),
    (Walk, "wait", "pipeline: time, all else"),
)
_GENERATORS: tuple[tuple[object, str, str], ...] = (
    (Assembler, "closed", "assemble: join"),
    (Emitter, "requests", "export: scorecards and events"),
)


class Stages:
    """Counts CPU time by stage while it is entered; a stage's time is without that of stages within it."""

    def __init__(self) -> None:
        self.taken_ns: Counter[str] = Counter()
        self._inner: list[int] = []
        self._began: list[int] = []
        self._replaced: list[tuple[object, str, object]] = []

    def __enter__(self) -> "Stages":
        for wrap, functions in ((self._function, _FUNCTIONS), (self._generator, _GENERATORS)):
            for owner, name, stage in functions:
                original = getattr(owner, name)
                self._replaced.append((owner, name, original))
                setattr(owner, name, wrap(original, stage))
        gc.callbacks.append(self._collecting)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gc.callbacks.remove(self._collecting)
        for owner, name, original in self._replaced:
            setattr(owner, name, original)

    def _begin(self) -> None:
        self._inner.append(0)
        self._began.append(time.thread_time_ns())

    def _end(self, stage: str) -> None:
        taken = time.thread_time_ns() - self._began.pop()
        self.taken_ns[stage] += taken - self._inner.pop()
        if self._inner:
            self._inner[-1] += taken

    def _function(self, original: Callable[..., object], stage: str) -> Callable[..., object]:
        def timed(*values: object, **named: object) -> object:
            self._begin()
            try:
                return original(*values, **named)
            finally:
                self._end(stage)

        return timed

    def _generator(
        self, original: Callable[..., Generator[object, None, object]], stage: str
    ) -> Callable[..., Generator[object, None, object]]:
        def timed(*values: object, **named: object) -> Generator[object, None, object]:
            steps = original(*values, **named)
            while True:
                self._begin()
                try:
                    step = next(steps)
                except StopIteration as end:
                    return end.value
                finally:
                    self._end(stage)
                yield step

        return timed

    def _collecting(self, phase: str, _info: Mapping[str, int]) -> None:
        if phase == "start":
            self._begin()
        else:
            self._end("collecting garbage")


def least(bodies: Sequence[bytes]) -> dict[str, float]:
    """Take the time, in nanoseconds a span, of what C libraries do for these spans whoever asks them."""
    began = time.thread_time_ns()
    raws = [
        raw
        for body in bodies
        for group in parse_request(body).resource_groups
        for scope in group.scope_groups
        for raw in scope.items
    ]
    enveloped = time.thread_time_ns()
    marked = [raw for raw in raws if b"gen_ai." in raw or b"openinference." in raw]
    searched = time.thread_time_ns()
    attributes = [list(SpanMessage.FromString(raw).attributes.values()) for raw in marked]
    parsed = time.thread_time_ns()
    texts = [value(raw) for raws_of_one in attributes for raw in raws_of_one]
    written = [text for text in texts if isinstance(text, str) and text[:2] in ('{"', "[{")]
    ready = time.thread_time_ns()
    for text in written:
        msgspec.json.decode(text)
    done = time.thread_time_ns()
    return {
        "envelope and raw spans": (enveloped - began) / len(raws),
        "find spans of agents": (searched - enveloped) / len(raws),
        "parse these and copy their attributes": (parsed - searched) / len(raws),
        f"their JSON ({len(written) / len(raws):.1f} texts a span)": (done - ready) / len(raws),
    }
