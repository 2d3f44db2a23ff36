"""The facts that producers of trajectories leave out, and the switches that record them, as `toolgauge doctor` finds them."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from toolgauge.model.trajectory import Trajectory
from toolgauge.recognize.shortfalls import Producer, Remedy, Shortfall, Shortfalls, counts_of, producer_of


class ProducerAdvice(Struct, frozen=True, kw_only=True):
    """One producer with its missing facts: one switch mostly governs several, so they are grouped by remedy."""

    producer: Producer
    dialects: tuple[str, ...]
    calls: int
    missing: Mapping[Remedy, Sequence[Shortfall]]


def advice(trajectories: Iterable[Trajectory]) -> list[ProducerAdvice]:
    """Find the facts that producers leave out, problems first."""
    shortfalls = Shortfalls()
    dialects: dict[Producer, dict[str, None]] = {}
    for trajectory in trajectories:
        # Each trace of a conversation is a trajectory of its own.
        if trajectory.scope == "trace":
            shortfalls.add(trajectory, counts_of(trajectory))
            for source in trajectory.sources:
                producer = producer_of(source.service, source.scope, source.version, source.language)
                dialects.setdefault(producer, {})[source.dialect] = None
    found: list[ProducerAdvice] = []
    for producer, names in sorted(dialects.items(), key=lambda entry: entry[0]):
        alike: dict[Remedy, list[Shortfall]] = {}
        for shortfall in shortfalls.of(producer, tuple(names)):
            alike.setdefault(shortfall.remedy, []).append(shortfall)
        if alike:
            calls = shortfalls.calls(producer)
            found.append(ProducerAdvice(producer=producer, dialects=tuple(names), calls=calls, missing=alike))
    return sorted(found, key=lambda one: not any(each.is_problem for group in one.missing.values() for each in group))
