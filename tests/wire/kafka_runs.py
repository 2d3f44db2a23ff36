"""Runs of agents as messages in Kafka, and whether all of them arrived at a destination with the results of the whole run."""

# pyright: reportUnknownMemberType=false

import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer

from tests.wire.agent_runs import CRITERIA, JUDGING_THE_WHOLE, AgentRun, batches, request
from tests.wire.destination import Destination, attributes
from tests.wire.support import to_grpc, until

TOPIC = "otlp_spans"
CLOSED = "toolgauge_closed_traces"
MINUTE_NS = 60_000_000_000
# Only the end of a run closes it, or what a test does.
PATIENT = ("assemble.idle_timeout=5m", "assemble.open_idle_timeout=10m", "events=all")


def some_runs(count: int, *, first: int = 0) -> list[AgentRun]:
    """Runs that ended a while ago."""
    ended_ns = time.time_ns() - 10 * MINUTE_NS
    return [AgentRun(number, ended_ns - MINUTE_NS, ended_ns) for number in range(first, first + count)]


class Writer:
    """Writes as the Collector's exporter does with `partition_traces_by_id`: a message is keyed by its trace."""

    def __init__(self, address: str, **more: str) -> None:
        settings = {"bootstrap.servers": address, "partitioner": "fnv1a_random", "log_level": 0, **more}
        self._producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 5})

    def write(self, runs: Sequence[AgentRun], parts: slice = slice(None), *, of: int = 4) -> None:
        """Write these of so many parts of each run: first those of all runs that come first."""
        by_run = [(run, list(batches(run.spans(), of))) for run in runs]
        for number in range(*parts.indices(of)):
            for run, cut in by_run:
                self.put(run.trace_id.hex(), request(cut[number]))
        self.flush()

    def put(self, key: str, body: bytes, topic: str = TOPIC, headers: dict[str, str] | None = None) -> None:
        self._producer.produce(topic, body, key=key, headers=dict(headers or {}))
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(120) == 0


def consuming(folder: Path, address: str, destination: Destination, *more: str) -> tuple[str, ...]:
    """The settings of a toolgauge that reads from Kafka and sends on."""
    criteria = folder / "criteria.yaml"
    criteria.write_text(CRITERIA)
    keys = ", ".join((f'brokers: ["{address}"]', "initial_offset: earliest", *more))
    return (
        f"receivers.kafka={{{keys}}}",
        f"criteria_files=['{criteria}']",
        to_grpc(destination.grpc_port),
        *PATIENT,
    )


class Outcome:
    """What a destination has of some runs."""

    def __init__(self, destination: Destination, runs: Sequence[AgentRun]) -> None:
        self._runs = {run.trace_id: run for run in runs}
        self.spans: dict[bytes, int] = defaultdict(int)
        for span in destination.spans():
            self.spans[span.trace_id] += 1
        self._arrived = {(span.trace_id, span.span_id) for span in destination.spans()}
        self.results: dict[tuple[bytes, str], list[str]] = defaultdict(list)
        for event in destination.events():
            values = attributes(event)
            name = str(values["gen_ai.evaluation.name"])
            if name in JUDGING_THE_WHOLE and event.trace_id in self._runs:
                label = str(values.get("gen_ai.evaluation.score.label") or values.get("toolgauge.not_evaluated.reason"))
                self.results[event.trace_id, name].append(label)

    @property
    def lost(self) -> list[int]:
        """Runs of which a span is missing."""
        return [
            run.number
            for run in self._runs.values()
            if any((run.trace_id, span.span_id) not in self._arrived for span in run.spans())
        ]

    @property
    def unscored(self) -> list[int]:
        return sorted(
            {
                run.number
                for run in self._runs.values()
                for name in JUDGING_THE_WHOLE
                if not self.results.get((run.trace_id, name))
            }
        )

    @property
    def wrong(self) -> list[tuple[int, str, str]]:
        """Results that are not those of the whole run."""
        return [
            (self._runs[trace_id].number, name, label)
            for (trace_id, name), labels in self.results.items()
            for label in labels
            if label != self._runs[trace_id].truth
        ]

    @property
    def twice(self) -> list[int]:
        """Runs that were scored more often than once."""
        return sorted(
            {self._runs[trace_id].number for (trace_id, _), labels in self.results.items() if len(labels) > 1}
        )


def until_scored(destination: Destination, runs: Sequence[AgentRun], deadline_s: float = 180) -> Outcome:
    """Wait until each run has arrived and is scored."""

    def outcome() -> Outcome | None:
        found = Outcome(destination, runs)
        return None if found.lost or found.unscored else found

    try:
        return until(outcome, "all runs to arrive with their scores", deadline_s)
    except AssertionError:
        found = Outcome(destination, runs)
        raise AssertionError(f"lost {found.lost}, unscored {found.unscored}, wrong {found.wrong}") from None


def assert_each_scored_once(destination: Destination, runs: Sequence[AgentRun]) -> Outcome:
    """Each run arrives whole, and is scored once with the result of the whole."""
    found = until_scored(destination, runs)
    assert not found.wrong
    assert not found.twice
    return found
