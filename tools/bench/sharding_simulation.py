"""What sharding costs when runs are long, conversations are uneven, and instances come, go and restart. Seeded; no process is started.

    python -m tools.bench.sharding_simulation [--instances 8] [--rate 1600] [--minutes 30] [--by trace conversation] [--seed 1]

Traffic: conversations with a heavy tail of turns; each turn is one trace, with heavy tails of spans and of seconds. A trace is open from its
first span until 6 s after its last (`run_end_grace`), a conversation until 10 minutes after its last. Ways to spread it:

memory   a load balancer with consistent hashing; what is open is lost when an instance restarts
journal  the same, with stable names and a journal: a restart in place loses nothing
log      partitions of a log (Kafka): the next owner reads again from the first span of the oldest open trajectory, and no further back
         than 15 minutes (`max_uncommitted`): what is open longer is cut when its partition moves

Halfway every instance restarts, one after the other; at two thirds one instance is added. Printed are the open bytes of an instance over all
seconds and instances (for 1,000 spans a second of it), the share of trajectories that were seen in parts, how many seconds of its traffic a
partition that moves is read again, and the balance (most loaded instance over the mean). `--span-bytes` and `--trajectory-bytes` come from `tools.bench.open_trajectories`.
"""

import argparse
import hashlib
import heapq
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Way: TypeAlias = Literal["memory", "journal", "log"]
By: TypeAlias = Literal["trace", "conversation"]

