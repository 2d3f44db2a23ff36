"""The facts that producers of trajectories leave out, and the switches that record them, as `toolgauge doctor` finds them."""

from collections.abc import Iterable

from msgspec import Struct

from toolgauge.model.trajectory import Trajectory
from toolgauge.recognize.shortfalls import (
    COSTS,
    NAMES,
    PROBLEMS,
    Producer,
    Remedy,
    Shortfall,
    Shortfalls,
    counts_of,
    producer_of,
)


class MissingFact(Struct, frozen=True, kw_only=True):
    """A fact that a producer leaves out in `traces` of `of` kept trajectories, and its consequence."""

    name: str
    cost: str
    traces: int
    of: int
    is_problem: bool


class Advice(Struct, frozen=True, kw_only=True):
    """One remedy, and the facts that it brings."""

    remedy: Remedy
    missing: tuple[MissingFact, ...]


class ProducerAdvice(Struct, frozen=True, kw_only=True):
    """One producer and its remedies."""

    service: str
    scope: str
    version: str
    dialects: tuple[str, ...]
    calls: int
    advice: tuple[Advice, ...]


def advice(trajectories: Iterable[Trajectory]) -> tuple[ProducerAdvice, ...]:
    """Find the facts that producers leave out, problems first."""
    shortfalls = Shortfalls()
    dialects: dict[Producer, dict[str, None]] = {}
    for trajectory in trajectories:
        # Each trace of a conversation is a trajectory of its own.
        if trajectory.scope != "trace":
            continue
        shortfalls.add(trajectory, counts_of(trajectory))
        for source in trajectory.sources:
            producer = producer_of(source.service, source.scope, source.version, source.language)
            dialects.setdefault(producer, {})[source.dialect] = None
    found = [
        _of_producer(producer, tuple(names), shortfalls)
        for producer, names in sorted(dialects.items(), key=lambda entry: entry[0])
    ]
    return tuple(
        sorted(
            (one for one in found if one.advice),
            key=lambda one: not any(missing.is_problem for each in one.advice for missing in each.missing),
        )
    )


def _of_producer(producer: Producer, dialects: tuple[str, ...], shortfalls: Shortfalls) -> ProducerAdvice:
    # One switch mostly governs several facts: they are listed together.
    alike: dict[Remedy, list[Shortfall]] = {}
    for shortfall in shortfalls.of(producer, dialects):
        alike.setdefault(shortfall.remedy, []).append(shortfall)
    return ProducerAdvice(
        service=producer.service,
        scope=producer.scope,
        version=producer.version,
        dialects=dialects,
        calls=shortfalls.calls(producer),
        advice=tuple(
            Advice(
                remedy=found,
                missing=tuple(
                    MissingFact(
                        name=NAMES[one.fact],
                        cost=COSTS[one.fact],
                        traces=one.traces,
                        of=one.of_traces,
                        is_problem=one.fact in PROBLEMS,
                    )
                    for one in group
                ),
            )
            for found, group in alike.items()
        ),
    )
