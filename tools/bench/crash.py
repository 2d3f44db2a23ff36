"""Kill a toolgauge with a state directory again and again under load, and look at what became of acknowledged spans.

    python -m tools.bench.crash --kills 20 --rate 2000

A sender repeats each request until it is acknowledged. Reported are spans that were acknowledged and did not arrive, results that
differ from those of runs that no crash touched, and repetitions: spans that arrived twice, runs with two scorecards.
"""

# pyright: reportUnknownMemberType=false

import argparse
import http.client
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.wire.destination import Destination, attributes, receiving
from tests.wire.support import Toolgauge, free_port, recorded, to_grpc, until

(RECORDED,) = recorded("pydantic-ai", "tool_error")
RUNS_A_REQUEST = 20
# A run is sent in two requests, so long apart.
_APART_S = 1.0
_SPANS_A_RUN = 3


def _split() -> tuple[ExportTraceServiceRequest, ExportTraceServiceRequest]:
    """The first span of the run, and the others."""
    first, rest = ExportTraceServiceRequest.FromString(RECORDED), ExportTraceServiceRequest.FromString(RECORDED)
    del first.resource_spans[0].scope_spans[0].spans[1:]
    del rest.resource_spans[0].scope_spans[0].spans[:1]
    return first, rest


def _of_runs(part: ExportTraceServiceRequest, numbers: range) -> bytes:
    request = ExportTraceServiceRequest()
    for number in numbers:
        one = ExportTraceServiceRequest.FromString(part.SerializeToString())
        for group in one.resource_spans:
            for scope in group.scope_spans:
                for span in scope.spans:
                    span.trace_id = number.to_bytes(8, "big") + span.trace_id[8:]
        request.MergeFrom(one)
    return request.SerializeToString()


@dataclass
class Sender:
    """Sends runs at a rate, each in two requests, and each request until it is acknowledged."""

    port: int
    rate: int
    acknowledged: set[tuple[int, int]] = field(default_factory=set)
    runs: int = 0
    _is_ending: bool = False
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for worker in range(2):
            thread = threading.Thread(target=self._work, args=(worker,))
            thread.start()
            self._threads.append(thread)

    def end(self) -> None:
        self._is_ending = True
        for thread in self._threads:
            thread.join()

    def _work(self, worker: int) -> None:
        first, rest = _split()
        every_s = 2 * RUNS_A_REQUEST * _SPANS_A_RUN / self.rate
        waiting: list[tuple[float, range]] = []
        number = worker * 1_000_000 + 1
        due_s = time.monotonic()
        while not self._is_ending or waiting:
            if not self._is_ending:
                numbers = range(number, number + RUNS_A_REQUEST)
                number += RUNS_A_REQUEST
                self._send(_of_runs(first, numbers), numbers, 0)
                waiting.append((time.monotonic() + _APART_S, numbers))
            while waiting and (self._is_ending or waiting[0][0] <= time.monotonic()):
                _, numbers = waiting.pop(0)
                self._send(_of_runs(rest, numbers), numbers, 1)
                self.runs += RUNS_A_REQUEST
            due_s = max(due_s + every_s, time.monotonic() - 1)
            time.sleep(max(0.0, due_s - time.monotonic()))

    def _send(self, body: bytes, numbers: range, part: int) -> None:
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                try:
                    connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
                    if connection.getresponse().status == 200:
                        self.acknowledged.update((number, part) for number in numbers)
                        return
                finally:
                    connection.close()
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.05)


@dataclass(frozen=True)
class Report:
    """What became of it."""

    kills: int
    spans: int
    lost: int
    false_results: int
    runs_without_scorecard: int
    spans_twice: int
    scorecards_twice: int
    scorecards_twice_with_other_ids: int


def _report(kills: int, sender: Sender, destination: Destination) -> Report:
    counts = (1, _SPANS_A_RUN - 1)
    expected = sum(counts[part] for _, part in sender.acknowledged)
    spans = Counter((span.trace_id, span.span_id) for span in destination.spans())
    cards: dict[bytes, list[tuple[bytes, str]]] = {}
    for card in destination.scorecards():
        told = {
            key: value
            for key, value in attributes(card).items()
            if key.endswith((".outcome", ".score", ".reason")) or key.startswith("toolgauge.calls")
        }
        cards.setdefault(card.trace_id, []).append((card.span_id, str(sorted(told.items()))))
    told_of = Counter(told for each in cards.values() for _, told in each)
    usual = told_of.most_common(1)[0][0] if told_of else ""
    return Report(
        kills=kills,
        spans=expected,
        lost=expected - len(spans),
        false_results=sum(count for told, count in told_of.items() if told != usual),
        runs_without_scorecard=sender.runs - len(cards),
        spans_twice=sum(count - 1 for count in spans.values()),
        scorecards_twice=sum(len(each) - 1 for each in cards.values()),
        scorecards_twice_with_other_ids=sum(len({span_id for span_id, _ in each}) - 1 for each in cards.values()),
    )


class Restarted:
    """One toolgauge after the other, on the same port and with the same state directory."""

    def __init__(self, folder: Path, destination: Destination) -> None:
        self.port = free_port()
        self._folder = folder
        self._settings = (to_grpc(destination.grpc_port), f"state.directory={folder / 'state'}")
        self._listen = (
            "receivers.otlp.protocols.grpc.endpoint=127.0.0.1:0",
            f"receivers.otlp.protocols.http.endpoint=127.0.0.1:{self.port}",
            "exporters.prometheus.endpoint=127.0.0.1:0",
            "admin.endpoint=127.0.0.1:0",
            "web.endpoint=127.0.0.1:0",
        )
        self.running = self._begin()

    def end(self, with_signal: int) -> int:
        """End the one that runs; return its exit code."""
        self.running.signal(with_signal)
        return self.running.ended()

    def begin_again(self) -> None:
        """Run another one in the place of the one that has ended."""
        self.running.close()
        self.running = self._begin()

    def _begin(self) -> Toolgauge:
        return Toolgauge(self._folder, *self._settings, listen=self._listen).wait_until_up()


def measure(
    folder: Path, *, kills: int, rate: int, pause_s: tuple[float, float] = (1.0, 4.0), with_signal: int = signal.SIGKILL
) -> Report:
    """End it so often, at random moments, and wait until all has arrived. With SIGTERM the destination is away meanwhile."""
    chance = random.Random(7)  # noqa: S311
    with receiving() as destination:
        toolgauge = Restarted(folder, destination)
        sender = Sender(toolgauge.port, rate)
        sender.start()
        try:
            for _ in range(kills):
                time.sleep(chance.uniform(*pause_s))
                destination.is_away = with_signal == signal.SIGTERM
                toolgauge.end(with_signal)
                destination.is_away = False
                toolgauge.begin_again()
            time.sleep(1)
            sender.end()
            until(lambda: len({card.trace_id for card in destination.scorecards()}) >= sender.runs, "all scorecards")
            assert toolgauge.end(signal.SIGTERM) == 0, toolgauge.running.said()
        finally:
            sender.end()
            toolgauge.running.close()
        return _report(kills, sender, destination)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rate", type=int, default=2000, help="spans a second")
    parser.add_argument("--term", action="store_true", help="SIGTERM while the destination is away")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        number = signal.SIGTERM if words.term else signal.SIGKILL
        print(measure(Path(folder), kills=words.kills, rate=words.rate, with_signal=number))
    return 0


if __name__ == "__main__":
    sys.exit(main())