WAYS: tuple[Way, ...] = ("memory", "journal", "log")
_GRACE_S: dict[By, float] = {"trace": 6.0, "conversation": 600.0}
# A part whose root went to another instance closes this long after its last span (`open_idle_timeout`).
_OPEN_IDLE_S = 900.0
_RESTART_EVERY_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Spans by time (seconds), each with the number of its trace or conversation, and how many spans each of these has."""

    spans: Sequence[tuple[float, int]]
    sizes: Counter[int]


def traffic(*, rate: float, seconds: float, by: By, seed: int) -> Traffic:
    """Draw conversations until `rate` spans a second are reached on average over `seconds`.

    Turns: Pareto with a mean of some 4, at most 2,000. Spans of a turn: log-normal, median 12, at most 5,000. Seconds of a turn:
    log-normal, median 20, at most two hours. Between turns: a minute in the mean. What would come later is left out.
    """
    draw = random.Random(seed)  # noqa: S311 (a simulation)
    spans: list[tuple[float, int]] = []
    trace = conversation = 0
    while len(spans) < rate * seconds:
        moment = draw.uniform(0, seconds)
        for _ in range(min(2000, int(draw.paretovariate(1.3)))):
            count = min(5000, max(1, round(draw.lognormvariate(2.5, 1.0))))
            lasts = min(7200.0, draw.lognormvariate(3.0, 1.2))
            key = trace if by == "trace" else conversation
            times = (moment + lasts * step / count for step in range(1, count + 1))
            spans += [(each, key) for each in times if each < seconds]
            trace += 1
            moment += lasts + draw.expovariate(1 / 60)
            if moment > seconds:
                break
        conversation += 1
    spans.sort()
    return Traffic(spans=spans, sizes=Counter(key for _, key in spans))


@dataclass(slots=True)
class Outcome:
    """What came of a way to spread spans."""

    whole: Counter[int] = field(default_factory=Counter[int])
    parts: Counter[int] = field(default_factory=Counter[int])
    # By partition: how often it was read again from what was committed, and how many spans of it were.
    moved: Counter[int] = field(default_factory=Counter[int])
    repeated: Counter[int] = field(default_factory=Counter[int])
    open_bytes: list[int] = field(default_factory=list[int])
    load: Counter[int] = field(default_factory=Counter[int])


class Fleet:
    """Instances with what is open in each; time goes on span by span."""

    def __init__(
        self,
        *,
        way: Way,
        by: By,
        instances: int,
        partitions: int,
        sizes: Counter[int],
        span_bytes: int,
        trajectory_bytes: int,
        max_uncommitted_s: float,
    ) -> None:
        self.outcome = Outcome()
        self._way, self._grace_s, self._sizes = way, _GRACE_S[by], sizes
        self._bytes = span_bytes, trajectory_bytes
        self._max_uncommitted_s = max_uncommitted_s
        self._members = list(range(instances))
        self._partitions = partitions
        self._owners = [self._rendezvous(partition) for partition in range(partitions)]
        # Open parts of each instance: the spans that it has of a trajectory; and what they sum up to.
        self._open: list[dict[int, int]] = [{} for _ in range(instances)]
        self._open_spans = [0] * instances
        self._closings: list[tuple[float, int, int]] = []
        self._last: dict[tuple[int, int], float] = {}
        # What the log keeps of each partition: all that is not yet committed, with its time.
        self._log: list[list[tuple[float, int]]] = [[] for _ in range(partitions)]
        self._closed: set[int] = set()
        self._seen: Counter[int] = Counter()

    def _rendezvous(self, partition: int) -> int:
        """Choose the member with the highest hash: one that comes takes its share from all, and no other moves."""
        return max(self._members, key=lambda member: hashlib.blake2b(b"%d:%d" % (partition, member)).digest())

    def _partition(self, key: int) -> int:
        return int.from_bytes(hashlib.blake2b(b"%d" % key, digest_size=8).digest()) % self._partitions

    def receive(self, now: float, key: int) -> None:
        """Take a span to the owner of its partition."""
        self._close_until(now)
        partition = self._partition(key)
        owner = self._owners[partition]
        self.outcome.load[owner] += 1
        self._seen[key] += 1
        if self._way == "log":
            self._log[partition].append((now, key))
        self._add(now, owner, key)

    def _add(self, now: float, owner: int, key: int) -> None:
        spans = self._open[owner]
        spans[key] = spans.get(key, 0) + 1
        self._open_spans[owner] += 1
        self._last[owner, key] = now
        if self._seen[key] == self._sizes[key]:
            heapq.heappush(self._closings, (now + self._grace_s, owner, key))

    def _close_until(self, now: float) -> None:
        while self._closings and self._closings[0][0] <= now:
            at, owner, key = heapq.heappop(self._closings)
            # It may have gone to another instance, or with one that restarted, since.
            if key in self._open[owner]:
                self._close(at, owner, key)

    def _close(self, now: float, owner: int, key: int) -> None:
        spans = self._open[owner].pop(key)
        self._open_spans[owner] -= spans
        del self._last[owner, key]
        which = self.outcome.whole if spans == self._sizes[key] else self.outcome.parts
        which[key] += 1
        self._closed.add(key)
        if self._way == "log":
            self._commit(now, self._partition(key))

    def _commit(self, now: float, partition: int) -> None:
        """Let the log forget what comes before the first span of the oldest open trajectory, and what is too old."""
        log, oldest = self._log[partition], now - self._max_uncommitted_s
        open_here = self._open[self._owners[partition]]
        needed = (number for number, (at, key) in enumerate(log) if at >= oldest and key in open_here)
        del log[: next(needed, len(log))]

    def restart(self, now: float, member: int) -> None:
        """End an instance and start it again in its place."""
        self._close_until(now)
        if self._way == "memory":
            for key in list(self._open[member]):
                self._lose(member, key)
        if self._way == "log":
            for partition in [number for number, owner in enumerate(self._owners) if owner == member]:
                self._move(now, partition, member)

    def _lose(self, member: int, key: int) -> None:
        self._open_spans[member] -= self._open[member].pop(key)
        del self._last[member, key]
        self.outcome.parts[key] += 1

    def add_instance(self, now: float) -> None:
        """Start one more instance, which gets its share of the partitions."""
        self._close_until(now)
        self._members.append(len(self._members))
        self._open.append({})
        self._open_spans.append(0)
        for partition, before in enumerate(list(self._owners)):
            after = self._rendezvous(partition)
            if after == before:
                continue
            if self._way == "log":
                self._move(now, partition, after)
            self._owners[partition] = after
            for key in [each for each in self._open[before] if self._partition(each) == partition]:
                # The part stays behind; its end comes elsewhere.
                heapq.heappush(self._closings, (self._last[before, key] + _OPEN_IDLE_S, before, key))

    def _move(self, now: float, partition: int, after: int) -> None:
        """Give up what is open of a partition, and read it again from what was committed."""
        self._commit(now, partition)
        before = self._owners[partition]
        given_up = [each for each in self._open[before] if self._partition(each) == partition]
        for key in given_up:
            self._open_spans[before] -= self._open[before].pop(key)
            del self._last[before, key]
        self._owners[partition] = after
        self.outcome.moved[partition] += 1
        for _, key in self._log[partition]:
            self.outcome.repeated[partition] += 1
            if key not in self._closed:
                self._add(now, after, key)
        # Of these not even the last span is read again.
        self.outcome.parts.update(key for key in given_up if key not in self._open[after])

    def look(self) -> None:
        """Note how much is open in each instance."""
        of_span, of_trajectory = self._bytes
        for member in self._members:
            weight = self._open_spans[member] * of_span + len(self._open[member]) * of_trajectory
            self.outcome.open_bytes.append(weight)

    def end(self) -> None:
        """Close everything that is still open."""
        self._close_until(float("inf"))
        for owner, spans in enumerate(self._open):
            for key in list(spans):
                self._close(float("inf"), owner, key)


def simulate(
    traffic: Traffic,
    *,
    way: Way,
    by: By,
    instances: int,
    partitions: int,
    seconds: float,
    span_bytes: int,
    trajectory_bytes: int,
    restarted: Sequence[int],
    adds: bool,
    max_uncommitted_s: float = 900.0,
) -> Outcome:
    """Spread the traffic over instances, of which some restart, one after the other; perhaps one is added."""
    fleet = Fleet(
        way=way,
        by=by,
        instances=instances,
        partitions=partitions,
        sizes=traffic.sizes,
        span_bytes=span_bytes,
        trajectory_bytes=trajectory_bytes,
        max_uncommitted_s=max_uncommitted_s,
    )
    restarts = [(seconds / 2 + place * _RESTART_EVERY_S, member) for place, member in enumerate(restarted)]
    add_at, look_at = seconds * 2 / 3 if adds else float("inf"), 0.0
    for now, key in traffic.spans:
        while restarts and restarts[0][0] <= now:
            fleet.restart(*restarts.pop(0))
        if add_at <= now:
            fleet.add_instance(now)
            add_at = float("inf")
        if look_at <= now:
            fleet.look()
            look_at = now + 1
        fleet.receive(now, key)
    fleet.end()
    return fleet.outcome


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which this share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> None:
    """Simulate every way and print a table."""
    arguments = _arguments()
    seconds = arguments.minutes * 60
    of_instance = arguments.rate / arguments.instances / 1000
    print(f"{'':22} MiB open, for 1,000 spans a second")
    print(f"{'by':13} {'way':8} {'p50':>9} {'p99':>7} {'max':>7} {'in parts':>9} {'read again':>11} {'balance':>8}")
    for by in arguments.by:
        drawn = traffic(rate=arguments.rate, seconds=seconds, by=by, seed=arguments.seed)
        for way in WAYS:
            outcome = simulate(
                drawn,
                way=way,
                by=by,
                instances=arguments.instances,
                partitions=arguments.partitions,
                seconds=seconds,
                span_bytes=arguments.span_bytes,
                trajectory_bytes=arguments.trajectory_bytes,
                restarted=range(arguments.instances),
                adds=True,
            )
            # The first third is empty at its beginning.
            steady = outcome.open_bytes[len(outcome.open_bytes) // 3 :]
            p50, p99, most = (percentile(steady, share) / 2**20 / of_instance for share in (0.5, 0.99, 1.0))
            moved = outcome.moved.total() * arguments.rate / arguments.partitions
            again = outcome.repeated.total() / moved if moved else 0.0
            first = [outcome.load[member] for member in range(arguments.instances)]
            balance = max(first) / (sum(first) / len(first))
            in_parts = len(outcome.parts) / len(drawn.sizes)
            print(f"{by:13} {way:8} {p50:9.0f} {p99:7.0f} {most:7.0f} {in_parts:9.2%} {again:9.0f} s {balance:8.2f}")
        print(f"{'':13} {len(drawn.spans)} spans of {len(drawn.sizes)} trajectories")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--partitions", type=int, default=256, help="of the log, and of the balancer's hash")
    parser.add_argument("--rate", type=float, default=1600, help="spans a second, of all instances together")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--by", nargs="+", choices=("trace", "conversation"), default=("trace", "conversation"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--span-bytes", type=int, default=1630, help="memory of an open span")
    parser.add_argument(
        "--trajectory-bytes", type=int, default=1620, help="memory of an open trajectory besides its spans"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
