import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Event, Thread

from toolgauge.model.metrics import Counter, Exemplar, Histogram, MetricRegistry, snapshot

ROUNDS = 20_000


@contextmanager
def switching_often() -> Generator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def together(*work: Callable[[], None]) -> None:
    threads = [Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_two_threads_that_add_to_one_cell_lose_nothing():
    counter = MetricRegistry().counter("spans", "{span}", "Spans.", ("outcome",))

    def add() -> None:
        for _ in range(ROUNDS):
            counter.add(1, ("forwarded",))

    with switching_often():
        together(add, add)
    assert counter.value(("forwarded",)) == 2 * ROUNDS


def test_a_registry_is_copied_while_another_thread_makes_new_cells():
    registry = MetricRegistry()
    counter = registry.counter("calls", "{call}", "Calls.", ("tool",))
    gauge = registry.gauge("open", "{trace}", "Open.", ("tool",))
    histogram = registry.histogram("score", "1", "Scores.", (0.5,), ("tool",))
    done = Event()

    def count() -> None:
        for number in range(ROUNDS):
            labels = (str(number),)
            counter.cells[labels] = counter.cells.get(labels, 0) + 1
            gauge.set(1, labels)
            histogram.record(0.25, labels, Exemplar(0.25, number, "a" * 32, "b" * 16))
        done.set()

    seen: list[int] = []

    def copy() -> None:
        while not done.is_set():
            seen.append(len(snapshot(registry)[0].cells))

    with switching_often():
        together(count, copy)
    assert seen == sorted(seen)
    copied_counter, _, copied_histogram = snapshot(registry)
    assert isinstance(copied_counter, Counter)
    assert isinstance(copied_histogram, Histogram)
    assert sum(copied_counter.cells.values()) == ROUNDS
    assert sum(cell.count for cell in copied_histogram.cells.values()) == ROUNDS
