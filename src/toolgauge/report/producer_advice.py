"""The facts that producers of trajectories leave out, and the switches that record them, as `toolgauge doctor` finds them."""

from collections.abc import Iterable

from msgspec import Struct

from toolgauge.model.trajectory import Trajectory
from toolgauge.recognize.shortfalls import Producer, Remedy, Shortfall, Shortfalls, counts_of, producer_of


class Advice(Struct, frozen=True, kw_only=True):
    """One remedy, and the facts that it brings."""

    remedy: Remedy
    missing: tuple[Shortfall, ...]


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
    found: list[ProducerAdvice] = []
    for producer, names in sorted(dialects.items(), key=lambda entry: entry[0]):
        # One switch mostly governs several facts: they are listed together.
        alike: dict[Remedy, list[Shortfall]] = {}
        for shortfall in shortfalls.of(producer, tuple(names)):
            alike.setdefault(shortfall.remedy, []).append(shortfall)
        if alike:
            one = ProducerAdvice(
                service=producer.service,
                scope=producer.scope,
                version=producer.version,
                dialects=tuple(names),
                calls=shortfalls.calls(producer),
                advice=tuple(Advice(remedy=remedy, missing=tuple(group)) for remedy, group in alike.items()),
            )
            found.append(one)
    return tuple(
        sorted(found, key=lambda one: not any(missing.is_problem for each in one.advice for missing in each.missing))
    )
