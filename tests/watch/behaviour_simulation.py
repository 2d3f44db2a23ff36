"""Simulated conversations of an agent that looks orders up and refunds some: shared by the tests and by `tools/bench/drift.py`."""

import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from tests.watch.support import HOUR, MINUTE, SECOND, START, watch_metrics
from toolgauge.model.regressions import Regression
from toolgauge.watch.open_conversations import Scores, TrajectoryScores
from toolgauge.watch.settings import WatchSettings
from toolgauge.watch.watcher import Watcher

DAY = 24 * HOUR
LOOKUP, REFUND, SEARCH = "lookup_order", "refund_order", "search_help"
_WHOSE = "support", "prod", "orders"


def conversation(
    number: int, at_ns: int, tools: Sequence[str], scores: Sequence[float], version: str = "1.1", more: int = 0
) -> TrajectoryScores:
    """Return a conversation that made these calls, each with its score, and as many more scores that are 1."""
    found: dict[Scores, int] = {}
    others = tuple((f"default.more_{place}", "r1", "call", 1.0) for place in range(more))
    for tool, score in zip(tools, scores, strict=True):
        one = Scores(*_WHOSE, tool, (("default.tool_success", "r1", "call", score), *others))
        found[one] = found.get(one, 0) + 1
    whole = Scores(*_WHOSE, None, (("default.finished", "r1", "trajectory", min(scores, default=1.0)),))
    found |= {whole: 1, Scores(*_WHOSE, None, (), tuple(dict.fromkeys(tools))): len(tools)}
    return TrajectoryScores(None, {"service.version": version}, at_ns, f"{number:032x}", found)


class Mix(NamedTuple):
    """Conversations of two kinds, questions and refunds.

    The share of refunds and the traffic follow the time of the day, with other refunds on weekends; traffic grows from week to week.
    A refund without a lookup is rare. `ok` is the chance of each call to succeed.
    """

    refunds: float
    swing: float
    weekend: float
    phase: float
    a_day: float
    growth: float
    ok: float

    @classmethod
    def drawn(cls, random: Random, busiest: float) -> "Mix":
        """Draw a steady mix with 50 conversations a day or more."""
        refunds, swing = 0.3 + 0.4 * random.random(), 0.2 * random.random()
        a_day = 50 * (busiest / 50) ** random.random()
        return cls(
            refunds,
            swing,
            random.uniform(-0.1, 0.1),
            random.random() * 2 * math.pi,
            a_day,
            random.random(),
            random.uniform(0.9, 0.999),
        )

    def times(self, random: Random, length_ns: int) -> Iterator[int]:
        """Yield the time of each conversation since the start."""
        now_ns, busiest = 0.0, 1.8 * self.a_day * (1 + self.growth * length_ns / (14 * DAY))
        while (now_ns := now_ns + random.expovariate(busiest) * DAY) < length_ns:
            rate = (1 + 0.8 * self.wave(int(now_ns))) * self.a_day * (1 + self.growth * now_ns / (14 * DAY))
            if random.random() * busiest < rate:
                yield int(now_ns)

    def wave(self, now_ns: int) -> float:
        """Return the time of the day as a number from -1 to 1."""
        return math.sin(2 * math.pi * now_ns / DAY + self.phase)

    def drawn_calls(self, random: Random, now_ns: int, skipped: float = 0.01) -> list[str]:
        """Draw the calls of a conversation, with the chance that a refund comes without a lookup."""
        is_weekend = ((START + now_ns) // DAY + 3) % 7 > 4
        if random.random() < self.refunds + self.swing * self.wave(now_ns) + self.weekend * is_weekend:
            return [*([LOOKUP] if random.random() >= skipped else []), REFUND]
        return [LOOKUP] * random.randint(1, 3) + [SEARCH] * (random.random() < 0.3)


def alarms_of(mix: Mix, seed: int, weeks: float, **settings: object) -> list[Regression]:
    """Watch a steady mix; return the alarms, each of which is accepted at once."""
    random, found = Random(seed), list[Regression]()  # noqa: S311 repeatable
    watching = Watcher(WatchSettings.model_validate(settings), watch_metrics())
    for number, now_ns in enumerate(mix.times(random, int(weeks * 7 * DAY))):
        tools = mix.drawn_calls(random, now_ns)
        scores = [float(random.random() < mix.ok) for _ in tools]
        for one in watching.add(conversation(number, START + now_ns, tools, scores), START + now_ns):
            if one.phase == "began":
                found.append(one)
                stream = one.stream
                chosen = {"criterion": stream.criterion, "tool": stream.tool or "", "level": stream.level}
                watching.acknowledge(chosen, START + now_ns)
    return found


class Release(NamedTuple):
    """What is told of a release, and after how many conversations: that lookups are skipped, or that calls fail more often."""

    skips: int | None
    fails: int | None
    false: int
    first: Regression | None


def release(
    seed: int,
    *,
    known: int,
    refunds: float = 0.5,
    skipped: float = 0.01,
    ok: float = 0.95,
    more: int = 0,
    **settings: object,
) -> Release:
    """Release a version after so many conversations, one a minute, with a chance of skipped lookups and of successful calls."""
    random, false = Random(seed), 0  # noqa: S311 repeatable
    mix = Mix(refunds, 0.0, 0.0, 0.0, 0.0, 0.0, 0.95)
    watching = Watcher(WatchSettings.model_validate(settings), watch_metrics())
    found: dict[bool, int] = {}
    first: Regression | None = None
    for number in range(known + 3000):
        is_new, now_ns = number >= known, START + number * MINUTE + random.randrange(SECOND)
        tools = mix.drawn_calls(random, now_ns - START, skipped if is_new else 0.01)
        scores = [float(random.random() < (ok if is_new else 0.95)) for _ in tools]
        told = watching.add(conversation(number, now_ns, tools, scores, "1.2" if is_new else "1.1", more), now_ns)
        for one in told:
            if one.phase == "began" and is_new:
                first = first or one
                found.setdefault(one.stream.criterion.startswith("behaviour."), number + 1 - known)
            false += one.phase == "began" and not is_new
        if found and number > known + 400:
            break
    return Release(found.get(True), found.get(False), false, first)


def more_used(seed: int, share: float, a_day: float) -> int | None:
    """Return how many conversations it takes to notice that a tool is used in another share of them than in 30 %, after a week."""
    random = Random(seed)  # noqa: S311 repeatable
    watching = Watcher(WatchSettings(), watch_metrics())
    known, length_ns = int(7 * a_day), int(DAY / a_day)
    for number in range(known + 3000):
        now_ns = START + number * length_ns
        tools = [LOOKUP, *([SEARCH] if random.random() < (share if number >= known else 0.3) else [])]
        for one in watching.add(conversation(number, now_ns, tools, [1.0] * len(tools)), now_ns):
            if one.phase == "began" and number >= known:
                return number + 1 - known
    return None
