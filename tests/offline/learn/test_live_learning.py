"""Learning from a running service: how much time it takes, for whom, and when it ends."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from tests.offline.learn.support import refund
from toolgauge.model.delivery import Outgoing
from toolgauge.model.learning import EndLearning, LearningState
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.trajectory import Trajectory
from toolgauge.offline.learn.live_learning import LEASE_NS, Clocks, LiveLearning, LiveSession
from toolgauge.score.criterion import ToolKinds
from toolgauge.score.scorer import ReadingScope
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.process import Faults

SECOND = 1_000_000_000
MS = 1_000_000
KINDS = ToolKinds(read_only=(), writes=(), neutral=())
ALL = ReadingScope(conversations=True, content=True)


@dataclass
class Clock:
    """Time passes as tests have it, and learning from a run takes `run_ns` of CPU time."""

    now_ns: int = 0
    run_ns: int = 0
    cpu_ns: int = 0

    def __call__(self) -> int:
        return self.now_ns

    def cpu_time(self) -> int:
        self.cpu_ns += self.run_ns
        return self.cpu_ns

    @property
    def clocks(self) -> Clocks:
        return Clocks(passed=self, cpu_time=self.cpu_time)


@dataclass
class Sink:
    scorecards: list[Scorecard] = field(default_factory=list[Scorecard])

    def record(self, scorecard: Scorecard) -> None:
        self.scorecards.append(scorecard)

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        del scorecards
        return ()


def trace(number: int) -> Trajectory:
    return replace(refund(number), scope="trace")


def scorecard(trajectory: Trajectory, *, by_judges: bool = False) -> Scorecard:
    return Scorecard(trajectory=trajectory, results=(), scored_at_ns=0, by_judges=by_judges)


def session(clock: Clock, reading: ReadingScope = ALL) -> LiveSession:
    return LiveSession(3600 * SECOND, reading, KINDS, clock.clocks)


def ending(id_: str) -> EndLearning:
    return EndLearning(id=id_, min_runs=20, tolerance=0.01, false_alarms=0.05)


def observed(clock: Clock) -> tuple[LiveLearning, Sink, Callable[[Trajectory], None]]:
    learning, sink = LiveLearning(KINDS, clock.clocks), Sink()
    learning.faults = Faults(SelfMetrics(MetricRegistry()))
    wrapped = learning.observe(sink)
    return learning, sink, lambda trajectory: wrapped.record(scorecard(trajectory))


def test_learning_takes_four_percent_of_the_time_however_many_runs_come():
    clock = Clock(run_ns=10 * MS)
    learns = session(clock)
    # 50 % of the time without a bound.
    for number in range(10_000):
        clock.now_ns += 20 * MS
        learns.add(partial(refund, number % 10))
    assert learns.runs + learns.skipped == 10_000
    # Of 200 s that is 8 s, beside 0.4 s that are given at the start.
    assert learns.runs == 840


def test_few_runs_are_all_learned_from():
    clock = Clock(run_ns=10 * MS)
    learns = session(clock)
    for number in range(100):
        clock.now_ns += SECOND
        learns.add(partial(refund, number))
    assert (learns.runs, learns.skipped) == (100, 0)


def test_after_a_run_that_takes_long_others_are_left_out():
    clock = Clock(run_ns=2 * SECOND)
    learns = session(clock)
    learns.add(partial(refund, 1))
    clock.run_ns = 0
    for number in range(50):
        clock.now_ns += SECOND
        learns.add(partial(refund, number))
    # 1.6 s more than there were take 40 s.
    assert (learns.runs, learns.skipped) == (11, 40)


def test_what_was_skipped_stands_at_the_top_of_the_file():
    clock = Clock(run_ns=10 * MS)
    learns = session(clock)
    for number in range(100):
        learns.add(partial(refund, number))
    learned = learns.learned(ending(learns.id))
    assert (learned.runs, learned.skipped) == (40, 60)
    assert "# 60 further runs were left out: learning may take 4 % of the time of a core.\n" in learned.text


def test_quiet_hours_save_no_time_for_a_burst():
    clock = Clock(run_ns=10 * MS)
    learns = session(clock)
    clock.now_ns += 3000 * SECOND
    for number in range(100):
        learns.add(partial(refund, number))
    assert (learns.runs, learns.skipped) == (40, 60)


def test_where_conversations_are_joined_a_trace_is_a_part():
    clock = Clock()
    joined, apart = session(clock), session(clock, ReadingScope(conversations=False, content=True))
    for learns in (joined, apart):
        learns.add(partial(trace, 1))
        learns.add(lambda: replace(trace(2), conversation_id=None))
    assert (joined.runs, apart.runs) == (1, 2)


def test_criteria_learned_from_traces_look_at_traces():
    learns = session(Clock(), ReadingScope(conversations=False, content=True))
    for number in range(40):
        learns.add(partial(trace, number))
    text = learns.learned(ending(learns.id)).text
    assert "scope: trace" in text
    assert "scope: conversation" not in text


def test_unread_content_is_named_at_the_top():
    learns = session(Clock(), ReadingScope(conversations=False, content=False))
    assert "did not read them: nothing is learned of where values come from" in learns.learned(ending(learns.id)).text


async def test_every_scorecard_goes_on_and_those_of_judges_are_no_further_runs():
    learning, sink, record = observed(Clock())
    record(refund(1))
    id_ = learning.begin(60 * SECOND)
    assert id_ is not None
    record(refund(2))
    learning.observe(sink).record(scorecard(refund(2), by_judges=True))
    assert learning.state(id_) == LearningState(left_ns=60 * SECOND, runs=1, calls=2, skipped=0)
    assert len(sink.scorecards) == 3
    await learning.stop()


async def test_one_client_learns_at_a_time_until_it_has_what_was_learned():
    clock = Clock()
    learning, _, record = observed(clock)
    first = learning.begin(60 * SECOND)
    assert first is not None
    assert learning.begin(SECOND) is None
    for number in range(40):
        record(refund(number))
    clock.now_ns += 61 * SECOND
    record(refund(40))
    assert learning.begin(SECOND) is None
    learned, again = await learning.end(ending(first)), await learning.end(ending(first))
    assert learned is not None
    assert again is learned
    assert learned.runs == 40
    assert "- {before: refund, call: find_order}  # 40 of 40 runs" in learned.text
    assert "# Live traffic: 40 runs in 1m.\n" in learned.text
    assert learning.begin(SECOND) is not None
    assert learning.state(first) is await learning.end(ending(first)) is None
    await learning.stop()


async def test_what_no_client_asks_for_is_dropped():
    clock = Clock()
    learning, _, _ = observed(clock)
    id_ = learning.begin(3600 * SECOND)
    assert id_ is not None
    clock.now_ns += LEASE_NS - 1
    assert learning.state(id_) is not None
    clock.now_ns += LEASE_NS
    learning.look()
    assert learning.adding is None
    assert learning.state(id_) is None
    assert learning.begin(SECOND) is not None
    await learning.stop()


async def test_a_run_that_cannot_be_learned_from_costs_no_scorecard():
    class Broken(Clock):
        def cpu_time(self) -> int:
            raise ArithmeticError

    learning, sink, record = observed(Broken())
    learning.begin(60 * SECOND)
    record(refund(1))
    assert len(sink.scorecards) == 1
    await learning.stop()


async def test_stop_works_twice_and_without_a_start():
    learning, _, _ = observed(Clock())
    await learning.stop()
    learning.begin(SECOND)
    await asyncio.sleep(0)
    await learning.stop()
    await learning.stop()
    assert learning.adding is None
