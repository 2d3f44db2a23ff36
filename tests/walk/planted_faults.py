"""Conversations of the load generator with one planted fault each, as one trace a turn of the user or as one trace."""

# The load generator is a script without annotations.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import groupby
from random import Random
from typing import Any, Literal, TypeAlias

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tools.scripts import loadgen

FAULTS: tuple[str, ...] = tuple(loadgen.FAULTS)
Layout: TypeAlias = Literal["turn", "conversation"]
Turn: TypeAlias = list[dict[str, Any]]

_ARGUMENTS = Namespace(spans_per_trace=14, run_range=(5.0, 20.0), chat_kb=0.2, span_bytes=0, mark_faults=False)
_MOST_TRACES = 3


class Conversation(loadgen.Trace):
    """One run of the load generator, in a trace for each turn of the user or in one trace."""

    def __init__(self, random: Random, dialect: str, layout: Layout, fault: str | None) -> None:
        self.layout = layout
        super().__init__(random, Namespace(**vars(_ARGUMENTS), dialect=dialect), 0, fault)

    def run(self, n: int) -> None:
        """Write the spans of all traces, each an agent run that begins with a message of the user."""
        self.agent = self.rng.choice(list(loadgen.AGENTS))
        turns, first_message = self.plan(n)
        system = f"You are {self.agent}. Use the tools."
        write = self.genai if self.dialect == "genai" else self.openinference
        time = 0.01
        for number, group in enumerate(self._groups(turns)):
            message = "Please go on." if number else first_message
            self.tid, self.root_id = loadgen.EPOCH_RAW + self.rng.randbytes(8), self.sid()
            began, news = time, [("user", message)]
            for turn in [*group, []]:
                asked, time = time, time + self.rng.uniform(0.5, 2)
                write("chat", asked, time - 0.001, system=system, news=news, calls=turn, text="" if turn else "Done.")
                for call in turn:
                    if call["executed"]:
                        write("tool", time, time + 0.1, call=call)
                        time += 0.11
                news = [("tool", call) for call in turn]
            write("root", began - 0.001, time + 0.01, user=message)
            time += 1

    def _groups(self, turns: Sequence[Turn]) -> Iterator[list[Turn]]:
        """Yield the turns of the model in each trace; identical calls in a row stay in one trace."""
        if self.layout == "conversation":
            yield list(turns)
            return
        together = [list(same) for _, same in groupby(turns, key=lambda turn: (turn[0]["name"], turn[0]["arguments"]))]
        size = -(-len(together) // _MOST_TRACES)
        for start in range(0, len(together), size):
            yield [turn for same in together[start : start + size] for turn in same]

    def traces(self) -> list[list[Span]]:
        """Return the spans of each trace, in order of their ends."""
        found: dict[bytes, list[Span]] = {}
        for span in self.spans:
            found.setdefault(span.trace_id, []).append(span)
        return list(found.values())


def request(spans: Sequence[Span], dialect: str, end_ns: int) -> bytes:
    """Write an export request of one trace that ends at a time."""
    shift = end_ns - max(span.end_time_unix_nano for span in spans)
    for span in spans:
        span.start_time_unix_nano += shift
        span.end_time_unix_nano += shift
        for event in span.events:
            event.time_unix_nano += shift
    body = ExportTraceServiceRequest()
    group = body.resource_spans.add(resource=loadgen.resource(dialect))
    group.scope_spans.add(scope=loadgen.scope(dialect), spans=spans)
    return body.SerializeToString()
