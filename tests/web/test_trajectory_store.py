"""What is kept of the latest trajectories, and what it costs."""

import gc
import tracemalloc
from collections.abc import Callable

from msgspec.structs import replace

from tests.export.scorecards import (
    call,
    call_result,
    failed,
    passed,
    scorecard,
    shadow,
    trajectory,
    trajectory_result,
)
from tests.rows import each_row
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Errored, NotEvaluated, Result, Scorecard
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Message, ToolCall, Trajectory
from toolgauge.web.trajectory_store import TrajectoryStore

PLENTY = 1 << 30
PASSED, FAILED = trajectory_result(passed()), trajectory_result(failed())


def numbered(number: int, *results: Result, of: Trajectory | None = None) -> Scorecard:
    return scorecard(*results, of=replace(trajectory(call()) if of is None else of, trace_id=f"{number:032x}"))


def filled(store: TrajectoryStore, *scorecards: Scorecard) -> TrajectoryStore:
    for card in scorecards:
        store.add(card)
    return store


def numbers(store: TrajectoryStore) -> list[int]:
    """Return the numbers of the trace ids, the newest first."""
    return [int(kept.id, 16) for kept in store.newest()]


def of_value(value: Json) -> Trajectory:
    return trajectory(replace(call(), arguments=Recorded(value)))


def test_the_newest_are_kept():
    store = filled(TrajectoryStore(3, PLENTY), *(numbered(number, PASSED) for number in range(5)))

    assert numbers(store) == [4, 3, 2]
    assert (len(store), store.added, store.evicted) == (3, 5, 2)
    assert store.find(f"{1:032x}") is None
    kept = store.find(f"{4:032x}")
    assert kept is not None
    assert (kept.number, kept.is_failed) == (5, False)


def test_passes_push_no_failure_out_of_its_half():
    failures = [numbered(number, FAILED) for number in range(1, 4)]
    store = filled(TrajectoryStore(4, PLENTY), *failures, *(numbered(number, PASSED) for number in range(10, 50)))
    assert numbers(store) == [19, 18, 3, 2]

    filled(store, *(numbered(number, FAILED) for number in range(90, 95)))
    assert numbers(store) == [94, 93, 19, 18]


def test_without_room_left_some_of_each_second_are_kept():
    store = filled(TrajectoryStore(100, PLENTY), *(numbered(number, PASSED) for number in range(1, 301)))
    assert numbers(store) == list(range(101, 1, -1))

    filled(store, *(numbered(number, FAILED) for number in range(301, 401)))
    assert numbers(store)[:10] == list(range(310, 300, -1))
    assert numbers(store)[10:] == list(range(101, 11, -1))
    assert (store.added, store.evicted) == (111, 300)

    later = replace(numbered(500, PASSED), scored_at_ns=store.newest()[0].scored_at_ns + 1_000_000_000)
    assert numbers(filled(store, later))[0] == 500


def test_large_passes_push_no_failure_out_of_its_half():
    large = of_value("x" * 20_000)
    failures = [numbered(number, FAILED, of=large) for number in (1, 2)]
    store = filled(TrajectoryStore(500, 100_000), *failures, *(numbered(n, PASSED, of=large) for n in range(10, 30)))
    assert numbers(store) == [19, 18, 2, 1]


@each_row(
    ("results", "is_failed"),
    [
        ((FAILED,), True),
        ((trajectory_result(Errored(error_type="ValueError", message="")),), True),
        ((PASSED, trajectory_result(NotEvaluated(reason="no_calls"))), False),
        ((shadow(FAILED),), False),
        ((), False),
    ],
)
def test_what_failed_is_what_a_live_criterion_failed(results: tuple[Result, ...], *, is_failed: bool):
    [kept] = filled(TrajectoryStore(1, PLENTY), numbered(1, *results)).newest()
    assert kept.is_failed is is_failed


def test_results_of_judges_are_added_to_what_is_kept():
    store = filled(TrajectoryStore(2, PLENTY), numbered(1, PASSED), numbered(2, PASSED))
    changes = store.changes
    late = replace(numbered(1, trajectory_result(failed(), "judged")), by_judges=True)
    filled(store, late, replace(late, trajectory=trajectory()))

    [second, first] = store.newest()
    assert [result.criterion for result in first.results] == ["refund-f1", "judged"]
    assert (first.is_failed, first.number, second.is_failed) == (True, 1, False)
    assert (store.added, store.changes) == (2, changes + 1)
    # It is a failure from here on, and stays while passes come.
    filled(store, numbered(3, PASSED), numbered(4, PASSED))
    assert numbers(store) == [4, 1]


def test_one_that_is_larger_than_all_the_room_pushes_nothing_out():
    store = filled(TrajectoryStore(5, 50_000), numbered(1, PASSED), numbered(2, FAILED))
    schema: JsonObject = {"enum": ["x" * 60_000]}
    offer = (ToolDefinition(name="t", parameters=schema),)
    filled(
        store,
        numbered(3, FAILED, of=of_value("x" * 60_000)),
        numbered(4, PASSED, of=replace(trajectory(call()), tools_offered=offer)),
        replace(numbered(1, call_result(failed(explanation="x" * 60_000))), by_judges=True),
    )

    assert numbers(store) == [2]
    assert store.evicted == 3
    assert 0 < store.size_bytes < 10_000


LARGE = "word " * 40_000


def numbered_call(number: int) -> ToolCall:
    span = SpanRef(f"{number:032x}", f"{number:016x}")
    arguments = Recorded({"order": f"A-{number}", "amount": number + 0.5})
    asked = SpanRef(span.trace_id, f"{number + 5000:016x}")
    times = {"start_ns": number * 10**9, "end_ns": number * 10**9 + 10**8}
    return replace(call(span=span), call_id=f"call_{number}", arguments=arguments, requested_by=asked, **times)


@each_row(
    "make",
    [
        lambda: of_value({"rows": [{"id": number, "name": f"row {number}"} for number in range(3000)]}),
        lambda: trajectory(replace(call(), result=Unparsed(text=LARGE + "."))),
        lambda: trajectory(*(numbered_call(number) for number in range(1000))),
        lambda: replace(
            trajectory(call()),
            messages=tuple(Message(role="user", text=f"{LARGE}{number}", turn=0) for number in range(3)),
        ),
        lambda: replace(trajectory(call()), attributes={"long": LARGE + "."}),
    ],
    ids=["an object", "a text", "many calls", "messages", "an attribute"],
)
def test_the_bytes_of_something_large_are_about_what_python_takes(make: Callable[[], Trajectory]):
    with measured() as taken:
        card = numbered(1, PASSED, of=make())
    store = filled(TrajectoryStore(5, PLENTY), card)

    assert 0.7 < store.size_bytes / taken[0] < 2


class measured:  # noqa: N801 (a context manager, as those of contextlib are named)
    """Measure how many bytes more Python holds at the end than at the beginning."""

    def __enter__(self) -> list[int]:
        gc.collect()
        tracemalloc.start(1)
        self._taken: list[int] = []
        return self._taken

    def __exit__(self, *_: object) -> None:
        gc.collect()
        self._taken.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
