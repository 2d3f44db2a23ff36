"""What two workers hand over makes one watch, one view and one summary: those of one process."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.cli.test_live_lines import Screen, on
from tests.watch.support import SECOND, START, offered, scorecard, settings
from tests.web.support import recorded_scorecards
from toolgauge.model.delivery import Outgoing
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.notices import Notice
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.regressions import Arm, Regression, ToolDefinitionChange
from toolgauge.pipeline.stages import ObservedSink
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.workers.worker_observations import Observations, Viewers, WorkerObserver
from toolgauge.watch.watcher import Watcher
from toolgauge.web.trajectory_store import TrajectoryStore

WORKERS = 2
FRAMEWORKS = ("openai-agents", "google-adk", "pydantic-ai", "traceloop-langgraph")
LATER = START + 100_000 * SECOND


class Sink:
    """Keeps nothing."""

    def record(self, scorecard: Scorecard) -> None:
        del scorecard

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        del scorecards
        return ()


class Front:
    """The front's side of two workers, whose messages wait until the test has them read."""

    def __init__(self, *, shown: int = 1000, shown_per_second: int = 25, clock: Callable[[], int] = lambda: START):
        self.waiting: list[list[bytes]] = [[] for _ in range(WORKERS)]
        self.observers = [WorkerObserver(partial(self.send, number), clock=clock) for number in range(WORKERS)]
        self.sinks = [ObservedSink(Sink(), observer.add) for observer in self.observers]
        self.watcher = watcher()
        self.regressions: list[Regression] = []
        self.notices: list[Notice] = []
        self.screen = Screen()
        self.lines = on(self.screen)
        self.store = TrajectoryStore(1000, 1 << 30)
        self.is_full = False
        self.observations = Observations(
            watcher=self.watcher,
            on_regressions=self.regressions.extend,
            on_notices=self.notices.extend,
            viewers=Viewers(
                [self.lines.show, self.store.add],
                shown=shown,
                shown_per_second=shown_per_second,
                count=self.lines.count,
            ),
            metrics=SelfMetrics(MetricRegistry()),
            clock=clock,
        )
        for observer in self.observers:
            observer.control(self.observations.wishes)

    def send(self, number: int, message: bytes) -> bool:
        if not self.is_full:
            self.waiting[number].append(message)
        return not self.is_full

    def read(self, number: int, now_ns: int = START) -> None:
        self.observations.read(self.waiting[number].pop(0), now_ns)

    def score(self, number: int, card: Scorecard) -> None:
        """Have a worker score, and the front know of it at once."""
        self.sinks[number].record(card)
        self.observers[number].flush()
        self.read(number, card.scored_at_ns)


def watcher() -> Watcher:
    return Watcher(settings(), SelfMetrics(MetricRegistry()).watch)


@cache
def recorded() -> tuple[Scorecard, ...]:
    cards = [card for framework in FRAMEWORKS for card in recorded_scorecards(framework)]
    return tuple(replace(card, scored_at_ns=START + number * SECOND) for number, card in enumerate(cards))


def worker_of(card: Scorecard) -> int:
    return int(card.trajectory.trace_id, 16) % WORKERS


def counts(arms: Iterable[Arm]) -> dict[str, tuple[int, float]]:
    return {repr((arm.stream, arm.version)): (arm.observations, round(arm.sum, 9)) for arm in arms}


def kept(store: TrajectoryStore) -> dict[str, object]:
    return {one.id: (one.trajectory, one.results) for one in store.newest()}


def summary(screen: Screen) -> list[str]:
    (first,) = (number for number, line in enumerate(screen.lines) if " trajectories, " in line)
    return sorted(screen.lines[first:])


def test_a_tool_that_changes_between_two_workers_is_found_at_the_front():
    front, changes = Front(), list[ToolDefinitionChange]()
    front.watcher.on_tool_changes = lambda found, _capped: changes.extend(found)
    for number, kind in enumerate(("string", "integer")):
        tool = ToolDefinition(name="find_order", parameters={"properties": {"id": {"type": kind}}})
        front.score(number, offered(number, tool))
    front.observations.tick(LATER)
    assert [(change.kind, change.path) for change in changes] == [("breaking", "$.parameters.properties.id.type")]


@examples(max_examples=5)
@given(st.data())
def test_messages_in_any_order_give_what_one_process_shows_and_counts(data: st.DataObject):
    front, alone = Front(), watcher()
    store, screen = TrajectoryStore(1000, 1 << 30), Screen()
    lines = on(screen)
    for card in recorded():
        front.sinks[worker_of(card)].record(card)
        if data.draw(st.integers(0, 9)) == 0:
            front.observers[worker_of(card)].flush()
        alone.observe(card)
        store.add(card)
        lines.show(card)
    for observer in front.observers:
        observer.flush()
    while any(front.waiting):
        front.read(data.draw(st.sampled_from([number for number in range(WORKERS) if front.waiting[number]])))
    front.observations.tick(LATER)
    alone.tick(LATER)
    assert counts(front.watcher.arms()) == counts(alone.arms())
    assert kept(front.store) == kept(store)
    front.lines.summary()
    lines.summary()
    assert summary(front.screen) == summary(screen)


def test_a_drop_that_both_workers_see_a_part_of_is_one_incident():
    front = Front()
    for number in range(400):
        fails = number % 20 == 0 if number < 300 else number % 2 == 0
        card = scorecard(number, [("find", float(not fails))], at_ns=START + number * SECOND)
        front.score(number // 2 % 2, card)
    assert sorted((one.phase, one.stream.tool or "") for one in front.regressions) == [("began", ""), ("began", "find")]
    assert len({one.incident for one in front.regressions}) == 1


def test_a_busy_worker_hands_over_some_of_each_second_and_counts_the_others():
    now_ns = START
    front = Front(shown=10, shown_per_second=5, clock=lambda: now_ns)
    for number in range(100):
        front.sinks[0].record(scorecard(number, [("find", 1.0)], at_ns=START))
    front.observers[0].flush()
    assert int.from_bytes(front.waiting[0][0][:4]) == 100
    front.read(0)
    assert len(front.store) == 10
    now_ns += SECOND
    for number in range(100, 200):
        front.sinks[0].record(scorecard(number, [("find", float(number % 2))], at_ns=START))
    front.observers[0].flush()
    front.read(0)
    # Five that failed, and five of the others.
    assert len(front.store) == 20
    front.lines.summary()
    assert any("200 trajectories" in line for line in front.screen.lines)
    assert sum("more" in line for line in front.screen.lines) == 1
    assert {arm.observations for arm in front.watcher.arms()} == {200}


def test_scorecards_that_find_no_room_on_their_way_are_counted():
    front = Front()
    front.is_full = True
    for number in range(7):
        front.sinks[0].record(scorecard(number, [("find", 1.0)], at_ns=START))
    front.observers[0].flush()
    assert front.observers[0].dropped == 7
